"""What a rule is: data and three pure functions, built as a value at the end of its own file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.judge_limits import Row
from ftprof.profiler.quality import Safety
from ftprof.profiler.record import ProbeCase, RunRecord
from ftprof.profiler.workload import Call, Task

if TYPE_CHECKING:
    from ftprof.profiler.engine import Engine


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One number that a rule saw: what it is, its value with unit, and the condition that it met."""

    name: str
    value: float | str
    unit: str = ""
    condition: str = ""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule saw. `at_stake_s` is the most that a fix could save on the objective's phase, in seconds per unit."""

    summary: str
    scenario: str
    phase: str
    at_stake_s: float
    evidence: tuple[Evidence, ...] = ()
    where: tuple[str, ...] = ()


class PredictedRatio(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted speed-up (old time / new time) with an 80 % interval; low <= speedup <= high."""

    speedup: float
    low: float
    high: float


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted speed-ups by scenario, then phase, written before the fix is applied. `basis` says from what."""

    ratios: dict[str, dict[str, PredictedRatio]]
    basis: str

    def get(self, scenario: str, phase: str) -> PredictedRatio | None:
        """The prediction for one phase, or None."""
        return self.ratios.get(scenario, {}).get(phase)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A cause of slowness and its remedy.

    `name` is the bad state as a noun phrase, `title` the imperative remedy. `needs` are the RunRecord parts without
    which the rule is silent. `detect`, `probes` and `predict` are pure and never import torch. A fix is either
    `rewrite` (changes how the model is called) or `apply` (changes the engine), or neither: advice only.
    `refuse` gives the reason why a fix that was found must not be tried, or None. `steps` are the words and lines that
    apply it by hand.
    """

    name: str
    title: str
    safety: Safety
    tasks: frozenset[Task]
    needs: tuple[str, ...]
    detect: Callable[[RunRecord, Diagnosis], Finding | None]
    predict: Callable[[RunRecord, Finding], Prediction]
    probes: Callable[[RunRecord, Finding], tuple[ProbeCase, ...]] = lambda record, finding: ()
    refuse: Callable[[RunRecord, Finding], str | None] = lambda record, finding: None
    rewrite: Callable[[Call], Call] | None = None
    apply: Callable[[Engine], Engine] | None = None
    gate: Row | None = None
    """Row of the quality gate's limits; None: the one of the safety class."""
    requires: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    steps: str = ""
    page: str = ""
    """The module's docstring: the rule's page. Filled in by the loader."""

    def fixes(self) -> bool:
        """Whether the rule can do something, or only advise."""
        return self.rewrite is not None or self.apply is not None


ALL_TASKS: frozenset[Any] = frozenset({"causal-lm", "sequence-classification", "embedding"})
