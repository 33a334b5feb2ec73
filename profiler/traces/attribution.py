"""Device time of the window by op and shapes, by nn.Module, by Python line; host calls by where they come from."""

from __future__ import annotations

from collections import defaultdict
from typing import Literal

import numpy as np

from ftprof.profiler.traces import schema
from ftprof.profiler.traces.intervals import Ints, distinct
from ftprof.profiler.traces.partition import seconds
from ftprof.profiler.traces.python_lines import at, line_texts
from ftprof.profiler.traces.scope import Scope, totals_by
from ftprof.profiler.traces.tables import HostCall, LineRow, ModuleRow, OpRow

_MOST_ROWS = 60
CallKind = Literal["synchronisation", "copy", "allocator", "launch", "other"]


def ops(scope: Scope) -> tuple[OpRow, ...] | None:
    """By (lowest op, its shapes); None where no op launched anything."""
    host, op = scope.trace.host, scope.links.op[scope.rows]
    if not (op >= 0).any():
        return None
    outer = scope.links.host_outer_op
    key = np.where(op >= 0, (host.name[op] + 1) * (len(scope.trace.shapes) + 2) + host.shape[op] + 1, -1)
    keys, counts, sums = totals_by(key, scope.durations)
    whole = max(int(scope.durations.sum()), 1)
    example = dict(zip(key.tolist(), op.tolist(), strict=True))
    rows: list[OpRow] = []
    for value, count, total in zip(keys[:_MOST_ROWS].tolist(), counts.tolist(), sums.tolist(), strict=False):
        if value >= 0:
            rows.append(op_row(scope, example[value], int(outer[example[value]]), count, total, whole))
    return tuple(rows)


def op_row(scope: Scope, op: int, outer: int, count: int, total: int, whole: int) -> OpRow:
    """The row of one op; `outer` is the host row of the outermost op around it."""
    trace = scope.trace
    shape = trace.shapes[trace.host.shape[op]] if trace.host.shape[op] >= 0 else None
    dims, _, types = (shape or "").partition("|")
    return OpRow(
        name=trace.names[trace.host.name[op]],
        outer=trace.names[trace.host.name[outer]] if outer not in (-1, op) else None,
        shapes=_compact(dims) or None,
        dtypes=_compact(types) or None,
        kernels=count,
        total_s=seconds(total),
        share=total / whole,
    )


def _compact(text: str) -> str:
    return " ".join(text.split())


def modules(scope: Scope) -> tuple[ModuleRow, ...] | None:
    """By types of the module and of those above it; None where no module was recorded."""
    module = scope.links.module[scope.rows]
    if not (module >= 0).any():
        return None
    paths = {row: _module_path(scope, row) for row in distinct(module[module >= 0]).tolist()}
    spent: defaultdict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
    for row, count, total in zip(*(part.tolist() for part in totals_by(module, scope.durations)), strict=True):
        if row >= 0:
            spent[paths[row]][0] += count
            spent[paths[row]][1] += total
    whole = max(int(scope.durations.sum()), 1)
    ordered = sorted(spent.items(), key=lambda item: -item[1][1])[:_MOST_ROWS]
    return tuple(
        ModuleRow(module=path[-1], path=" > ".join(path[:-1]), kernels=n, total_s=seconds(total), share=total / whole)
        for path, (n, total) in ordered
    )


def _module_path(scope: Scope, row: int) -> tuple[str, ...]:
    """Types from the outermost module to this one, numbers left away."""
    found: list[str] = []
    while row >= 0:
        name = schema.MODULE.fullmatch(scope.trace.names[scope.trace.host.name[row]])
        if name:
            found.append(name["type"])
        parent = int(scope.links.nest.parent[row])
        row = int(scope.links.host_module[parent]) if parent >= 0 else -1
    return tuple(reversed(found))


def python_lines(scope: Scope) -> tuple[LineRow, ...] | None:
    """By the line around the launch; None where no Python was recorded."""
    around = np.where(scope.links.launch[scope.rows] >= 0, scope.links.launch[scope.rows], scope.links.op[scope.rows])
    frames = at(scope.links.host_line, around)
    ops = np.where((frames < 0) & (scope.links.op[scope.rows] >= 0), scope.links.op[scope.rows], -1)
    host = scope.trace.host
    name = np.where(frames >= 0, at(host.name, frames), -2 - at(host.stack, ops))
    first = {key: row for row, key in reversed(list(enumerate(name.tolist())))}
    spent: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for key, count, total in zip(*(part.tolist() for part in totals_by(name, scope.durations)), strict=True):
        text = line_texts(scope.trace, frames[first[key], None], ops[first[key], None])[0]
        if text:
            spent[text][0] += count
            spent[text][1] += total
    whole = max(int(scope.durations.sum()), 1)
    ordered = sorted(spent.items(), key=lambda item: -item[1][1])[:_MOST_ROWS]
    rows = [LineRow(line=text, kernels=n, total_s=seconds(total), share=total / whole) for text, (n, total) in ordered]
    return tuple(rows) or None


def calls(scope: Scope) -> tuple[HostCall, ...] | None:
    """Runtime calls of the window by name, with the op and the line that most of their time comes from."""
    host = scope.trace.host
    runtime = scope.calls[host.kind[scope.calls] == schema.HostKind.RUNTIME]
    if not len(runtime):
        return None
    frames = scope.links.host_line
    keys, counts, sums = totals_by(host.name[runtime], host.end[runtime] - host.start[runtime])
    rows = [
        _call(scope, frames, runtime[host.name[runtime] == key], count, total)
        for key, count, total in zip(keys[:_MOST_ROWS].tolist(), counts.tolist(), sums.tolist(), strict=False)
    ]
    return tuple(rows)


def _call(scope: Scope, frames: Ints, rows: Ints, count: int, total: int) -> HostCall:
    host, names = scope.trace.host, scope.trace.names
    op, frame = at(scope.links.host_op, rows), at(frames, rows)
    place = (at(host.name, op) + 1) * (len(names) + 1) + at(host.name, frame) + 1
    places, _, _ = totals_by(place, host.end[rows] - host.start[rows])
    top = int(np.flatnonzero(place == places[0])[0])
    line = line_texts(scope.trace, frame[top, None], op[top, None])[0]
    name = names[host.name[rows[0]]]
    return HostCall(
        name=name,
        kind=call_kind(name),
        calls=count,
        total_s=seconds(total),
        op=names[host.name[op[top]]] if op[top] >= 0 else None,
        line=line,
    )


def call_kind(name: str) -> CallKind:
    """What a runtime function is for."""
    if schema.SYNC_CALL.match(name):
        return "synchronisation"
    if schema.COPY_CALL.match(name):
        return "copy"
    if schema.ALLOCATOR_CALL.match(name):
        return "allocator"
    return "launch" if schema.LAUNCH_CALL.match(name) else "other"
