"""A line of the table, and the run of one check: what it found, what broke, what could not be exercised."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

Verdict = Literal["ok", "FAILED", "not exercised"]


class Line(NamedTuple):
    """One claim, what was measured, and whether it holds."""

    what: str
    measured: str
    verdict: Verdict


class Missing(Exception):
    """A check cannot run here; the message says what is missing."""


def line(what: str, measured: object, holds: bool) -> Line:
    """ok or FAILED."""
    return Line(what, str(measured), "ok" if holds else "FAILED")


def run(name: str, check: Callable[[], Iterable[Line]], deadline: float) -> list[Line]:
    """The check's lines. Whatever it raises is a line too, so that the other checks still run."""
    if time.monotonic() > deadline:
        return [Line(name, "no time left", "not exercised")]
    began = time.monotonic()
    print(f"{name} ...", file=sys.stderr, flush=True)
    found: list[Line] = []
    try:
        found.extend(check())
    except Missing as error:
        found.append(Line(name, str(error), "not exercised"))
    except Exception as error:  # noqa: BLE001  each fault is a line, and the traceback goes to the log
        traceback.print_exc()
        found.append(Line(name, f"{type(error).__name__}: {error}".splitlines()[0], "FAILED"))
    print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    return found


def table(lines: Iterable[Line]) -> str:
    """Markdown."""
    rows = [f"| {one.what} | {one.measured.replace('|', '/')} | {one.verdict} |" for one in lines]
    return "\n".join(["| check | measured | verdict |", "|---|---|---|", *rows])


def status(lines: Iterable[Line], *, rehearse: bool) -> int:
    """1 where anything failed, or was not exercised; a rehearsal forgives the latter."""
    bad = {"FAILED"} if rehearse else {"FAILED", "not exercised"}
    return int(any(one.verdict in bad for one in lines))
