"""What a host thread was in, at every instant, as exclusive classes: waiting calls first, plain Python last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ftprof.profiler.traces import schema
from ftprof.profiler.traces.columns import Trace
from ftprof.profiler.traces.intervals import Marks, Spans, intersect, subtract, union
from ftprof.profiler.traces.links import Links

# In this order: where two hold at once, the first one says what the thread did.
CLASSES = (
    "synchronisation",
    "pageable_copy_call",
    "copy_call",
    "allocator",
    "data_loading",
    "runtime_call",
    "op",
    "python",
)
UNRECORDED = "unrecorded"


@dataclass(frozen=True, slots=True)
class Activity:
    """For each class the host rows that belong to it."""

    rows: dict[str, Marks]

    def of_thread(self, trace: Trace, thread: int) -> dict[str, Spans]:
        """What each class covers on one thread."""
        mine = trace.host.thread == thread
        return {name: _covered(trace, marks & mine) for name, marks in self.rows.items()}


def _covered(trace: Trace, marks: Marks) -> Spans:
    return union(trace.host.start[marks], trace.host.end[marks])


def activity(trace: Trace, links: Links) -> Activity:
    """Classifies every host event."""
    host = trace.host
    runtime = host.kind == schema.HostKind.RUNTIME
    copy = runtime & trace.named(schema.COPY_CALL)
    pageable = copy & _launches_pageable(trace, links)
    python, op = host.kind == schema.HostKind.PYTHON, host.kind == schema.HostKind.OP
    rows = {
        "synchronisation": runtime & trace.named(schema.SYNC_CALL),
        "pageable_copy_call": pageable,
        "copy_call": copy & ~pageable,
        "allocator": runtime & trace.named(schema.ALLOCATOR_CALL),
        "data_loading": ~runtime & trace.searched(schema.DATA_LOADING),
        "runtime_call": runtime,
        "op": op,
        "python": python,
    }
    assert tuple(rows) == CLASSES
    return Activity(rows)


def _launches_pageable(trace: Trace, links: Links) -> Marks:
    """Which host rows put a copy from or to pageable memory onto a stream."""
    device = trace.device
    result = np.zeros(len(trace.host), dtype=np.bool_)
    copies = (device.kind == schema.DeviceKind.MEMCPY) & trace.device_marks(schema.PAGEABLE_COPY)
    launches = links.launch[copies]
    result[launches[launches >= 0]] = True
    return result


def split(spans: Spans, classes: dict[str, Spans]) -> dict[str, Spans]:
    """Spans by class, exclusive and exhaustive; what no class covers is UNRECORDED."""
    parts: dict[str, Spans] = {}
    for name in CLASSES:
        parts[name] = intersect(spans, classes[name])
        spans = subtract(spans, classes[name])
    parts[UNRECORDED] = spans
    return parts


def main_thread(trace: Trace) -> int:
    """The thread that launches most; without launches the one with most events. -1 where there is no host side."""
    host = trace.host
    if not len(host):
        return -1
    launching = (host.kind == schema.HostKind.RUNTIME) & trace.named(schema.LAUNCH_CALL)
    threads = host.thread[launching] if launching.any() else host.thread
    return int(np.bincount(threads).argmax())
