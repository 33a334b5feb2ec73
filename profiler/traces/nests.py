"""Who encloses whom on the host threads, and which event is innermost at each instant."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ftprof.profiler.traces.columns import HostColumns
from ftprof.profiler.traces.intervals import Ints, Marks, ints


@dataclass(frozen=True, slots=True)
class Nest:
    """`parent[i]` and `depth[i]` of each host event (-1 and 0 at the top).

    The leaf segments are disjoint per thread: in [leaf_start, leaf_end) event `leaf_owner` is innermost.
    """

    parent: Ints
    depth: Ints
    leaf_start: Ints
    leaf_end: Ints
    leaf_owner: Ints


def nest(host: HostColumns) -> Nest:
    """Nests the events of each thread by time.

    An event that reaches past the end of the one it starts in (clock granularity, overlapping Python slices) is cut
    there. Events of one start nest by length, then by their order in the file; one of no length encloses nothing.
    """
    parent = np.full(len(host), -1, dtype=np.int64)
    depth = np.zeros(len(host), dtype=np.int64)
    order = np.argsort(host.thread, kind="stable")
    _, first = np.unique(host.thread[order], return_index=True)
    parts: list[tuple[Ints, Ints, Ints]] = []
    for rows in np.split(order, first[1:]) if len(host) else ():
        nested = nest_in_bulk(host.start[rows], host.end[rows]) or nest_one_by_one(host.start[rows], host.end[rows])
        parent[rows] = np.where(nested.parent >= 0, rows[nested.parent], -1)
        depth[rows] = nested.depth
        parts.append((nested.leaf_start, nested.leaf_end, rows[nested.leaf_owner]))
    columns = [np.concatenate([part[column] for part in parts] or [ints([])]) for column in range(3)]
    return Nest(parent, depth, *columns)


def nest_in_bulk(start: Ints, end: Ints) -> Nest | None:
    """The nesting of one thread's events, which come by start, the longer first; None where some only overlap."""
    count = len(start)
    real = np.flatnonzero(end > start)
    closed = np.searchsorted(np.sort(end[real]), start, side="right")
    before: Ints = np.cumsum(end > start) - (end > start)
    depth = before - closed
    key = depth[real] * count + real
    by_depth = np.argsort(key, kind="stable")
    at = np.searchsorted(key[by_depth], (depth - 1) * count + np.arange(count)) - 1
    parent = np.where(depth > 0, real[by_depth[at]] if len(real) else -1, -1)
    inside = parent >= 0
    if (end[inside] > end[parent[inside]]).any():
        return None
    return Nest(parent, depth, *_leaves(start[real], end[real], real, parent))


def _leaves(start: Ints, end: Ints, rows: Ints, parent: Ints) -> tuple[Ints, Ints, Ints]:
    """Between two neighbouring starts or ends the innermost event stays the same."""
    at = np.concatenate([end[::-1], start])
    owner = np.concatenate([parent[rows[::-1]], rows])
    # At one instant ends come before starts, inner ends before outer ones, outer starts before inner ones.
    order = np.argsort(at * 2 + (np.arange(len(at)) >= len(end)), kind="stable")
    at, owner = at[order], owner[order]
    real = (owner[:-1] >= 0) & (at[1:] > at[:-1])
    return at[:-1][real], at[1:][real], owner[:-1][real]


def nest_one_by_one(start: Ints, end: Ints) -> Nest:
    """The same for events that overlap without nesting; the later one is cut at the end of the earlier."""
    starts, ends = start.tolist(), end.tolist()
    parents, depths = [-1] * len(starts), [0] * len(starts)
    leaves: list[tuple[int, int, int]] = []
    open_: list[int] = []
    at = 0

    def close(until: int) -> None:
        nonlocal at
        while open_ and ends[open_[-1]] <= until:
            top = open_.pop()
            if ends[top] > at:
                leaves.append((at, ends[top], top))
                at = ends[top]

    for row, begin in enumerate(starts):
        close(begin)
        if open_:
            parents[row], depths[row] = open_[-1], len(open_)
            ends[row] = min(ends[row], ends[open_[-1]])
            if begin > at:
                leaves.append((at, begin, open_[-1]))
        at = max(at, begin)
        if ends[row] > begin:
            open_.append(row)
    close(max(ends, default=0))
    columns = ints(leaves).reshape(-1, 3).T
    return Nest(ints(parents), ints(depths), columns[0], columns[1], columns[2])


def nearest(chosen: Marks, found: Nest) -> Ints:
    """For each event the innermost chosen event that it is or that encloses it; -1 for none."""
    result = np.where(chosen, np.arange(len(chosen)), -1)
    order = np.argsort(found.depth, kind="stable")
    levels = np.searchsorted(found.depth[order], np.arange(int(found.depth.max(initial=0)) + 2))
    for low, high in itertools.pairwise(levels):
        rows = order[low:high]
        rows = rows[result[rows] < 0]
        result[rows] = result[found.parent[rows]]
    return result


def outermost(chosen: Marks, found: Nest) -> Ints:
    """For each event the outermost chosen event that it is or that encloses it; -1 for none."""
    result = np.full(len(chosen), -1, dtype=np.int64)
    order = np.argsort(found.depth, kind="stable")
    levels = np.searchsorted(found.depth[order], np.arange(int(found.depth.max(initial=0)) + 2))
    for low, high in itertools.pairwise(levels):
        rows = order[low:high]
        above = np.where(found.parent[rows] >= 0, result[found.parent[rows]], -1)
        result[rows] = np.where(above >= 0, above, np.where(chosen[rows], rows, -1))
    return result
