"""A trace as columns: whole nanoseconds since the first event, interned names, -1 where a number was not recorded."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from ftprof.profiler.traces.intervals import Ints, Marks, ints


class Names(dict[str, int]):
    """Strings against small numbers, in the order of their first appearance."""

    def __missing__(self, name: str) -> int:
        self[name] = number = len(self)
        return number

    def texts(self) -> list[str]:
        """The strings; the index is the number."""
        return list(self)


@dataclass(slots=True)
class DeviceColumns:
    """Kernels, copies and fills in order of start. `external` is the id of the op that launched it."""

    start: Ints
    end: Ints
    kind: Ints
    name: Ints
    device: Ints
    stream: Ints
    correlation: Ints
    external: Ints
    bytes: Ints
    blocks_per_sm: np.ndarray[tuple[int], np.dtype[np.float32]]

    def __len__(self) -> int:
        return len(self.start)


@dataclass(slots=True)
class HostColumns:
    """Runtime calls, ops, annotations and Python calls in order of start; the outer one first.

    `shape` numbers the shapes of an op, `stack` its recorded Python stack (profilers of 2021).
    """

    start: Ints
    end: Ints
    kind: Ints
    name: Ints
    thread: Ints
    correlation: Ints
    external: Ints
    shape: Ints
    stack: Ints

    def __len__(self) -> int:
        return len(self.start)


@dataclass(slots=True)
class Facts:
    """What the file says about itself, and what reading it met."""

    format: str = "kineto"
    schema: str = "current"
    path: str = ""
    file_bytes: int = 0
    events: int = 0
    truncated: bool = False
    damaged: int = 0
    clock_outliers: int = 0
    negative_durations: int = 0
    device_dropped: int = 0
    foreign_events: int = 0
    counter_ranges: int = 0
    overhead_ns: int = 0
    overhead_events: int = 0
    fractional: bool = False
    device_names: dict[int, str] = field(default_factory=dict)
    multiprocessors: dict[int, int] = field(default_factory=dict)
    rank: int | None = None
    world_size: int | None = None
    with_stack: bool | None = None
    record_shapes: bool | None = None
    profile_memory: bool | None = None
    runtime_version: str | None = None
    driver_version: str | None = None


@dataclass(slots=True)
class Trace:
    """One file. `origin_ns` is the time of the first event on the file's own clock."""

    device: DeviceColumns
    host: HostColumns
    names: list[str]
    shapes: list[str]
    stacks: list[str]
    threads: list[str]
    facts: Facts
    origin_ns: int = 0
    marks: dict[tuple[re.Pattern[str], bool], Marks] = field(default_factory=dict)

    def named(self, pattern: re.Pattern[str]) -> Marks:
        """Which host events have a name that matches from its beginning. Kept, because many ask the same."""
        return self._marked(pattern, False)

    def searched(self, pattern: re.Pattern[str]) -> Marks:
        """Which host events have a name that matches anywhere."""
        return self._marked(pattern, True)

    def device_marks(self, pattern: re.Pattern[str]) -> Marks:
        """Which device work has a name that matches anywhere."""
        return np.array([pattern.search(name) is not None for name in self.names] or [False])[self.device.name]

    def _marked(self, pattern: re.Pattern[str], anywhere: bool) -> Marks:
        if (pattern, anywhere) not in self.marks:
            match = pattern.search if anywhere else pattern.match
            hits = np.array([match(name) is not None for name in self.names] or [False], dtype=np.bool_)
            self.marks[pattern, anywhere] = hits[self.host.name]
        return self.marks[pattern, anywhere]

    @property
    def end(self) -> int:
        """Nanoseconds from the first event to the end of the last."""
        ends = [int(part.end.max()) for part in (self.device, self.host) if len(part)]
        return max(ends, default=0)


# Two events of one recording are never further apart; a clock that says so is wrong (zeros, other epochs).
LONGEST_RECORDING_NS = 24 * 3600 * 10**9


def sort_and_rebase(trace: Trace) -> None:
    """Drops events whose clock is absurd, moves the origin to the first event and puts both sides in order."""
    starts = np.concatenate([trace.device.start, trace.host.start])
    if not len(starts):
        return
    centre = int(np.partition(starts, len(starts) // 2)[len(starts) // 2])
    for part in (trace.device, trace.host):
        near = (np.abs(part.start - centre) < LONGEST_RECORDING_NS) & (part.end - part.start < LONGEST_RECORDING_NS)
        trace.facts.clock_outliers += int(len(near) - near.sum())
        trace.facts.negative_durations += int((part.end < part.start).sum())
        rows = np.flatnonzero(near & (part.end >= part.start))
        if part is trace.device:
            trace.facts.device_dropped = len(part) - len(rows)
        _take(part, rows)
    firsts = [int(part.start.min()) for part in (trace.device, trace.host) if len(part)]
    trace.origin_ns = min(firsts, default=0)
    for part in (trace.device, trace.host):
        part.start -= trace.origin_ns
        part.end -= trace.origin_ns
        _take(part, np.lexsort((-part.end, part.start)))


def _take(part: DeviceColumns | HostColumns, rows: Ints) -> None:
    """Keeps these rows, in this order."""
    for name in part.__dataclass_fields__:
        setattr(part, name, getattr(part, name)[rows])


def empty_device() -> DeviceColumns:
    """No device work."""
    none = ints([])
    return DeviceColumns(none, none, none, none, none, none, none, none, none, np.zeros(0, dtype=np.float32))


def empty_host() -> HostColumns:
    """No host work."""
    return HostColumns(*(ints([]) for _ in range(9)))
