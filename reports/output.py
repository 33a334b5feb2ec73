"""Where a run's files go, and one audit rendered into text of any format."""

from __future__ import annotations

import datetime
import io
import os
import re
from collections.abc import Sequence
from pathlib import Path

from ftprof.advisors.audit import Audit
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.own_directories import refuse_inside
from ftprof.reports.write import AUDIT_NAME

ROOT = Path("ftprof-out")


def open_output(out: Path | None, name: str, *, force: bool, protected: Sequence[Path] = ()) -> Path:
    """The directory for a run's files, made and checked before anything is measured.

    Without `out`, a new one below ftprof-out/ with the model's name and the time. `protected` are the user's model
    directories, in which nothing is ever made. FtprofError where it cannot be written, lies in a protected directory,
    or holds files and `force` is off.
    """
    if out is None:
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60] or "model"
        out = ROOT / f"{stem}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    refuse_inside(out, protected, "--out")
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()) and not force:
            raise FtprofError(f"{out} is not empty", "give --out a new directory, or add --force", Exit.USAGE)
    except OSError as error:
        raise FtprofError(
            f"cannot write to {out}: {error.strerror or error}", "give --out a directory of your own", Exit.USAGE
        ) from error
    if not os.access(out, os.W_OK):
        raise FtprofError(f"cannot write to {out}", "give --out a directory of your own", Exit.USAGE)
    # With --force an older run's document may be here; it must not be taken for this run's if this one ends early.
    (out / AUDIT_NAME).unlink(missing_ok=True)
    return out


def rendered(audit: Audit, format: str) -> str:
    """The audit as "text", "html", "md" or "json"."""
    if format == "html":
        from ftprof.reports import html

        return html.render(audit)
    if format == "md":
        from ftprof.reports import markdown

        return markdown.render(audit)
    if format == "json":
        from ftprof.reports.document import serialised

        return serialised(audit).decode()
    return _text(audit)


TEXT_COLUMNS = 80
"""What every terminal and mail has."""


def _text(audit: Audit) -> str:
    from rich.console import Console

    from ftprof.reports import terminal

    buffer = io.StringIO()
    terminal.render(audit, Console(file=buffer, width=TEXT_COLUMNS, highlight=False))
    return buffer.getvalue()
