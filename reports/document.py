"""The audit as the bytes of `audit.json`."""

from __future__ import annotations

import hashlib

import msgspec

from ftprof.advisors.audit import Audit
from ftprof.reports.clean import cleaned


def serialised(audit: Audit) -> bytes:
    """The bytes of `audit.json`: the same before it was written and after it was read back.

    A name that is no text (the system's way to show a file name that is not UTF-8) is escaped.
    """
    try:
        compact = msgspec.json.encode(_canonical(audit))
    except UnicodeEncodeError:
        compact = msgspec.json.encode(cleaned(audit))
    return msgspec.json.format(compact, indent=2) + b"\n"


def digest(audit: Audit) -> str:
    """SHA-256 of `audit.json`, in hexadecimal: what `sha256sum` says of the file."""
    return hashlib.sha256(serialised(audit)).hexdigest()


def _canonical(audit: Audit) -> Audit:
    # A whole number in a field for numbers is written as 210 before and as 210.0 after reading.
    return msgspec.convert(msgspec.to_builtins(audit), Audit)
