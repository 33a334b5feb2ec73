"""The result of holding two audits against each other: data only; JSON, Markdown and text are views of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from ftprof.profiler.diagnosis import Interval

Group = Literal["machine", "system", "versions", "workload", "call", "model"]
TimeVerdict = Literal["slower", "faster", "same", "inconclusive", "not compared"]
CountVerdict = Literal["worse", "better", "same", "changed", "not compared"]
Outcome = Literal["regression", "inconclusive", "no regression", "nothing to compare"]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A field in which the two runs differ. `stops` is a pattern over "scenario/phase": times that it forbids to compare."""

    field: str
    group: Group
    base: str
    head: str
    stops: str = ""


class TimeChange(msgspec.Struct, frozen=True, kw_only=True):
    """Relative change of one phase's time, head over base minus 1: above 0 is slower. `low` and `high` bound it at 95 %.

    `detectable` is the smallest slow-down that four comparisons of five like this one would have proven. Only a row that
    `gates` can be a regression; a `decisive` one is the objective, whose noise makes the whole comparison inconclusive.
    """

    scenario: str
    phase: str
    label: str
    base: Interval | None
    head: Interval | None
    verdict: TimeVerdict
    why: str = ""
    change: float | None = None
    low: float | None = None
    high: float | None = None
    detectable: float | None = None
    gates: bool = False
    decisive: bool = False


class CountChange(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is counted, not timed. `tolerance` is the relative change that counts as none (0: exact)."""

    name: str
    unit: Literal["", "bytes", "ratio", "flops"]
    base: float | None
    head: float | None
    verdict: CountVerdict
    tolerance: float = 0.0
    gates: bool = True
    why: str = ""


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that two audits say about each other. `appeared` and `fixed` are names of rules."""

    outcome: Outcome
    headline: str
    exit_code: int
    base: str
    head: str
    differences: tuple[Difference, ...]
    times: tuple[TimeChange, ...]
    counts: tuple[CountChange, ...]
    appeared: tuple[str, ...]
    fixed: tuple[str, ...]
    method: str
    warnings: tuple[str, ...] = ()
