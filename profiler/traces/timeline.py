"""Every nanosecond of a trace in exactly one class: what the device did, or why it did nothing.

Busy is the union of all streams of one device. What is left falls into gaps, and a gap is split at the launch of the
work that ended it: before the launch call began, the host had not asked yet, and counts as what its thread was in;
from there the device owes the work (launch latency), up to LATENCY after the end of the call. What remains after that
was queued and did not run: another stream's event, or work that the trace does not hold. It stays unexplained.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ftprof.profiler.traces import schema
from ftprof.profiler.traces.activity import Activity, split
from ftprof.profiler.traces.columns import Trace
from ftprof.profiler.traces.intervals import (
    NONE,
    Ints,
    Marks,
    Spans,
    complement,
    distinct,
    ints,
    merged,
    subtract,
    union,
)
from ftprof.profiler.traces.links import Links
from ftprof.profiler.traces.taxonomy import Taxonomy

# A launch that takes longer than this after its call returned is flagged by other analysers too; a normal one takes
# 3 to 20 us.
LATENCY_NS = 100_000
# Kernels of one stream that were all queued still stand 1 to 3 us apart; twice the trace's own median where larger
# (up to LATENCY: a median beyond that is no rest between kernels).
BACK_TO_BACK_NS = 5_000

# A launch call of a millisecond does more than launch: it loads the kernel's code, or builds a graph. That is the
# host's time.
LOADING_NS = 1_000_000

BUSY = ("compute", "communication", "pageable_copy", "copy")
HOST = ("allocator", "runtime_call", "op", "python", "unrecorded")
IDLE = ("synchronisation", "pageable_copy_call", "copy_call", "data_loading", "launch_latency", "unexplained", *HOST)
CLASSES = (*BUSY, *IDLE)


@dataclass(frozen=True, slots=True)
class Gaps:
    """Maximal idle times in order. `ended_by` is the device row that ended each (-1 at the end of the trace).

    [start, asked) the host had not asked; [asked, late) the launch was under way; [late, end) it was overdue.
    """

    start: Ints
    asked: Ints
    late: Ints
    end: Ints
    ended_by: Ints
    launch: Ints
    thread: Ints
    known: Marks


@dataclass(frozen=True, slots=True)
class Timeline:
    """`spans` by class: disjoint, and together [low, high) exactly."""

    low: int
    high: int
    device: int | None
    busy: Spans
    gaps: Gaps
    spans: dict[str, Spans]
    waiting: dict[int, Spans]
    """Idle time in which the host had not asked for the next work, by the thread that asked in the end."""


def timeline(
    trace: Trace, links: Links, kinds: Activity, taxonomy: Taxonomy, device: int | None, main: int
) -> Timeline:
    """Classifies the whole time of a trace for one device (None where there is no device work)."""
    rows = np.flatnonzero(trace.device.device == device) if device is not None else ints([])
    low, high = 0, trace.end
    busy = union(trace.device.start[rows], trace.device.end[rows])
    spans = _busy_classes(trace, taxonomy, rows, busy)
    near = _back_to_back(trace, links, rows, busy)
    gaps = _gaps(trace, links, rows, busy, complement(busy, low, high), main, near)
    waiting = {}
    parts: dict[str, list[Spans]] = {name: [] for name in IDLE}
    for thread in distinct(gaps.thread):
        mine = gaps.thread == thread
        waiting[int(thread)] = wait = _between(gaps.start[mine & gaps.known], gaps.asked[mine & gaps.known])
        for name, part in split(wait, kinds.of_thread(trace, int(thread))).items():
            parts[name].append(part)
    _split_the_rest(trace, kinds, gaps, main, parts)
    spans |= {name: merged(*some) if some else NONE for name, some in parts.items()}
    return Timeline(low, high, device, busy, gaps, spans, waiting)


def _between(start: Ints, end: Ints) -> Spans:
    real = end > start
    return Spans(start[real], end[real])


def _split_the_rest(trace: Trace, kinds: Activity, gaps: Gaps, main: int, parts: dict[str, list[Spans]]) -> None:
    """Launch latency, the call of a copy that was on its way, what is overdue, and gaps whose launch is not known."""
    copying = np.zeros(len(gaps.start), dtype=np.bool_)
    started = gaps.ended_by >= 0
    copying[started] = trace.device.kind[gaps.ended_by[started]] == schema.DeviceKind.MEMCPY
    copying &= gaps.launch >= 0
    inside = np.where(copying, np.clip(_at(trace.host.end, gaps.launch), gaps.asked, gaps.late), gaps.asked)
    pageable = copying & _at(kinds.rows["pageable_copy_call"].astype(np.int64), gaps.launch).astype(np.bool_)
    parts["pageable_copy_call"].append(_between(gaps.asked[pageable], inside[pageable]))
    parts["copy_call"].append(_between(gaps.asked[~pageable], inside[~pageable]))
    parts["launch_latency"].append(_between(inside, gaps.late))
    parts["unexplained"].append(_between(gaps.late[gaps.known], gaps.end[gaps.known]))
    unknown = _between(gaps.late[~gaps.known], gaps.end[~gaps.known])
    for name, part in split(unknown, kinds.of_thread(trace, main)).items():
        sure = name in ("synchronisation", "pageable_copy_call", "copy_call", "data_loading")
        parts[name if sure else "unexplained"].append(part)


def _at(column: Ints, rows: Ints) -> Ints:
    """column[rows], zero where the row is -1."""
    return np.where(rows >= 0, column[rows], 0) if len(column) else np.zeros(len(rows), dtype=np.int64)


def _busy_classes(trace: Trace, taxonomy: Taxonomy, rows: Ints, busy: Spans) -> dict[str, Spans]:
    """Computation hides communication, and both hide copies: what is left of each was exposed."""
    device = trace.device
    kernel = (device.kind[rows] == schema.DeviceKind.KERNEL) | (device.kind[rows] == schema.DeviceKind.GRAPH)
    collective = taxonomy.is_class("collective")[device.name[rows]]
    pageable = np.array([bool(schema.PAGEABLE_COPY.search(name)) for name in trace.names] or [False])[device.name[rows]]
    copy = device.kind[rows] == schema.DeviceKind.MEMCPY

    def cover(marks: Marks) -> Spans:
        return union(device.start[rows[marks]], device.end[rows[marks]])

    compute = cover(kernel & ~collective)
    communication = subtract(cover(kernel & collective), compute)
    done = merged(compute, communication)
    paged = subtract(cover(copy & pageable), done)
    copies = subtract(busy, merged(done, paged))
    return {"compute": compute, "communication": communication, "pageable_copy": paged, "copy": copies}


def _starters(trace: Trace, links: Links, rows: Ints, starts: Ints) -> Ints:
    """The device row that begins at each of these starts of busy time; of several the one that was launched first."""
    unknown = links.launch[rows] < 0
    order = rows[np.lexsort((links.launch[rows], unknown, trace.device.start[rows]))]
    order = order[trace.device.end[order] > trace.device.start[order]]
    return order[np.searchsorted(trace.device.start[order], starts)]


def _back_to_back(trace: Trace, links: Links, rows: Ints, busy: Spans) -> int:
    """How long the device rests between pieces of work that were both queued already."""
    if len(busy) < 2:
        return BACK_TO_BACK_NS
    launch = links.launch[_starters(trace, links, rows, busy.start[1:])]
    queued = (launch >= 0) & (_at(trace.host.end, launch) <= busy.end[:-1])
    gaps = (busy.start[1:] - busy.end[:-1])[queued]
    return min(max(BACK_TO_BACK_NS, int(2 * np.median(gaps))), LATENCY_NS) if len(gaps) else BACK_TO_BACK_NS


def _gaps(trace: Trace, links: Links, rows: Ints, busy: Spans, idle: Spans, main: int, near: int) -> Gaps:
    """Idle times with the launch that ended them."""
    start, end = idle.start, idle.end
    ended_by = np.full(len(idle), -1, dtype=np.int64)
    at = np.searchsorted(busy.start, end)
    ends_in_work = (at < len(busy)) & (busy.start[np.minimum(at, len(busy) - 1)] == end) if len(busy) else end < 0
    ended_by[ends_in_work] = _starters(trace, links, rows, end[ends_in_work])
    launch = np.where(ended_by >= 0, links.launch[ended_by] if len(rows) else -1, -1)
    thread = np.where(launch >= 0, _at(trace.host.thread, launch), main)
    known = (launch >= 0) | (ended_by < 0)
    called, returned = _at(trace.host.start, launch), _at(trace.host.end, launch)
    kernel = _at(trace.device.kind, ended_by) != schema.DeviceKind.MEMCPY
    called = np.where(kernel & (returned - called > LOADING_NS), returned, called)
    asked = np.where(launch >= 0, np.clip(called, start, end), np.where(known, end, start))
    late = np.where(launch >= 0, np.clip(returned + LATENCY_NS, asked, end), asked)
    short = (asked == start) & (ended_by >= 0) & (end - start <= near)
    return Gaps(start, asked, np.where(short, end, late), end, ended_by, launch, thread, known)
