"""What the record says about the time: one exclusive ledger per phase and what limits it."""

from __future__ import annotations

from typing import Literal

import msgspec

Bound = Literal["compute", "memory", "host", "io", "sync", "mixed", "unknown"]


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """Median with a 95 % interval of n samples, seconds."""

    median: float
    low: float
    high: float
    n: int


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """Untraced wall time of a phase, split so that the parts sum to it. Seconds per occurrence.

    `compute_s` and `memory_s` are the ideal times at the measured limits of ops bound so; the inefficiencies are what
    those ops took beyond; `latency_s` is ops too small for either limit; `unattributed_s` is what remains.
    """

    compute_s: float = 0.0
    compute_inefficiency_s: float = 0.0
    memory_s: float = 0.0
    memory_inefficiency_s: float = 0.0
    latency_s: float = 0.0
    host_s: float = 0.0
    io_s: float = 0.0
    sync_s: float = 0.0
    unattributed_s: float = 0.0

    @property
    def total_s(self) -> float:
        """The sum of the parts: the phase's untraced wall time."""
        return float(sum(getattr(self, name) for name in self.__struct_fields__))

    def grouped(self) -> dict[str, float]:
        """Seconds by group; keys compute, memory, host (with latency), io, sync, unattributed."""
        return {
            "compute": self.compute_s + self.compute_inefficiency_s,
            "memory": self.memory_s + self.memory_inefficiency_s,
            "host": self.host_s + self.latency_s,
            "io": self.io_s,
            "sync": self.sync_s,
            "unattributed": self.unattributed_s,
        }


class PhaseDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """One phase: how long, where it goes, what limits it and how near the measured limit it runs.

    `headroom` is attained over attainable (0 to 1); `confirmed` says whether an intervention supported the bound;
    `evidence` are finished sentences with their numbers; `bound_share` is the largest group's share of the time.
    """

    scenario: str
    name: str
    time_s: Interval
    ledger: Ledger | None = None
    bound: Bound = "unknown"
    bound_share: float | None = None
    second: Bound | None = None
    confirmed: bool = False
    confidence: float | None = None
    headroom: float | None = None
    traced_ratio: float | None = None
    flops: float | None = None
    """Floating-point operations of one occurrence."""
    bytes: float | None = None
    """Bytes moved to and from memory by one occurrence."""
    kinds: dict[str, float] = {}
    """Seconds per occurrence by kind of op (matmul, attention, norm, elementwise, copy, cast, ...)."""
    calls: dict[str, float] = {}
    """Calls per occurrence by kind of op: counted, so free of noise."""
    modules: dict[str, float] = {}
    """Seconds per occurrence by kind of module (attention, mlp, norm, embedding, head, LoRA A, ..., outside modules)."""
    evidence: tuple[str, ...] = ()


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A share of time, 0 to 1, with its 95 % interval; `n` pairs or repetitions."""

    share: float
    low: float
    high: float
    n: int
    how: str


class LoraPhase(msgspec.Struct, frozen=True, kw_only=True):
    """LoRA's share of one phase by both ways."""

    scenario: str
    phase: str
    attributed: Share | None = None
    ablation: Share | None = None


class LoraTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of target: seconds per occurrence of the phase in the base layer, A, B and the rest."""

    phase: str
    target: str
    base_s: float
    a_s: float
    b_s: float
    rest_s: float


class Lora(msgspec.Struct, frozen=True, kw_only=True):
    """What the adapter costs. The headline pair belongs to `phase` of `scenario` (the objective)."""

    scenario: str
    phase: str
    attributed: Share | None
    ablation: Share | None
    agree: bool | None
    disabled: Share | None = None
    """Adapter disabled but still wrapped: the mathematics alone."""
    wrapper: Share | None = None
    """What its layers take all the same while it is disabled, by timed modules."""
    advice: Literal["merge", "merge-if-single", "leave", "unknown"] = "unknown"
    phases: tuple[LoraPhase, ...] = ()
    targets: tuple[LoraTarget, ...] = ()
    explanation: str = ""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """All phases, the adapter, and what was abstained from and why."""

    phases: tuple[PhaseDiagnosis, ...]
    lora: Lora | None = None
    abstained: tuple[str, ...] = ()
    headline: str = ""

    def phase(self, scenario: str, name: str) -> PhaseDiagnosis | None:
        """The diagnosis of one phase, or None where it was not measured."""
        for phase in self.phases:
            if (phase.scenario, phase.name) == (scenario, name):
                return phase
        return None
