"""Eight public traces computed twice: by the columns, and by a slow method that shares no code. Equal to the nanosecond."""

from __future__ import annotations

import itertools
from functools import lru_cache
from pathlib import Path

import pytest

from ftprof.profiler.traces.analyse import analyse
from ftprof.profiler.traces.model import FileAnalysis, Partition
from tests.profiler.traces import slow_method
from tests.profiler.traces.public import BERT, MI210, OLD, QWEN, SGLANG_DECODE, STREAMS, VIT, VLLM_DECODE, public

CHOSEN = [BERT, VIT, QWEN, SGLANG_DECODE, VLLM_DECODE, STREAMS, OLD, MI210]


@lru_cache(maxsize=len(CHOSEN))
def both(path: Path) -> tuple[FileAnalysis, slow_method.Slow, slow_method.Ledger]:
    """The trace by both ways."""
    slow = slow_method.read(path)
    return analyse(path).files[0], slow, slow_method.Ledger(slow)


def ns(time_s: float) -> int:
    """Seconds back as the nanoseconds that they came from."""
    return round(time_s * 1e9)


def folded(part: Partition) -> dict[str, int]:
    """A partition in nanoseconds, host wait in its own parts."""
    fine = {
        "compute": part.compute_s,
        "communication": part.communication_s,
        "copies": part.copies_s,
        "synchronisation": part.synchronisation_s,
        "copy_calls": part.copy_calls_s,
        "data_loading": part.data_loading_s,
        "launch_latency": part.launch_latency_s,
        "unexplained": part.unexplained_s,
        "allocator": part.allocator_s,
        "runtime_call": part.runtime_calls_s,
        "op": part.ops_s,
        "python": part.python_s,
        "unrecorded": part.unrecorded_s,
    }
    return {name: ns(value) for name, value in fine.items() if value}


def expected(ledger: slow_method.Ledger, low: int, high: int) -> dict[str, int]:
    """The slow method's classes under the names of the partition."""
    split = ledger.split(ledger.trace.origin + low, ledger.trace.origin + high)
    into = {"pageable_copy": "copies", "copy": "copies", "pageable_copy_call": "copy_calls", "copy_call": "copy_calls"}
    total: dict[str, int] = {}
    for name, value in split.items():
        if value:
            total[into.get(name, name)] = total.get(into.get(name, name), 0) + value
    return total


@pytest.mark.parametrize("pattern", CHOSEN)
def test_partition_equals_the_slow_method(pattern: str) -> None:
    fast, slow, ledger = both(public(pattern))
    assert fast.source.origin_ns == slow.origin
    assert fast.whole is not None
    assert folded(fast.whole) == expected(ledger, 0, slow.end - slow.origin)
    for step in fast.steps[:3]:
        assert step.partition is not None
        assert folded(step.partition) == expected(ledger, ns(step.start_s), ns(step.end_s))


@pytest.mark.parametrize("pattern", CHOSEN)
def test_partition_sums_to_its_window(pattern: str) -> None:
    fast, _, _ = both(public(pattern))
    windows = [(fast.whole, fast.duration_s), (fast.window.partition, fast.window.end_s - fast.window.start_s)]
    for part, length_s in windows:
        assert part is not None
        assert sum(ns(value) for value in part.parts().values()) == ns(part.total_s) == ns(length_s)
        assert sum(ns(getattr(part, f"{name}_s")) for name in ("allocator", "runtime_calls", "ops", "python")) + ns(
            part.unrecorded_s
        ) == ns(part.host_wait_s)


@pytest.mark.parametrize("pattern", CHOSEN)
def test_busy_counts_and_classes_equal_the_slow_method(pattern: str) -> None:
    fast, slow, ledger = both(public(pattern))
    assert fast.device_span is not None and fast.device is not None
    assert ns(fast.device_span.busy_s) == sum(end - start for start, end in ledger.islands)
    analysed = next(device for device in fast.devices if device.analysed)
    kernels = [piece for piece in ledger.work if piece.cat in ("kernel", "Kernel")]
    assert analysed.kernels == len(kernels)
    assert fast.source.device_events == len(slow.work)
    low, high = (slow.origin + ns(time) for time in (fast.window.start_s, fast.window.end_s))
    inside = [piece for piece in ledger.work if low <= piece.start < high]
    rows = {row.kind: (row.calls, ns(row.total_s)) for row in fast.device.classes}
    assert rows == slow_method.class_times(inside)
    whole = sum(total for _, total in rows.values())
    for row in fast.device.classes:
        assert row.share == pytest.approx(ns(row.total_s) / whole)


@pytest.mark.parametrize("pattern", CHOSEN)
def test_longest_gaps_equal_the_slow_method(pattern: str) -> None:
    fast, slow, ledger = both(public(pattern))
    low, high = (slow.origin + ns(time) for time in (fast.window.start_s, fast.window.end_s))
    edges = [(slow.origin, slow.origin), *ledger.islands, (slow.end, slow.end)]
    gaps = [(max(a[1], low), min(b[0], high)) for a, b in itertools.pairwise(edges)]
    longest = sorted((end - start for start, end in gaps if end > start), reverse=True)[:20]
    assert fast.device is not None
    assert [ns(gap.length_s) for gap in fast.device.gaps] == longest
