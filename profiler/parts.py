"""Ledgers of single phases, in seconds per occurrence that sum to the untraced median: traced, loading, end to end. Pure.

Method: Time (docs/method.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ftprof.profiler import bounds, wording
from ftprof.profiler.diagnosis import Ledger, PhaseDiagnosis
from ftprof.profiler.record import LoadSplit, Machine, OpTrace, PhaseWaits, RunRecord

# Shares of the time below this are left out of the sentences.
WORTH_SAYING = 0.10
# Closure outside this is said.
CLOSES_WITHIN = 0.02


class Parts(NamedTuple):
    """A phase's ledger, and what else its trace says. `closure` is what was seen over the untraced time."""

    ledger: Ledger
    closure: float = 1.0
    exact: float = 1.0
    """Share of the time that is host or ops whose formula is exact; estimated ones count half."""
    kinds: Mapping[str, float] = MappingProxyType({})
    flops: float | None = None
    bytes: float | None = None
    traced_ratio: float | None = None
    evidence: tuple[str, ...] = ()


def trace_ledger(trace: OpTrace, machine: Machine, time_s: float, record: RunRecord | None = None) -> Parts:
    """The ledger of a traced phase, in seconds per occurrence that sum to `time_s`.

    Each op's time is split by `bounds.op_ledger`; host time is what the trace saw between ops. Traced times stand for
    `trace.untraced_s` and are brought to `time_s` in proportion.
    """
    scale = time_s / trace.untraced_s if trace.untraced_s > 0 else 1.0
    streamed = bounds.working_set(trace.ops)
    waited = _waited(trace, record.waits if record and record.waits else (), scale, time_s)
    host = Ledger(host_s=max(0.0, trace.host_s - waited.total_s / scale))
    worked = bounds.add([*(bounds.op_ledger(op, machine, streamed) for op in trace.ops), host])
    # Calls that wait were seen with their true lengths; what the trace saw too much of is work.
    fitted, stretch = bounds.fit(bounds.add([worked], [scale]), max(0.0, time_s - waited.total_s))
    ledger, closure = (
        bounds.add([fitted, waited]),
        (worked.total_s * scale + waited.total_s) / time_s if time_s else 1.0,
    )
    shrink = scale / max(stretch, 1.0)
    kinds: dict[str, float] = {}
    for op in trace.ops:
        kinds[op.kind] = kinds.get(op.kind, 0.0) + op.self_s * shrink
    return Parts(
        ledger=ledger,
        closure=closure,
        exact=_exact_share(trace),
        kinds=dict(sorted(kinds.items(), key=lambda item: -item[1])),
        flops=_known_sum([op.flops for op in trace.ops]),
        bytes=_known_sum([op.bytes for op in trace.ops]),
        traced_ratio=trace.traced_s / trace.untraced_s if trace.untraced_s > 0 else None,
        evidence=tuple(_evidence(trace, machine, streamed, ledger, closure, time_s / shrink, record)),
    )


def _waited(trace: OpTrace, waits: Sequence[PhaseWaits], scale: float, time_s: float) -> Ledger:
    """Waiting for files and for others, untraced seconds; never more than the trace saw between ops, or than there is."""
    found = next((one for one in waits if (one.scenario, one.phase) == (trace.scenario, trace.phase)), None)
    total = found.io_s + found.sync_s if found else 0.0
    if found is None or total <= 0:
        return Ledger()
    fits = min(1.0, trace.host_s * scale / total, time_s / total)
    return Ledger(io_s=found.io_s * fits, sync_s=found.sync_s * fits)


