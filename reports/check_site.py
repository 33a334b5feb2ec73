"""What a check must ask this machine: who it is, and what the files to be deployed are."""

from __future__ import annotations

from pathlib import Path

from ftprof.advisors.artefact_digest import artefact_digest
from ftprof.advisors.audit import Audit
from ftprof.profiler.digest import digest_directory
from ftprof.profiler.errors import FtprofError
from ftprof.reports.check_budget import Budget
from ftprof.reports.check_document import Site


def look(audit: Audit, budget: Budget, artefact: Path | None = None) -> Site:
    """What the budget's deployment table asks for, and nothing else: the fingerprint takes a second to import torch.

    `artefact` is where the files lie on this machine, if not where the audit says.
    """
    wanted = budget.deployment
    if wanted is None:
        return Site()
    fingerprint = ""
    if wanted.this_machine:
        from ftprof.profiler.machine import fingerprint as here

        fingerprint = here()
    if not wanted.artefact:
        return Site(fingerprint=fingerprint)
    changed = budget.subject == "best" and audit.final is not None and bool(audit.final.changes)
    saved = audit.final.artefact if audit.final is not None and changed else None
    directory = artefact or Path(saved.path if saved else audit.model.path).expanduser()
    digest, problem = _digest(directory, saved=saved is not None)
    return Site(fingerprint=fingerprint, directory=str(directory), digest=digest, problem=problem)


def _digest(directory: Path, *, saved: bool) -> tuple[str, str]:
    """The digest as the audit took it, or why there is none."""
    if not directory.exists():
        return "", f"there is no {directory} here; name the place with --artefact"
    try:
        found = artefact_digest(directory) if saved else digest_directory(directory)
        return found, "" if found else f"{directory} holds no weights"
    except OSError as error:
        return "", f"cannot read {error.filename or directory}: {error.strerror or error}"
    except FtprofError as error:
        return "", error.message
