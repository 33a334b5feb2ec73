"""Totals of one phase's ops from their events: nesting, costs counted once, recording taken off. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ftprof.profiler import opcost
from ftprof.profiler.nesting import Node, corrected, nest
from ftprof.profiler.record import Accuracy, Machine, OpTotal
from ftprof.profiler.windows import Window

# Rows kept with their own shapes; the cache grows every step, so decode has a row per step for each attention op.
KEPT_ROWS = 160


class Event(NamedTuple):
    """One op call: nanoseconds on the clock of `time.perf_counter_ns`; element types as the profiler spells them."""

    name: str
    start: int
    end: int
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    causal: bool = False


@dataclass(slots=True)
class _Row:
    """Running total of one op, shapes and element type over all occurrences."""

    calls: int = 0
    children: int = 0
    self_ns: int = 0
    flops: float | None = 0.0
    bytes: float | None = 0.0
    accuracy: Accuracy = "exact"

    def add(self, node: Node, cost: opcost.Cost) -> None:
        self.calls += 1
        self.children += node.children
        self.self_ns += node.self_ns
        self.flops = None if self.flops is None or cost.flops is None else self.flops + cost.flops
        self.bytes = None if self.bytes is None or cost.bytes is None else self.bytes + cost.bytes
        self.accuracy = max(self.accuracy, cost.accuracy, key=("exact", "estimated", "unknown").index)


Key = tuple[str, str, str, str]
"""Name, kind, shapes, element type."""


@dataclass(slots=True)
class PhaseTotal:
    """What one phase added up to over all traced units."""

    rows: dict[Key, _Row] = field(default_factory=dict)
    top: int = 0
    top_ns: int = 0
    wall_ns: int = 0
    events: int = 0
    occurrences: int = 0


def add_window(
    total: PhaseTotal, events: Sequence[Event], window: Window, device_ns: Sequence[int] | None = None
) -> None:
    """Add the ops that start inside the window. `device_ns` are what each event's own launches took on a device, and
    stand in for its time on the host."""
    starts = [event.start for event in events]
    first, last = bisect_left(starts, window.start), bisect_left(starts, window.end)
    inside = events[first:last]
    nodes = nest([(event.start, event.end) for event in inside])
    costs = _costs(inside, nodes)
    if device_ns is not None:
        nodes = [Node(0, spent, node.parent) for node, spent in zip(nodes, device_ns[first:last], strict=True)]
    dtype = "float32"
    for event, node, cost in zip(inside, nodes, costs, strict=True):
        if node.parent < 0:
            total.top += 1
            total.top_ns += node.end - node.start
        dtype = opcost.dtype_name(event.dtypes, dtype)
        key = (event.name, opcost.kind(event.name, event.dtypes), _spell(event.shapes), dtype)
        total.rows.setdefault(key, _Row()).add(node, cost)
    total.wall_ns += window.end - window.start
    total.events += len(inside)
    total.occurrences += window.occurrences


def _costs(events: Sequence[Event], nodes: Sequence[Node]) -> list[opcost.Cost]:
    """Costs, each counted once: a composite op is free where an op inside it carries a cost."""
    carries = [False] * len(events)
    costs = [opcost.Cost(0.0, 0.0, "exact")] * len(events)
    recent = list(_recent_dtypes(events))
    for position in range(len(events) - 1, -1, -1):
        event = events[position]
        if not (carries[position] and opcost.is_composite(event.name)):
            dtypes = tuple(recent[position] if dtype == "list" else dtype for dtype in event.dtypes)
            costs[position] = opcost.cost(event.name, event.shapes, dtypes, causal=event.causal)
        parent = nodes[position].parent
        if parent >= 0 and (carries[position] or costs[position].bytes):
            carries[parent] = True
    return costs


def _recent_dtypes(events: Sequence[Event]) -> Iterator[str]:
    """The last floating element type before each event: what a list of tensors most likely holds."""
    recent = "float"
    for event in events:
        yield recent
        recent = next((dtype for dtype in event.dtypes if "loat" in dtype or "Half" in dtype), recent)


def _spell(shapes: Sequence[Sequence[int]]) -> str:
    """`1x576, 576x1536`; inputs that are no tensors are left out."""
    return ", ".join("x".join(map(str, shape)) for shape in shapes if shape)


def totals(rows: Mapping[Key, _Row], scale: float, occurrences: int, machine: Machine) -> tuple[OpTotal, ...]:
    """Rows per occurrence, corrected, largest first; the tail is joined over its shapes."""
    found = [_total(key, row, scale, occurrences, machine) for key, row in rows.items()]
    found.sort(key=lambda op: -op.self_s)
    joined: dict[tuple[str, str, str, Accuracy], list[OpTotal]] = {}
    for op in found[KEPT_ROWS:]:
        joined.setdefault((op.name, op.kind, op.dtype, op.accuracy), []).append(op)
    return (*found[:KEPT_ROWS], *(_join(group) for group in joined.values()))


def _total(key: Key, row: _Row, scale: float, occurrences: int, machine: Machine) -> OpTotal:
    name, kind, shapes, dtype = key
    self_s = corrected(row.self_ns / 1e9, row.calls, row.children, machine.trace_in_s, machine.trace_out_s)
    return OpTotal(
        name=name,
        kind=kind,
        shapes=shapes,
        dtype=dtype,
        calls=row.calls / occurrences,
        self_s=self_s * scale / occurrences,
        flops=None if row.flops is None else row.flops / occurrences,
        bytes=None if row.bytes is None else row.bytes / occurrences,
        accuracy=row.accuracy,
    )


def _join(group: Sequence[OpTotal]) -> OpTotal:
    """One row for several shapes of the same op."""
    first = group[0]
    flops = [op.flops for op in group if op.flops is not None]
    moved = [op.bytes for op in group if op.bytes is not None]
    return OpTotal(
        name=first.name,
        kind=first.kind,
        shapes=first.shapes if len(group) == 1 else f"{len(group)} shapes",
        dtype=first.dtype,
        calls=sum(op.calls for op in group),
        self_s=sum(op.self_s for op in group),
        flops=sum(flops) if len(flops) == len(group) else None,
        bytes=sum(moved) if len(moved) == len(group) else None,
        accuracy=first.accuracy,
    )
