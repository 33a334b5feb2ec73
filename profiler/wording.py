"""Sentences with numbers, for evidence and headlines. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ftprof.profiler import bounds
from ftprof.profiler.diagnosis import PhaseDiagnosis
from ftprof.profiler.record import HostFrame, Machine, OpTotal
from ftprof.profiler.verdict import INEFFICIENT, efficiency

PHASE_NAMES = {
    "load": "Loading",
    "tokenise": "Tokenising",
    "prefill": "Prefill",
    "decode": "Decode",
    "forward": "The forward pass",
    "e2e": "The whole run",
}
LIMITS = {
    "compute": "arithmetic (compute",
    "memory": "reading memory (memory",
    "host": "Python and dispatch (host",
    "io": "reading files (I/O",
    "sync": "waiting (sync",
}
_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def percent(share: float) -> str:
    """`61%`."""
    return f"{100 * share:.0f}%"


def seconds(value: float) -> str:
    """`9.0 ms`: three figures with a unit that fits."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def rates(value: float, limit: float, unit: str) -> str:
    """`17.2 of 19.8 GB/s`: both in the limit's scale."""
    factor, prefix = next(((f, p) for f, p in _SCALES if limit >= f), (1.0, ""))
    return f"{value / factor:.3g} of {limit / factor:.3g} {prefix}{unit}"


def kind_sentence(kind: str, ops: Sequence[OpTotal], machine: Machine, phase_bytes: float, time_s: float) -> str:
    """What the ops of one kind take and how near their limit they run; `time_s` is the phase's time on their scale."""
    own = [op for op in ops if op.kind == kind]
    spent = sum(op.self_s for op in own)
    start = f"{kind} takes {percent(spent / time_s)} of the time"
    known = [(op, times) for op in own if (times := bounds.ideal_times(op, machine, phase_bytes)) is not None]
    compute = sum(times[0] for _, times in known)
    memory = sum(times[1] for _, times in known)
    if spent <= 0 or max(compute, memory) <= 0:
        return f"{start}."
    if compute >= memory:
        flops = sum(op.flops or 0.0 for op, _ in known)
        return f"{start}, at {rates(flops / spent, flops / compute, 'FLOP/s')} measured on this machine."
    moved = sum(op.bytes or 0.0 for op, _ in known)
    return f"{start}, at {rates(moved / spent, moved / memory, 'B/s')} measured on this machine."


def host_sentence(host_s: float, time_s: float, frames: Sequence[HostFrame]) -> str:
    """Time between ops, and the Python frames most often seen."""
    text = f"{seconds(host_s)} of {seconds(time_s)} ({percent(host_s / time_s)}) lies between operations"
    if frames:
        text += ", most often in " + ", ".join(f"{frame.function} ({frame.file})" for frame in frames[:3])
    return text + "."


def wait_sentence(waited_s: float, what: str, time_s: float) -> str:
    """Time in calls that wait, seen call by call."""
    return f"{seconds(waited_s)} of {seconds(time_s)} ({percent(waited_s / time_s)}) is spent {what}, by the calls that do."


def latency_sentence(latency_s: float, calls: float, time_s: float) -> str:
    """Time of ops too small for any limit."""
    return f"{calls:.0f} operations too small for any limit take {percent(latency_s / time_s)} of the time."


def mix(groups: Mapping[str, float], total: float) -> str:
    """`memory 45 %, host 40 %`: the two largest groups."""
    ranked = sorted(groups.items(), key=lambda item: -item[1])[:2]
    return ", ".join(f"{name} {percent(value / total)}" for name, value in ranked)


def headline(phase: PhaseDiagnosis) -> str:
    """One sentence on what limits a phase."""
    name = PHASE_NAMES.get(phase.name, phase.name)
    if phase.ledger is None or phase.bound == "unknown" or phase.bound_share is None:
        return f"{name} takes {seconds(phase.time_s.median)}; what limits it could not be told."
    if phase.bound == "mixed":
        groups = phase.ledger.grouped()
        groups.pop("unattributed")
        return f"{name} has no single limit ({mix(groups, phase.ledger.total_s)} of the time)."
    surely = "confirmed" if phase.confirmed else "suspected"
    text = f"{name} is limited by {_limit(phase)}, {percent(phase.bound_share)} of the time, {surely})"
    near = efficiency(phase.ledger, phase.bound)
    if near is not None and near < INEFFICIENT:
        return f"{text}, at only {percent(near)} of the limit measured here."
    return f"{text}."


def _limit(phase: PhaseDiagnosis) -> str:
    """Decode that reads mostly weights is called by its name."""
    dearest = max(phase.kinds, key=phase.kinds.__getitem__, default="")
    if phase.bound == "memory" and phase.name in ("decode", "e2e") and dearest == "matmul":
        return "weight streaming (memory"
    return LIMITS[phase.bound]
