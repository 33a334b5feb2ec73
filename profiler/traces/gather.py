"""Collects decoded events, block by block, into the columns of a trace."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftprof.profiler.traces import schema
from ftprof.profiler.traces.columns import DeviceColumns, Facts, HostColumns, Names, Trace
from ftprof.profiler.traces.events import NOTHING, Args, Event
from ftprof.profiler.traces.intervals import Ints, ints
from ftprof.profiler.traces.schema import DEVICE_CATEGORIES, HOST_CATEGORIES

_DEVICE, _HOST, _OTHER = 1, 2, 3
_LANES: dict[str | None, int] = {
    **dict.fromkeys(DEVICE_CATEGORIES, _DEVICE),
    **dict.fromkeys(HOST_CATEGORIES, _HOST),
    **dict.fromkeys(schema.OVERHEAD_CATEGORIES | schema.FOREIGN_CATEGORIES | schema.COUNTER_CATEGORIES, _OTHER),
}
Times = Callable[[Sequence[Event], list[int]], tuple[Ints, Ints]]


_NO_ARGS = Args()


class Gather:
    """Growing columns. Compact parts are kept per block and joined once at the end."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.names, self.shapes, self.stacks = Names(), Names(), Names()
        self._threads: dict[tuple[object, object], int] = {}
        self._device: list[list[np.ndarray[Any, Any]]] = []
        self._host: list[list[np.ndarray[Any, Any]]] = []

    def add(self, events: Sequence[Event], times: Times) -> None:
        """Takes complete ("X") events of known categories; `times` gives their exact (start, duration)."""
        self.facts.events += len(events)
        get = _LANES.get
        lanes = np.array([get(event.cat, 0) for event in events], dtype=np.int8)
        rows = [row for row in np.flatnonzero(lanes).tolist() if events[row].ph == "X"]
        if not rows:
            return
        chosen, lanes = [events[row] for row in rows], lanes[rows]
        start, duration = times(chosen, rows)
        end = start + duration
        self.facts.fractional |= bool((start % 1000).any() or (duration % 1000).any())
        device, host, other = (np.flatnonzero(lanes == lane) for lane in (_DEVICE, _HOST, _OTHER))
        if len(device):
            self._add_device([chosen[row] for row in device.tolist()], start[device], end[device])
        if len(host):
            self._add_host([chosen[row] for row in host.tolist()], start[host], end[host])
        for row in other.tolist():
            self._other(chosen[row], int(start[row]), int(end[row]))

    def _other(self, event: Event, start: int, end: int) -> None:
        if event.cat in schema.OVERHEAD_CATEGORIES:
            self.facts.overhead_events += 1
            self.facts.overhead_ns += end - start
        elif event.cat in schema.FOREIGN_CATEGORIES:
            self.facts.foreign_events += 1
        elif event.cat in schema.COUNTER_CATEGORIES:
            self.facts.counter_ranges += 1

    def _add_device(self, events: list[Event], start: Ints, end: Ints) -> None:
        args = [event.args or _NO_ARGS for event in events]
        self._old(events)
        self._device.append(
            [
                start,
                end,
                np.array([DEVICE_CATEGORIES[event.cat or ""] for event in events], dtype=np.int8),
                self._names_of(events),
                _numbers([_lane(arg.device, event.pid) for arg, event in zip(args, events, strict=True)]),
                _numbers([_lane(arg.stream, event.tid) for arg, event in zip(args, events, strict=True)]),
                _column([arg.correlation for arg in args]),
                _externals(args),
                _column([arg.bytes for arg in args]),
                np.array([_real(arg.blocks_per_sm) for arg in args], dtype=np.float32),
            ]
        )

    def _add_host(self, events: list[Event], start: Ints, end: Ints) -> None:
        args = [event.args or _NO_ARGS for event in events]
        self._old(events)
        threads = self._threads
        self._host.append(
            [
                start,
                end,
                np.array([HOST_CATEGORIES[event.cat or ""] for event in events], dtype=np.int8),
                self._names_of(events),
                _numbers([threads.setdefault((event.pid, event.tid), len(threads)) for event in events]),
                _column([arg.correlation for arg in args]),
                _externals(args),
                self._shapes_of(args),
                _numbers([self.stacks[arg.stack] if arg.stack else -1 for arg in args]),
            ]
        )

    def _names_of(self, events: list[Event]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        names = self.names
        return _numbers([names[event.name] for event in events])

    def _shapes_of(self, args: list[Args]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        shapes = self.shapes
        return _numbers([shapes[_shape(arg)] if arg.dims is not NOTHING and bytes(arg.dims) else -1 for arg in args])

    def _old(self, events: list[Event]) -> None:
        if self.facts.schema == "current" and events[0].cat in schema.OLD_CATEGORIES:
            self.facts.schema = "2021"

    def trace(self) -> Trace:
        """All blocks joined. Old annotations, which came as ops, become annotations."""
        device = DeviceColumns(*_joined(self._device, 10))
        host = HostColumns(*_joined(self._host, 9))
        texts = self.names.texts()
        annotation = np.array([bool(schema.STEP.fullmatch(text)) for text in texts] or [False])
        host.kind[annotation[host.name] & (host.kind == schema.HostKind.OP)] = schema.HostKind.ANNOTATION
        threads = [f"{process}/{thread}" for process, thread in self._threads]
        return Trace(device, host, texts, self.shapes.texts(), self.stacks.texts(), threads, self.facts)


def _joined(parts: list[list[np.ndarray[Any, Any]]], width: int) -> list[Any]:
    """Column by column, so that no more than one of them is there twice."""
    if not parts:
        empty: list[Any] = [ints([]) for _ in range(width)]
        return empty
    columns: list[Any] = []
    for _number in range(width):
        column = np.concatenate([part.pop(0) for part in parts])
        columns.append(column if column.dtype.kind == "f" else column.astype(np.int64, copy=False))
    return columns


def _numbers(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(values, dtype=np.int32)


def _column(values: list[object]) -> Ints:
    """Whole numbers, -1 where there is none."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return np.array(values, dtype=np.int64)
    if kinds == {type(None)}:
        return np.full(len(values), -1, dtype=np.int64)
    return np.array([_number(value) for value in values], dtype=np.int64)


def _externals(args: list[Args]) -> Ints:
    """Ids of ops; the profilers of 2021 wrote them in lower case."""
    new = _column([arg.external for arg in args])
    return new if (new >= 0).any() else _column([arg.external_old for arg in args])


def _number(value: object) -> int:
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 19 else -1


def _real(value: object) -> float:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e30 else math.nan


def _lane(value: object, otherwise: object) -> int:
    """A device or stream number; old traces say "stream 7" in the thread's place."""
    for candidate in (value, otherwise):
        if isinstance(candidate, int):
            return candidate if abs(candidate) < 2**31 else abs(candidate) % 2**31
        if isinstance(candidate, str) and candidate.rpartition(" ")[2].isdecimal():
            return int(candidate.rpartition(" ")[2]) % 2**31
    return -1


def _shape(args: Args) -> str:
    """Shapes and element types as one text: `[[1, 64], []]|["float", "Scalar"]`."""
    dims = bytes(args.dims).decode("utf-8", "replace")
    types = bytes(args.types).decode("utf-8", "replace")
    return f"{dims}|{types}"
