"""Write the reports of an audit, and read an audit back. Needs neither torch nor the model."""

from __future__ import annotations

import difflib
import os
import tempfile
from pathlib import Path

import msgspec

from ftprof.advisors.audit import SCHEMA_VERSION, Audit
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.reports.document import serialised

AUDIT_NAME = "audit.json"
PAGE_NAME = "report.html"
COMMENT_NAME = "report.md"
CARD_NAME = "README.md"


class _Header(msgspec.Struct, frozen=True):
    """What tells an audit of ours from any other JSON, and its age."""

    schema_version: int
    ftprof_version: str


def write_audit(audit: Audit, directory: Path) -> Path:
    """Write `audit.json` in one step, so that a reader never sees half of it. Cheap: fit for after every trial."""
    path = Path(directory) / AUDIT_NAME
    _replace(path, serialised(audit))
    return path


def write_reports(audit: Audit, directory: Path) -> None:
    """Write `audit.json`, `report.md` and `report.html`, each in one step. FtprofError where it cannot be written."""
    from ftprof.reports import html, markdown

    directory = Path(directory)
    # The audit first: whatever fails later, the measurements are safe.
    write_audit(audit, directory)
    _replace(directory / COMMENT_NAME, markdown.render(audit).encode("utf-8", "backslashreplace"))
    _replace(directory / PAGE_NAME, html.render(audit).encode("utf-8", "backslashreplace"))


def write_card(audit: Audit) -> None:
    """Write the card of the saved model into its directory; nothing where none was saved."""
    from ftprof.reports import card

    text = card.render(audit)
    if text is not None and audit.final is not None and audit.final.artefact is not None:
        _replace(Path(audit.final.artefact.path) / CARD_NAME, text.encode("utf-8", "backslashreplace"))


def load_audit(path: Path) -> Audit:
    """The audit in `path`, or in its `audit.json` if `path` is a directory. FtprofError where there is none."""
    path = Path(path)
    path = path / AUDIT_NAME if path.is_dir() else path
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise FtprofError(f"no such file: {path}", _instead_of(path), Exit.USAGE) from None
    except OSError as error:
        raise FtprofError(f"cannot read {path}: {error.strerror}", "check the path and its permissions") from error
    return _decode(data, path)


def _instead_of(path: Path) -> str:
    """What the user may have meant by a path where nothing is: an audit with a similar name beside it."""
    wanted = path.parent if path.name == AUDIT_NAME else path
    try:
        beside = [
            path.name for path in wanted.parent.iterdir() if path.suffix == ".json" or (path / AUDIT_NAME).is_file()
        ]
    except OSError:
        beside = []
    close = difflib.get_close_matches(wanted.name, beside, n=1)
    if close:
        return f"did you mean {wanted.parent / close[0]}?"
    return "give the audit.json that `ftprof diagnose` wrote"


def _decode(data: bytes, path: Path) -> Audit:
    try:
        header = msgspec.json.decode(data, type=_Header)
    except msgspec.ValidationError:
        raise FtprofError(f"{path} is JSON, but not an audit", "give the audit.json of `ftprof diagnose`") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise FtprofError(f"{path} is not whole JSON", "it may be cut off; run `ftprof diagnose` again") from None
    if header.schema_version > SCHEMA_VERSION:
        newer = f"{path} has schema {header.schema_version}, this ftprof reads up to {SCHEMA_VERSION}"
        raise FtprofError(newer, f"install ftprof {header.ftprof_version} or newer")
    try:
        return msgspec.json.decode(data, type=Audit)
    except msgspec.ValidationError as error:
        raise FtprofError(f"{path} is not a valid audit: {error}", "run `ftprof diagnose` again") from error


def _replace(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                # A temporary file is private; a report is as readable as any other new file.
                temporary.chmod(0o666 & ~_umask())
                temporary.replace(path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise FtprofError(
            f"cannot write {path}: {error.strerror}", "give another directory with --out", Exit.UNUSABLE
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
