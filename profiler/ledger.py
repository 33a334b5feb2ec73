"""From a run's record to its diagnosis: where the untraced time of each phase goes, and what limits it.

Pure: no torch, nothing is measured here. Each phase's ledger sums to its untraced median; what the trace did not see
is `unattributed`, and where it saw more than there was, all of it is scaled down and the evidence says so.

Method: Time (docs/method.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ftprof.profiler import wording
from ftprof.profiler.diagnosis import Diagnosis, Interval, Ledger, PhaseDiagnosis
from ftprof.profiler.interventions import Proof, judge
from ftprof.profiler.lora import lora_summary
from ftprof.profiler.parts import Parts, end_to_end, load_ledger, trace_ledger, weighted
from ftprof.profiler.record import ModuleTrace, PhaseTiming, RunRecord
from ftprof.profiler.verdict import CONTRADICTED, Ruling, confidence, efficiency, rule

__all__ = ["diagnose", "end_to_end", "load_ledger", "lora_summary", "trace_ledger"]


def diagnose(record: RunRecord, scenario: str = "single", phase: str = "e2e") -> Diagnosis:
    """Diagnose every timed phase and the adapter; `scenario` and `phase` are the objective, which the headline is about.

    A phase whose parts were not traced keeps its time, without a ledger, and is listed in `abstained`.
    """
    from ftprof.profiler.paired import interval

    phases: list[PhaseDiagnosis] = []
    abstained: list[str] = []
    for timing in _inner_first(record):
        time_s = interval(timing.time_s.samples)
        parts = _parts(record, timing.scenario, timing.phase, time_s.median, phases)
        if parts is None:
            abstained.append(f"{timing.scenario} {timing.phase}: {_missing(record)}, so what limits it is not said.")
            phases.append(PhaseDiagnosis(scenario=timing.scenario, name=timing.phase, time_s=time_s))
        else:
            phases.append(_diagnosed(record, timing.scenario, timing.phase, time_s, parts, phases))
    found = Diagnosis(
        phases=_in_order(record, phases), lora=lora_summary(record, scenario, phase), abstained=tuple(abstained)
    )
    return msgspec.structs.replace(found, headline=_headline(found, scenario, phase))


def _inner_first(record: RunRecord) -> list[PhaseTiming]:
    """Timed phases, end to end last: it is made of the others."""
    timed = [timing for timing in record.timing or () if timing.time_s.samples]
    return sorted(timed, key=lambda timing: timing.phase == "e2e")


def _in_order(record: RunRecord, phases: Sequence[PhaseDiagnosis]) -> tuple[PhaseDiagnosis, ...]:
    """The phases as the record has them."""
    order = [(timing.scenario, timing.phase) for timing in record.timing or ()]
    return tuple(sorted(phases, key=lambda phase: order.index((phase.scenario, phase.name))))  # type: ignore[arg-type]


def _missing(record: RunRecord) -> str:
    return "no limits of this machine were measured" if record.machine is None else "no trace of it was taken"


def _headline(found: Diagnosis, scenario: str, phase: str) -> str:
    """About the objective; end to end names its dearest part as well."""
    target = found.phase(scenario, phase) or next((p for p in found.phases if p.scenario == scenario), None)
    return wording.headline(target) if target else "Nothing was timed."


def _parts(
    record: RunRecord, scenario: str, phase: str, time_s: float, earlier: Sequence[PhaseDiagnosis]
) -> Parts | None:
    """What is known about one phase's time, or None."""
    if phase == "load":
        return load_ledger(record.load, time_s) if record.load else None
    if phase == "tokenise":
        return Parts(Ledger(host_s=time_s), evidence=("Tokenising runs on the host alone.",))
    if phase == "e2e":
        return end_to_end([part for part in earlier if part.scenario == scenario], _steps(record, scenario), time_s)
    trace = next((t for t in record.ops or () if (t.scenario, t.phase) == (scenario, phase)), None)
    if trace is None or record.machine is None:
        return None
    return trace_ledger(trace, record.machine, time_s, record)


def _steps(record: RunRecord, scenario: str) -> int:
    """Decode steps of one unit: the first token belongs to prefill."""
    return max((record.workload.tokens(scenario) if record.workload else 0) - 1, 0)


def _diagnosed(
    record: RunRecord, scenario: str, phase: str, time_s: Interval, parts: Parts, earlier: Sequence[PhaseDiagnosis]
) -> PhaseDiagnosis:
    ledger = parts.ledger
    ruling = rule(ledger)
    ideal = (ledger.compute_s + ledger.memory_s) / time_s.median if time_s.median > 0 else 0.0
    proof = (
        judge(record, scenario, phase, ruling.bound, ideal) if phase != "e2e" else _inherited(ruling, scenario, earlier)
    )
    sure = confidence(parts.closure, parts.exact, parts.traced_ratio, efficiency(ledger, ruling.first))
    return PhaseDiagnosis(
        scenario=scenario,
        name=phase,
        time_s=time_s,
        ledger=ledger,
        bound=ruling.bound,
        bound_share=ruling.share,
        second=ruling.second,
        confirmed=proof.verdict is True,
        confidence=min(sure, CONTRADICTED) if proof.verdict is False else sure,
        headroom=min(ideal, 1.0) if phase not in ("load", "tokenise") else None,
        traced_ratio=parts.traced_ratio,
        flops=parts.flops,
        bytes=parts.bytes,
        kinds=dict(parts.kinds),
        calls=_calls(record, scenario, phase),
        modules=_modules(record, scenario, phase, time_s.median, earlier),
        evidence=(*parts.evidence, *proof.sentences),
    )


def _calls(record: RunRecord, scenario: str, phase: str) -> dict[str, float]:
    """Calls per occurrence by kind of op; empty where the phase was not traced itself."""
    found: dict[str, float] = {}
    for trace in record.ops or ():
        if (trace.scenario, trace.phase) == (scenario, phase):
            for op in trace.ops:
                found[op.kind] = found.get(op.kind, 0.0) + op.calls
    return found


def _inherited(ruling: Ruling, scenario: str, earlier: Sequence[PhaseDiagnosis]) -> Proof:
    """End to end stands confirmed where a confirmed phase of the same bound is what most of it consists of."""
    for part in earlier:
        if part.scenario == scenario and part.confirmed and part.bound == ruling.bound and part.name != "load":
            return Proof(True, (f"Confirmed in {part.name}, which is limited in the same way.",))
    return Proof(None)


def _modules(
    record: RunRecord, scenario: str, phase: str, time_s: float, earlier: Sequence[PhaseDiagnosis]
) -> dict[str, float]:
    """Seconds per occurrence by kind of module, on the scale of the untraced median."""
    if phase == "e2e":
        often = {"prefill": 1.0, "decode": float(_steps(record, scenario)), "forward": 1.0}
        used = [part for part in earlier if part.scenario == scenario and part.name in often]
        return weighted([part.modules for part in used], [often[part.name] for part in used])
    for trace in record.modules or ():
        if (trace.scenario, trace.phase) == (scenario, phase) and trace.untraced_s > 0:
            return weighted([_module_seconds(trace)], [time_s / trace.untraced_s])
    return {}


def _module_seconds(trace: ModuleTrace) -> dict[str, float]:
    return {total.kind: total.self_s for total in trace.modules}
