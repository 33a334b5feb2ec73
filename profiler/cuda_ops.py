"""One profiled pass on a GPU, read back through the trace analysis: its ops, and what each put onto the device."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.op_totals import Event
from ftprof.profiler.trace import MARK, clock_offset
from ftprof.profiler.traces import schema
from ftprof.profiler.traces.activity import activity, main_thread
from ftprof.profiler.traces.columns import Trace
from ftprof.profiler.traces.intervals import Ints, distinct, union
from ftprof.profiler.traces.links import Links, link
from ftprof.profiler.traces.model import Partition
from ftprof.profiler.traces.partition import to_partition, totals
from ftprof.profiler.traces.read_kineto import read_kineto
from ftprof.profiler.traces.taxonomy import classify
from ftprof.profiler.traces.timeline import Timeline, timeline

NO_OP = "work outside ops"
"""Device work that no op of the main thread owns: a graph's replay, a library's own copies, another thread's."""


class PassOps:
    """Times go in on the clock of `perf_counter_ns` and are moved to the trace's own by `offset`."""

    def __init__(self, trace: Trace, links: Links, line: Timeline, offset: int, *, causal: bool) -> None:
        self._trace, self._line, self._offset = trace, line, offset
        host = trace.host
        main = main_thread(trace)
        self._rows = np.flatnonzero((host.kind == schema.HostKind.OP) & (host.thread == main))
        self._owner = self._owners(links)
        self.events: list[Event] = [self._event(int(row), causal) for row in self._rows.tolist()]

    def _owners(self, links: Links) -> Ints:
        """For each piece of device work the position in `events` of the op that launched it, -1 for none."""
        position = np.full(len(self._trace.host) + 1, -1, dtype=np.int64)
        position[self._rows] = np.arange(len(self._rows))
        return position[links.op]

    def _event(self, row: int, causal: bool) -> Event:
        host = self._trace.host
        name = self._trace.names[host.name[row]]
        shapes, dtypes = inputs(self._trace.shapes[host.shape[row]] if host.shape[row] >= 0 else "|")
        square = len(shapes) > 1 and len(shapes[0]) == 4 and shapes[0][-2] == shapes[1][-2] > 1
        start, end = int(host.start[row]) - self._offset, int(host.end[row]) - self._offset
        return Event(name, start, end, shapes, dtypes, causal and square and "attention" in name)

    def partition(self, start: int, end: int) -> dict[str, int]:
        """Nanoseconds of each class between two stamps; they sum to the time between them, to the nanosecond."""
        return totals(self._line, [self._inside(start, end)])[0]

    def whole_partition(self, start: int, end: int) -> Partition:
        """The same as reports show it."""
        return to_partition(self.partition(start, end))

    def _inside(self, start: int, end: int) -> tuple[int, int]:
        low = min(max(start + self._offset, self._line.low), self._line.high)
        return low, min(max(end + self._offset, low), self._line.high)

    def device_ns(self, start: int, end: int) -> list[int]:
        """By event: nanoseconds of the work that it launched itself and that ran between two stamps."""
        low, high = self._inside(start, end)
        device = self._trace.device
        mine = (device.device == self._line.device) & (self._owner >= 0)
        spent = np.minimum(device.end[mine], high) - np.maximum(device.start[mine], low)
        found = np.zeros(len(self.events), dtype=np.int64)
        np.add.at(found, self._owner[mine], np.maximum(spent, 0))
        return [int(value) for value in found]

    def unowned_ns(self, start: int, end: int) -> int:
        """Nanoseconds of device work between two stamps that no op owns."""
        low, high = self._inside(start, end)
        device = self._trace.device
        rest = (device.device == self._line.device) & (self._owner < 0)
        return union(np.clip(device.start[rest], low, high), np.clip(device.end[rest], low, high)).total


def inputs(text: str) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...]]:
    """Shapes and element types from the trace's text `[[1, 64], []]|["float", "Scalar"]`.

    Lists of tensors are flattened, with the type left as "list"; what is no list of sizes is an empty shape.
    """
    dims, _, types = text.partition("|")
    shapes: list[tuple[int, ...]] = []
    dtypes: list[str] = []
    for dim, dtype in zip(_list(dims), _list(types), strict=False):
        nested = isinstance(dim, list) and any(isinstance(part, list) for part in dim)
        for one in dim if nested and isinstance(dim, list) else [dim]:
            shapes.append(_sizes(one))
            dtypes.append("list" if nested else str(dtype))
    return tuple(shapes), tuple(dtypes)


def _list(text: str) -> Sequence[object]:
    try:
        found = json.loads(text or "[]")
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def _sizes(value: object) -> tuple[int, ...]:
    return tuple(size for size in value if isinstance(size, int)) if isinstance(value, list) else ()


def read_pass(path: Path, marks: Sequence[tuple[int, int]], *, causal: bool) -> PassOps:
    """The pass in a trace file. FtprofError where it holds no device work or no clock marks."""
    trace = read_kineto(path)
    if not len(trace.device):
        raise FtprofError(
            "The profiler recorded no GPU work (CUPTI is missing, or another profiler holds it)",
            "end other profilers; in a container allow CUPTI",
            Exit.UNUSABLE,
        )
    host = trace.host
    named = np.array([name == MARK for name in trace.names])[host.name]
    theirs = list(zip(host.start[named].tolist(), host.end[named].tolist(), strict=True))
    if not theirs:
        raise FtprofError(
            "The profiler's trace lacks ftprof's clock marks", "use a stock build of torch", Exit.UNUSABLE
        )
    links = link(trace)
    busy = {
        int(number): union(trace.device.start[mine], trace.device.end[mine]).total
        for number in distinct(trace.device.device)
        if (mine := trace.device.device == number).any()
    }
    device = max(busy, key=lambda number: busy[number])
    line = timeline(trace, links, activity(trace, links), classify(trace), device, main_thread(trace))
    return PassOps(trace, links, line, clock_offset(theirs, marks), causal=causal)