def _known_sum(values: Sequence[float | None]) -> float | None:
    """Sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _exact_share(trace: OpTrace) -> float:
    weight = {"exact": 1.0, "estimated": 0.5, "unknown": 0.0}
    total = trace.host_s + sum(op.self_s for op in trace.ops)
    return (trace.host_s + sum(weight[op.accuracy] * op.self_s for op in trace.ops)) / total if total > 0 else 0.0


def _evidence(
    trace: OpTrace,
    machine: Machine,
    streamed: float,
    ledger: Ledger,
    closure: float,
    time_s: float,
    record: RunRecord | None,
) -> list[str]:
    """Sentences on the kinds of op that matter, the host, the small ops and the trace's own shortcomings.

    `time_s` is the phase's time on the scale of the trace's op times.
    """
    spent: dict[str, float] = {}
    for op in trace.ops:
        spent[op.kind] = spent.get(op.kind, 0.0) + op.self_s
    said = [
        wording.kind_sentence(kind, trace.ops, machine, streamed, time_s)
        for kind, self_s in sorted(spent.items(), key=lambda item: -item[1])
        if self_s >= WORTH_SAYING * time_s and kind != "view"
    ]
    if ledger.host_s >= WORTH_SAYING * ledger.total_s:
        frames = record.frames if record and record.frames else ()
        said.append(wording.host_sentence(ledger.host_s, ledger.total_s, frames))
    for waited_s, what in (
        (ledger.io_s, "reading or writing files"),
        (ledger.sync_s, "waiting for locks, queues or sleep"),
    ):
        if waited_s >= WORTH_SAYING * ledger.total_s:
            said.append(wording.wait_sentence(waited_s, what, ledger.total_s))
    if ledger.latency_s >= WORTH_SAYING * ledger.total_s:
        calls = sum(op.calls for op in trace.ops if bounds.is_latency(op, machine))
        said.append(wording.latency_sentence(ledger.latency_s, calls, ledger.total_s))
    return said + _doubts(trace, machine, streamed, closure, time_s)


def _doubts(trace: OpTrace, machine: Machine, streamed: float, closure: float, time_s: float) -> list[str]:
    """What to hold against the trace."""
    said = []
    if closure > 1.0 + CLOSES_WITHIN:
        said.append(
            f"The trace saw {wording.percent(closure - 1)} more time than there was; all parts are scaled down."
        )
    elif closure < 1.0 - CLOSES_WITHIN:
        said.append(f"The trace left {wording.percent(1 - closure)} of the time unexplained.")
    odd = sum(op.self_s for op in trace.ops if bounds.is_anomalous(op, machine, streamed))
    if odd >= WORTH_SAYING * time_s:
        said.append(
            f"Operations with {wording.percent(odd / time_s)} of the time ran faster than the measured limit: "
            "their data was cached, or the limits were measured while the machine was busy."
        )
    return said


def load_ledger(load: LoadSplit, time_s: float) -> Parts:
    """Cold load: reading the files is I/O, importing and building is the host's.

    Reading is the file's size at the disk's measured rate where there is one, and never more than building, attaching
    and first use took; else first use alone, where a mapped file is read.
    """
    touching = load.build_s + load.adapter_s + load.first_use_s
    if load.disk_bytes_per_s:
        reading = min((load.read_bytes or load.file_bytes) / load.disk_bytes_per_s, touching)
        how = f"{load.file_bytes / 1e6:.0f} MB at {load.disk_bytes_per_s / 1e6:.0f} MB/s"
    else:
        reading, how = load.first_use_s, "first use beyond a steady pass"
    seen = Ledger(io_s=reading, host_s=load.import_s + touching - reading)
    ledger, closure = bounds.fit(seen, time_s)
    said = [
        f"Reading the files takes {wording.seconds(reading)} ({how}).",
        f"Imports take {wording.seconds(load.import_s)}, building the model {wording.seconds(load.build_s)}.",
    ]
    if not load.evicted:
        said.append("The files could not be evicted from the file cache, so a truly cold load is slower.")
    return Parts(ledger=ledger, closure=closure, exact=1.0 if load.disk_bytes_per_s else 0.5, evidence=tuple(said))


def end_to_end(phases: Sequence[PhaseDiagnosis], steps: int, time_s: float) -> Parts | None:
    """The parts of a unit added up (decode as often as there are steps) and fitted to its own time.

    None where a part of the model was not traced. What lies between the parts is unattributed.
    """
    often = {"tokenise": 1.0, "prefill": 1.0, "decode": float(steps), "forward": 1.0}
    used = [phase for phase in phases if often.get(phase.name)]
    if not any(phase.name in ("prefill", "forward") for phase in used):
        return None
    ledgers = [phase.ledger for phase in used if phase.ledger is not None]
    if len(ledgers) < len(used):
        return None
    weights = [often[phase.name] for phase in used]
    ledger, closure = bounds.fit(bounds.add(ledgers, weights), time_s)
    shrink = 1.0 / max(closure, 1.0)
    dearest = max(zip(used, weights, strict=True), key=lambda pair: pair[0].time_s.median * pair[1])
    share = min(dearest[0].time_s.median * dearest[1] * shrink / time_s, 1.0)
    ratios = [phase.traced_ratio for phase in used if phase.traced_ratio is not None]
    return Parts(
        ledger=ledger,
        closure=closure,
        exact=min((phase.confidence for phase in used if phase.confidence is not None), default=1.0),
        kinds=weighted([phase.kinds for phase in used], [weight * shrink for weight in weights]),
        flops=_weighted_sum([phase.flops for phase in used], weights),
        bytes=_weighted_sum([phase.bytes for phase in used], weights),
        traced_ratio=max(ratios, default=None),
        evidence=(
            f"{wording.PHASE_NAMES[dearest[0].name]} is {wording.percent(share)} of it.",
            *(f"In {dearest[0].name}: {sentence}" for sentence in dearest[0].evidence),
        ),
    )


def _weighted_sum(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    return _known_sum([None if v is None else v * weight for v, weight in zip(values, weights, strict=True)])


def weighted(tables: Sequence[Mapping[str, float]], weights: Sequence[float]) -> dict[str, float]:
    """Sum of seconds by name, largest first."""
    total: dict[str, float] = {}
    for table, weight in zip(tables, weights, strict=True):
        for name, value in table.items():
            total[name] = total.get(name, 0.0) + weight * value
    return dict(sorted(total.items(), key=lambda item: -item[1]))
