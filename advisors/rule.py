"""What a rule is: data and three pure functions, built as a value at the end of its own file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.judge_limits import Row
from ftprof.profiler.quality import Safety
from ftprof.profiler.record import ProbeCase, RunRecord
from ftprof.profiler.workload import Call, Options, Scalar, Task

if TYPE_CHECKING:
    from ftprof.profiler.built import Recipe
    from ftprof.profiler.engine import Engine


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One number that a rule saw: what it is, its value with unit, and the condition that it met."""

    name: str
    value: float | str
    unit: str = ""
    condition: str = ""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule saw. `at_stake_s` is the most that a fix could save on the objective's phase, in seconds per unit.

    `options` are those of the alternative that is asked about; `detect` leaves them empty.
    """

    summary: str
    scenario: str
    phase: str
    at_stake_s: float
    evidence: tuple[Evidence, ...] = ()
    where: tuple[str, ...] = ()
    options: Options = {}


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
    which the rule is silent, `engines` those whose records it can read. `detect`, `probes` and `predict` are pure and
    never import torch. A fix is one of `rewrite` (changes how the model is called), `apply` (changes the engine) and
    `convert` (the recipe for another runtime, into which an adapter is merged), or none: advice only.
    `refuse` gives the reason why a fix that was found must not be tried, or None. `steps` are the words and lines that
    apply it by hand.

    `alternatives` are the options with which the fix can be tried, each predicted and tried on its own; on a `ladder`
    they go from mild to harsh, and stop where the quality gate says so. A fix takes the place of other alternatives of
    its own, and of the rules that it `replaces`.
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
    convert: Callable[[Mapping[str, Scalar]], Recipe] | None = None
    alternatives: Callable[[RunRecord], tuple[Options, ...]] = lambda record: ({},)
    ladder: bool = False
    engines: frozenset[str] = frozenset({"torch"})
    replaces: tuple[str, ...] = ()
    gate: Row | None = None
    """Row of the quality gate's limits; None: the one of the safety class."""
    requires: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    steps: str = ""
    load_line: str = ""
    """The line after a plain load that does what no saved file can hold; for fixes that `apply`."""
    page: str = ""
    """The module's docstring: the rule's page. Filled in by the loader."""

    def fixes(self) -> bool:
        """Whether the rule can do something, or only advise."""
        return any(way is not None for way in (self.rewrite, self.apply, self.convert))


ALL_ENGINES = frozenset({"torch", "genai", "ort"})
CONVERTIBLE: frozenset[Any] = frozenset({"causal-lm", "sequence-classification", "embedding"})
"""The tasks that another runtime takes over; sequence-to-sequence models stay on PyTorch."""
ALL_TASKS: frozenset[Any] = CONVERTIBLE | {"seq2seq-lm"}
