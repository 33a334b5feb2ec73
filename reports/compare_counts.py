"""What two audits counted rather than timed: no noise, so any increase is real, on whatever machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from ftprof.advisors.audit import Audit
from ftprof.reports import wording
from ftprof.reports.compare_document import CountChange, CountVerdict, Difference, Group

PEAK_TOLERANCE = 0.05
"""Peak memory is read from the system, which counts pages of libraries and allocators too: it moves without a cause in
the model. Five fresh processes of one small model stayed within 0.2 %; the rest is a margin for what an allocator keeps."""
WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2}
PHASES = ("forward", "prefill", "decode")


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """One metric: how it is read from an audit, and which groups of conditions must be the same for it to compare."""

    name: str
    read: Callable[[Audit], float | None]
    unit: Literal["", "bytes", "ratio", "flops"] = ""
    depends: tuple[Group, ...] = ()
    tolerance: float = 0.0
    gates: bool = True


def count_changes(base: Audit, head: Audit, found: Sequence[Difference]) -> tuple[CountChange, ...]:
    """One entry for each metric that either audit has."""
    metrics = [*COUNTS, *_by_phase(base, head)]
    return tuple(change for metric in metrics if (change := _change(metric, base, head, found)))


def _change(metric: Count, base: Audit, head: Audit, found: Sequence[Difference]) -> CountChange | None:
    a, b = metric.read(base), metric.read(head)
    if a is None and b is None:
        return None
    why = "" if a is not None and b is not None else f"not counted in {'the base' if a is None else 'the head'}"
    other = [one for one in found if one.group in metric.depends]
    if other and not why:
        why = f"{other[0].field}: {other[0].base} against {other[0].head}"
    verdict: CountVerdict = "not compared"
    if not why and a is not None and b is not None:
        verdict = _verdict(a, b, metric.tolerance, gates=metric.gates)
    return CountChange(
        name=metric.name,
        unit=metric.unit,
        base=a,
        head=b,
        verdict=verdict,
        tolerance=metric.tolerance,
        gates=metric.gates,
        why=why,
    )


def _verdict(base: float, head: float, tolerance: float, *, gates: bool) -> CountVerdict:
    # A hair of slack for figures that are sums of binary fractions.
    if abs(head - base) <= max(tolerance, 1e-9) * abs(base):
        return "same"
    if not gates:
        return "changed"
    return "worse" if head > base else "better"


def kv_bytes_per_token(audit: Audit) -> float | None:
    """Bytes that one more token of context takes in the key-value cache, from the model's shape; None for encoders."""
    facts = audit.model.facts
    if facts is None or audit.model.task != "causal-lm" or facts.dtype not in WIDTHS:
        return None
    heads = facts.kv_heads or facts.heads
    size = facts.head_dim or (facts.hidden_size // facts.heads if facts.heads else None)
    return None if heads is None or size is None else 2.0 * facts.layers * heads * size * WIDTHS[facts.dtype]


def _adapter_modules(audit: Audit) -> float | None:
    if audit.model.facts is None:
        return None
    return float(audit.model.adapter.modules) if audit.model.adapter else 0.0


def _weights(audit: Audit) -> float | None:
    return audit.model.facts.weight_bytes if audit.model.facts else None


def _peak(audit: Audit) -> float | None:
    return audit.model.memory.peak_bytes if audit.model.memory else None


def _padding(audit: Audit) -> float | None:
    facts = audit.model.padding
    return facts.padded_tokens / facts.real_tokens if facts and facts.real_tokens else None


def _findings(audit: Audit) -> float | None:
    return float(len(firing(audit))) if audit.diagnosis else None


def firing(audit: Audit) -> tuple[str, ...]:
    """Names of the rules that found something in the model as loaded."""
    return tuple(dict.fromkeys(entry.rule for entry in audit.advice if entry.finding is not None))


COUNTS = (
    Count(name="adapter modules not merged", read=_adapter_modules),
    Count(name="bytes of weights", read=_weights, unit="bytes"),
    Count(name="key-value cache, bytes per token", read=kv_bytes_per_token, unit="bytes"),
    Count(
        name="peak memory",
        read=_peak,
        unit="bytes",
        depends=("machine", "system", "versions", "workload"),
        tolerance=PEAK_TOLERANCE,
    ),
    Count(name="tokens with padding, of real ones", read=_padding, unit="ratio", depends=("workload",)),
    # A rule's threshold rests on times, so this number is not free of noise and never fails a build by itself.
    Count(name="rules that fire", read=_findings, gates=False),
)


def _by_phase(base: Audit, head: Audit) -> list[Count]:
    """Operations, casts, arithmetic and traffic of each phase: what one occurrence runs, counted in the trace."""
    found = []
    for scenario in ("single", "batch"):
        for phase in PHASES:
            label = wording.place(head, scenario, phase)
            found += [
                Count(name=f"operations, {label}", read=_calls(scenario, phase, None), depends=("workload",)),
                Count(name=f"casts, {label}", read=_calls(scenario, phase, "cast"), depends=("workload",)),
                # What a kernel computes and moves is shown only: a fix may well trade one for the other.
                Count(
                    name=f"arithmetic, {label}",
                    read=_work(scenario, phase, "flops"),
                    unit="flops",
                    depends=("workload",),
                    gates=False,
                ),
                Count(
                    name=f"memory traffic, {label}",
                    read=_work(scenario, phase, "bytes"),
                    unit="bytes",
                    depends=("workload",),
                    gates=False,
                ),
            ]
    return found


def _calls(scenario: str, phase: str, kind: str | None) -> Callable[[Audit], float | None]:
    def read(audit: Audit) -> float | None:
        found = audit.diagnosis.phase(scenario, phase) if audit.diagnosis else None
        if found is None or not found.calls:
            return None
        return sum(found.calls.values()) if kind is None else found.calls.get(kind, 0.0)

    return read


def _work(scenario: str, phase: str, what: Literal["flops", "bytes"]) -> Callable[[Audit], float | None]:
    def read(audit: Audit) -> float | None:
        found = audit.diagnosis.phase(scenario, phase) if audit.diagnosis else None
        return None if found is None else found.flops if what == "flops" else found.bytes

    return read
