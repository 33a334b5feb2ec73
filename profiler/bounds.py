"""Which measured limit an op runs into, and how its time splits into ideal time and the rest. Pure.

Method: Time (docs/method.md).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import log2

from ftprof.profiler.diagnosis import Ledger
from ftprof.profiler.record import Machine, OpTotal

# Read afresh in every occurrence: with all the other weights in between, they come from wherever a working set of the
# whole phase fits. Everything else works on what was just written.
STREAMING = frozenset({"matmul", "attention", "embedding", "cat"})

# An op shorter than twice the cost of an empty one says nothing about its work.
FLOOR_MARGIN = 2.0

# More than a tenth above a roof: wrong bytes, cached data or a wrong peak, so it is not classified on.
ANOMALY = 1.10


def flops_limit(machine: Machine, dtype: str) -> float | None:
    """Measured operations/s for an element type; float32's where the type has none; None where nothing was measured."""
    peaks = machine.flops_per_s
    return peaks.get(dtype) or peaks.get("float32") or None


def bandwidth_limit(machine: Machine, dtype: str, working_set: float) -> float | None:
    """Measured read bandwidth in bytes/s for a working set, between measured sizes by their logarithm.

    A smaller set is never slower than a larger one, so a disturbed measurement in the cache cannot lie below memory's.
    """
    points = _curve(machine, dtype) or _curve(machine, "float32")
    if not points:
        return None
    sizes = [size for size, _ in points]
    rates = list(accumulate((rate for _, rate in reversed(points)), max))[::-1]
    at = bisect_left(sizes, working_set)
    if at == 0:
        return rates[0]
    if at == len(sizes):
        return rates[-1]
    part = log2(working_set / sizes[at - 1]) / log2(sizes[at] / sizes[at - 1])
    return rates[at - 1] + part * (rates[at] - rates[at - 1])


def _curve(machine: Machine, dtype: str) -> list[tuple[int, float]]:
    wanted = "bfloat16" if dtype == "float16" else dtype
    points = [(point.working_set_bytes, point.bytes_per_s) for point in machine.bandwidth if point.dtype == wanted]
    return sorted(points)


def working_set(ops: Iterable[OpTotal]) -> float:
    """Bytes that one occurrence of a phase streams: weights, caches and tables."""
    return sum(op.bytes or 0.0 for op in ops if op.kind in STREAMING)


def ideal_times(op: OpTotal, machine: Machine, phase_bytes: float) -> tuple[float, float] | None:
    """Seconds at the arithmetic and at the bandwidth limit, all calls of one occurrence; None where not known."""
    calls = max(op.calls, 1e-12)
    touched = phase_bytes if op.kind in STREAMING else (op.bytes or 0.0) / calls
    rate, bandwidth = flops_limit(machine, op.dtype), bandwidth_limit(machine, op.dtype, touched)
    if op.flops is None or op.bytes is None or not rate or not bandwidth:
        return None
    return op.flops / rate, op.bytes / bandwidth


def is_anomalous(op: OpTotal, machine: Machine, phase_bytes: float) -> bool:
    """Whether an op was seen to run faster than its limit allows."""
    ideal = ideal_times(op, machine, phase_bytes)
    return ideal is not None and max(ideal) > ANOMALY * op.self_s > 0 and not is_latency(op, machine)


def is_latency(op: OpTotal, machine: Machine) -> bool:
    """Whether an op is all dispatch: it moves nothing, or is as short as an empty one."""
    return op.kind == "view" or op.self_s < FLOOR_MARGIN * op.calls * machine.dispatch_s or op.bytes == op.flops == 0


def op_ledger(op: OpTotal, machine: Machine, phase_bytes: float) -> Ledger:
    """An op's time: ideal under its larger limit, the floor of its calls where that exceeds both, and inefficiency."""
    if is_latency(op, machine):
        return Ledger(latency_s=op.self_s)
    ideal = ideal_times(op, machine, phase_bytes)
    if ideal is None:
        return Ledger(unattributed_s=op.self_s)
    compute, memory = ideal
    best = min(max(compute, memory), op.self_s)
    floor = op.calls * machine.dispatch_s
    latency = min(floor, op.self_s - best) if floor > best else 0.0
    rest = op.self_s - best - latency
    if compute >= memory:
        return Ledger(compute_s=best, compute_inefficiency_s=rest, latency_s=latency)
    return Ledger(memory_s=best, memory_inefficiency_s=rest, latency_s=latency)


def add(ledgers: Sequence[Ledger], weights: Sequence[float] | None = None) -> Ledger:
    """Weighted sum of ledgers, part by part; weights of one where none are given."""
    factors = weights if weights is not None else [1.0] * len(ledgers)
    return Ledger(
        **{
            name: sum(factor * getattr(ledger, name) for ledger, factor in zip(ledgers, factors, strict=True))
            for name in Ledger.__struct_fields__
        }
    )


def fit(ledger: Ledger, time_s: float) -> tuple[Ledger, float]:
    """The ledger made to sum to `time_s`, and the sum it had over `time_s`.

    What is missing becomes unattributed; what is too much is taken off all parts alike.
    """
    total = ledger.total_s
    closure = total / time_s if time_s > 0 else 1.0
    if total > time_s:
        return add([ledger], [time_s / total]), closure
    return add([ledger, Ledger(unattributed_s=time_s - total)]), closure
