"""The split of any window's time, read off the timeline. Exact: the parts sum to the window to the nanosecond."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ftprof.profiler.traces.intervals import covered, ints
from ftprof.profiler.traces.model import Partition
from ftprof.profiler.traces.timeline import CLASSES, Timeline


def seconds(nanoseconds: float) -> float:
    """Nanoseconds as seconds; the nearest double, so that rounding back to nanoseconds is exact."""
    return float(nanoseconds) / 1e9


def totals(timeline: Timeline, windows: Sequence[tuple[int, int]]) -> list[dict[str, int]]:
    """Nanoseconds of each class in each window [low, high)."""
    low, high = ints([window[0] for window in windows]), ints([window[1] for window in windows])
    columns = {name: covered(timeline.spans[name], low, high) for name in CLASSES}
    return [{name: int(column[row]) for name, column in columns.items()} for row in range(len(windows))]


def summed(parts: Sequence[dict[str, int]]) -> dict[str, int]:
    """The sum, class by class."""
    return {name: int(np.sum([part[name] for part in parts])) if parts else 0 for name in CLASSES}


def to_partition(part: dict[str, int]) -> Partition:
    """The classes folded into the partition that reports show."""
    host = ("allocator", "runtime_call", "op", "python", "unrecorded")
    return Partition(
        total_s=seconds(sum(part.values())),
        compute_s=seconds(part["compute"]),
        communication_s=seconds(part["communication"]),
        copies_s=seconds(part["pageable_copy"] + part["copy"]),
        synchronisation_s=seconds(part["synchronisation"]),
        copy_calls_s=seconds(part["pageable_copy_call"] + part["copy_call"]),
        data_loading_s=seconds(part["data_loading"]),
        launch_latency_s=seconds(part["launch_latency"]),
        host_wait_s=seconds(sum(part[name] for name in host)),
        unexplained_s=seconds(part["unexplained"]),
        pageable_s=seconds(part["pageable_copy"] + part["pageable_copy_call"]),
        allocator_s=seconds(part["allocator"]),
        runtime_calls_s=seconds(part["runtime_call"]),
        ops_s=seconds(part["op"]),
        python_s=seconds(part["python"]),
        unrecorded_s=seconds(part["unrecorded"]),
    )
