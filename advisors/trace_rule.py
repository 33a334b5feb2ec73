"""What a rule over a trace is: data and one pure function, built as a value at the end of its own file."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ftprof.profiler.traces.model import FileAnalysis


class TraceEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a trace that a finding rests on.

    `where` says which op, shapes, module or line it comes from, as far as the trace tells; `share` is of the window's
    length, 0 to 1; `calls` and `total_s` are None where the row is no sum of calls.
    """

    what: str
    share: float
    where: str | None = None
    calls: int | None = None
    total_s: float | None = None


class TraceFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule saw in one file. `severity` is a share of the window, 0 to 1: the most that a fix could save.

    `evidence` is never empty; `advice` are the words and lines that mend it.
    """

    rule: str
    severity: float
    summary: str
    evidence: tuple[TraceEvidence, ...]
    advice: str


class TraceRule(msgspec.Struct, frozen=True, kw_only=True):
    """A cause of slowness that a trace can show. `detect` is pure: the same analysis gives the same finding."""

    name: str
    title: str
    detect: Callable[[FileAnalysis], TraceFinding | None]
    page: str = ""
    """The module's docstring: the rule's page. Filled in by the loader."""
