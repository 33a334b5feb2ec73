"""One analysis in progress: the trace, its links and the window that the tables are about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ftprof.profiler.traces import schema
from ftprof.profiler.traces.activity import Activity
from ftprof.profiler.traces.columns import Trace
from ftprof.profiler.traces.intervals import Ints, Marks
from ftprof.profiler.traces.links import Links
from ftprof.profiler.traces.taxonomy import Taxonomy
from ftprof.profiler.traces.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Scope:
    """`rows` is the device work of the analysed device that starts in [low, high) and `durations` its
    nanoseconds; `calls` are the host events that start in it.
    """

    trace: Trace
    links: Links
    kinds: Activity
    taxonomy: Taxonomy
    timeline: Timeline
    main: int
    low: int
    high: int
    rows: Ints
    durations: Ints
    calls: Ints

    @property
    def length(self) -> int:
        """Nanoseconds of the window."""
        return self.high - self.low

    @property
    def kernels(self) -> Marks:
        """Which of `rows` are kernels (or whole graphs), not copies or fills."""
        kind = self.trace.device.kind[self.rows]
        found: Marks = (kind == schema.DeviceKind.KERNEL) | (kind == schema.DeviceKind.GRAPH)
        return found


def scope(
    trace: Trace, links: Links, kinds: Activity, taxonomy: Taxonomy, timeline: Timeline, main: int, low: int, high: int
) -> Scope:
    """The part of the trace that starts in [low, high)."""
    device, host = trace.device, trace.host
    mine = (device.device == timeline.device) if timeline.device is not None else np.zeros(len(device), np.bool_)
    rows = np.flatnonzero(mine & (device.start >= low) & (device.start < high))
    calls = np.flatnonzero((host.start >= low) & (host.start < high))
    return Scope(
        trace, links, kinds, taxonomy, timeline, main, low, high, rows, device.end[rows] - device.start[rows], calls
    )


def totals_by(keys: Ints, values: Ints) -> tuple[Ints, Ints, Ints]:
    """(distinct keys, how many of each, sum of the values of each), the largest sum first."""
    if not len(keys):
        return keys, keys, keys
    by_key = np.argsort(keys, kind="stable")
    ordered = keys[by_key]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    counts = np.diff(np.append(first, len(keys)))
    sums = np.add.reduceat(values[by_key], first)
    order = np.argsort(-sums, kind="stable")
    return ordered[first][order], counts[order], sums[order]
