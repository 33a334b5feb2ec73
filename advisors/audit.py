"""The one document. Everything that a person or a pipeline sees is a view of an `Audit`."""

from __future__ import annotations

from typing import Literal

import msgspec

from ftprof.advisors.rule import Finding, PredictedRatio
from ftprof.advisors.track import TrackRecord
from ftprof.profiler.comparison import Comparison, Ratio
from ftprof.profiler.diagnosis import Diagnosis, Interval, Ledger, Lora, PhaseDiagnosis
from ftprof.profiler.nvml import DeviceUse
from ftprof.profiler.quality import QualityCheck, Safety
from ftprof.profiler.record import (
    AdapterFacts,
    HostFrame,
    LoadSplit,
    Machine,
    Memory,
    ModelFacts,
    PaddingFacts,
)
from ftprof.profiler.workload import Change, Options, Workload, labelled

SCHEMA_VERSION = 1
Status = Literal["kept", "reverted", "refused", "failed", "not_tried"]


class Predicted(msgspec.Struct, frozen=True, kw_only=True):
    """Prediction as written before the trial: speed-ups by scenario and phase, from what, and when (UTC)."""

    ratios: dict[str, dict[str, PredictedRatio]]
    basis: str
    at: str
    track: TrackRecord | None = None
    """The rule's earlier predictions on this machine, which corrected this one where there were enough of them."""

    def get(self, scenario: str, phase: str) -> PredictedRatio | None:
        """The prediction for one phase, or None."""
        return self.ratios.get(scenario, {}).get(phase)


class AdviceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule advises. `fixable` is False where the rule only advises; `error` is set where the rule itself failed."""

    rule: str
    title: str
    safety: Safety
    finding: Finding | None
    options: Options = {}
    predicted: Predicted | None = None
    fixable: bool = True
    refused: str | None = None
    steps: str = ""
    error: str | None = None

    @property
    def key(self) -> str:
        """Names the entry among all others: the rule, with its options."""
        return labelled(self.rule, self.options)


class Trade(msgspec.Struct, frozen=True, kw_only=True):
    """A phase that a kept fix is proven to slow by more than 5 %."""

    scenario: str
    phase: str
    ratio: Ratio


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at one fix. `measured` is keyed by scenario, then phase; `objective` is the ratio that decided.

    `base` are the changes that it was compared with (the best so far).
    """

    rule: str
    title: str
    safety: Safety
    status: Status
    why: str
    base: tuple[Change, ...] = ()
    change: Change | None = None
    predicted: Predicted | None = None
    measured: dict[str, dict[str, Ratio]] | None = None
    objective: Ratio | None = None
    quality: QualityCheck | None = None
    trades: tuple[Trade, ...] = ()
    artefact: str | None = None
    seconds: float = 0.0
    log_error: float | None = None
    """ln(predicted / measured) of the objective's speed-up; None where either is missing."""

    @property
    def key(self) -> str:
        """Names the trial among all others: the rule, with its options."""
        return labelled(self.rule, self.change.options if self.change else {})


class Artefact(msgspec.Struct, frozen=True, kw_only=True):
    """A saved model: where it lies, the lines that load it, and what the clean reload showed."""

    path: str
    load: str
    sha256: str
    size_bytes: int
    reload: Literal["ok", "failed"]
    reload_detail: str = ""


class Final(msgspec.Struct, frozen=True, kw_only=True):
    """The best variant measured directly against the original, in fresh processes; never a product of steps."""

    changes: tuple[Change, ...]
    comparison: Comparison | None
    objective: Ratio | None
    quality: QualityCheck | None
    phases: tuple[PhaseDiagnosis, ...] = ()
    trades: tuple[Trade, ...] = ()
    before: dict[str, dict[str, Interval]] = {}
    """Times of the original in the final comparison, by scenario and phase."""
    after: dict[str, dict[str, Interval]] = {}
    artefact: Artefact | None = None
    load_lines: str = ""
    """The lines that load the faster model (from the artefact, or with the changes by hand)."""


class PhaseEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One phase as measured, with its ledger (seconds per occurrence, parts sum to the median)."""

    scenario: str
    name: str
    time_s: Interval
    ledger: Ledger | None
    samples: tuple[float, ...] = ()
    """Untraced seconds in the order in which they were taken: what a percentile is computed from."""


class BaseDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the fine-tune changed against its base. `cost` is a sentence with a measured figure, or None."""

    what: str
    base: str
    tuned: str
    cost: str | None = None


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What was audited. `name` is for people; paths are as the user gave them."""

    name: str
    path: str
    base: str | None
    task: str
    sha256: str
    facts: ModelFacts | None = None
    adapter: AdapterFacts | None = None
    load: LoadSplit | None = None
    memory: Memory | None = None
    device: DeviceUse | None = None
    padding: PaddingFacts | None = None


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """The original against itself in two processes: what "no change" looks like on this machine today."""

    scenario: str
    phase: str
    ratio: Ratio


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """How far the figures can be believed: grade A to D, what cost a grade, and the controls behind it."""

    grade: Literal["A", "B", "C", "D"]
    reasons: tuple[str, ...] = ()
    controls: tuple[Control, ...] = ()
    drift: float | None = None
    """|peak at the end / peak at the start - 1| of the measured limits."""
    traced_ratio: float | None = None
    predictions: tuple[float, ...] = ()
    """Log errors of this audit's predictions."""


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Where it ran: versions and settings that move the figures."""

    python: str
    platform: str
    packages: dict[str, str]
    variables: dict[str, str] = {}
    start_method: str = ""
    fingerprint: str = ""
    commit: str = ""
    """Hash of the commit that was built or checked out where the command ran."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The choices of this run."""

    objective: str
    objective_scenario: str
    objective_phase: str
    max_loss: Safety
    budget_s: float
    spent_s: float = 0.0
    guards: dict[str, float] = {}
    fixes: bool = True
    complete: bool = False
    """False while the audit is still being written, or was interrupted."""


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """The whole document, as in `audit.json`."""

    schema_version: int = SCHEMA_VERSION
    ftprof_version: str
    created: str
    command: str
    settings: Settings
    environment: Environment
    machine: Machine | None = None
    model: ModelEntry
    workload: Workload
    phases: tuple[PhaseEntry, ...] = ()
    diagnosis: Diagnosis | None = None
    base_diff: tuple[BaseDifference, ...] = ()
    lora: Lora | None = None
    frames: tuple[HostFrame, ...] = ()
    advice: tuple[AdviceEntry, ...] = ()
    checked: tuple[str, ...] = ()
    """Rules that found nothing, or nothing worth doing, as sentences with their figures."""
    not_applicable: tuple[str, ...] = ()
    """Rules that are not for this model, or lacked what they need, as sentences with the reason."""
    trials: tuple[Trial, ...] = ()
    final: Final | None = None
    trust: Trust | None = None
    warnings: tuple[str, ...] = ()
