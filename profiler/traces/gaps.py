"""Idle times of the device, and what the launching thread was in meanwhile."""

from __future__ import annotations

import numpy as np

from ftprof.profiler.traces import schema
from ftprof.profiler.traces.intervals import Ints, Spans, clip, covered, ints
from ftprof.profiler.traces.partition import seconds, totals
from ftprof.profiler.traces.python_lines import line_texts
from ftprof.profiler.traces.scope import Scope, totals_by
from ftprof.profiler.traces.tables import Gap, IdleRow
from ftprof.profiler.traces.timeline import IDLE

_MOST_GAPS = 20
_MOST_ROWS = 40
_KINDS = {
    schema.HostKind.RUNTIME: "runtime call",
    schema.HostKind.OP: "op",
    schema.HostKind.ANNOTATION: "annotation",
    schema.HostKind.PYTHON: "Python",
}


def longest_gaps(scope: Scope) -> tuple[Gap, ...]:
    """The longest idle times of the window, each with its largest part and its name."""
    gaps = scope.timeline.gaps
    start, end = np.maximum(gaps.start, scope.low), np.minimum(gaps.end, scope.high)
    length = end - start
    order = np.argsort(-length, kind="stable")[:_MOST_GAPS]
    order = order[length[order] > 0]
    frames = scope.links.host_line
    windows = [(int(start[row]), int(end[row])) for row in order.tolist()]
    parts = totals(scope.timeline, windows)
    return tuple(
        _gap(scope, frames, row, window, part) for row, window, part in zip(order.tolist(), windows, parts, strict=True)
    )


def _gap(scope: Scope, frames: Ints, row: int, window: tuple[int, int], part: dict[str, int]) -> Gap:
    gaps, device, names = scope.timeline.gaps, scope.trace.device, scope.trace.names
    asked = min(max(int(gaps.asked[row]), window[0]), window[1])
    waiting = (window[0], asked) if asked > window[0] else window
    owner = _owner(scope, int(gaps.thread[row]), waiting)
    ended_by = int(gaps.ended_by[row])
    before = np.flatnonzero(device.end == gaps.start[row])
    python = line_texts(scope.trace, frames[owner, None], scope.links.host_op[owner, None])[0] if owner >= 0 else None
    return Gap(
        start_s=seconds(window[0]),
        length_s=seconds(window[1] - window[0]),
        cause=max(IDLE, key=lambda name: part[name]),
        cpu=names[scope.trace.host.name[owner]] if owner >= 0 else None,
        python=python,
        before=names[device.name[before[-1]]] if len(before) else None,
        after=names[device.name[ended_by]] if ended_by >= 0 else None,
    )


def _owner(scope: Scope, thread: int, window: tuple[int, int]) -> int:
    """The host event that was innermost on the thread for most of the window; -1 for none."""
    found, host = scope.links.nest, scope.trace.host
    rows = np.flatnonzero((found.leaf_end > window[0]) & (found.leaf_start < window[1]))
    rows = rows[host.thread[found.leaf_owner[rows]] == thread]
    if not len(rows):
        return -1
    length = np.minimum(found.leaf_end[rows], window[1]) - np.maximum(found.leaf_start[rows], window[0])
    keys, _, _ = totals_by(host.name[found.leaf_owner[rows]], length)
    owners = found.leaf_owner[rows][host.name[found.leaf_owner[rows]] == keys[0]]
    return int(owners[0])


def idle_by_cpu(scope: Scope) -> tuple[IdleRow, ...]:
    """All idle time in which the host had not asked for more, by the innermost event of the thread that asked next."""
    found, host = scope.links.nest, scope.trace.host
    names: list[Ints] = []
    spent: list[Ints] = []
    nothing = 0
    thread_of_leaf = host.thread[found.leaf_owner] if len(found.leaf_owner) else ints([])
    for thread, spans in scope.timeline.waiting.items():
        inside = clip(spans, scope.low, scope.high)
        mine = np.flatnonzero(thread_of_leaf == thread)
        length = covered(inside, found.leaf_start[mine], found.leaf_end[mine])
        names.append(found.leaf_owner[mine][length > 0])
        spent.append(length[length > 0])
        nothing += inside.total - int(length.sum())
    owners, length = np.concatenate([*names, ints([])]), np.concatenate([*spent, ints([])])
    rows = [*_idle_rows(scope, owners, length), _idle_row(scope, None, "nothing recorded", nothing)]
    ordered = sorted((row for row in rows if row.total_s > 0), key=lambda row: -row.total_s)
    return tuple(ordered[:_MOST_ROWS])


def _idle_rows(scope: Scope, owners: Ints, length: Ints) -> list[IdleRow]:
    host = scope.trace.host
    key = host.name[owners] * 4 + host.kind[owners]
    keys, _, sums = totals_by(key, length)
    return [
        _idle_row(scope, scope.trace.names[value // 4], _KINDS[schema.HostKind(value % 4)], total)
        for value, total in zip(keys.tolist(), sums.tolist(), strict=True)
    ]


def _idle_row(scope: Scope, name: str | None, kind: str, total: int) -> IdleRow:
    return IdleRow(name=name, kind=kind, total_s=seconds(total), share_of_window=total / max(scope.length, 1))


def overdue(scope: Scope) -> Spans:
    """Idle time of the window after work was queued and its launch latency was over."""
    gaps = scope.timeline.gaps
    mine = (gaps.launch >= 0) & (gaps.end > gaps.late)
    return clip(Spans(gaps.late[mine], gaps.end[mine]), scope.low, scope.high)
