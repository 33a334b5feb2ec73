"""Nesting of host events: in bulk, one by one, and what is innermost when."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ftprof.profiler.traces.intervals import Ints, ints
from ftprof.profiler.traces.nests import Nest, nearest, nest_in_bulk, nest_one_by_one, outermost

TREE: st.SearchStrategy[list[Any]] = st.recursive(st.just([]), lambda inner: st.lists(inner, max_size=4), max_leaves=12)


def laid_out(tree: list[Any], at: int) -> tuple[list[tuple[int, int]], int]:
    """Intervals of a tree of calls, parents first; leaves may have no length."""
    found: list[tuple[int, int]] = []
    begin = at
    for child in tree:
        inner, at = laid_out(child, at)
        found += inner
    end = at + (1 if tree else len(found) % 2)
    return [(begin, end), *found], end


def ordered(raw: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    """By start, the longer first."""
    raw = sorted(raw, key=lambda pair: (pair[0], -pair[1]))
    return ints([start for start, _ in raw]), ints([end for _, end in raw])


def leaves(found: Nest) -> dict[int, int]:
    """The innermost event of each unit of time."""
    rows = zip(found.leaf_start.tolist(), found.leaf_end.tolist(), found.leaf_owner.tolist(), strict=True)
    cells = [(cell, owner) for start, end, owner in rows for cell in range(start, end)]
    assert len(cells) == len(dict(cells)), "leaf segments overlap"
    return dict(cells)


@given(st.lists(TREE, max_size=5))
def test_bulk_equals_one_by_one_where_calls_nest(trees: list[list[Any]]) -> None:
    raw: list[tuple[int, int]] = []
    at = 0
    for tree in trees:
        more, at = laid_out(tree, at)
        raw += more
    start, end = ordered(raw)
    bulk, single = nest_in_bulk(start, end), nest_one_by_one(start, end)
    assert bulk is not None
    assert bulk.parent.tolist() == single.parent.tolist()
    assert bulk.depth.tolist() == single.depth.tolist()
    assert leaves(bulk) == leaves(single)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8)), max_size=10))
def test_any_overlap_keeps_every_instant_with_one_event_that_was_active(raw: list[tuple[int, int]]) -> None:
    start, end = ordered([(low, low + length) for low, length in raw])
    found = nest_in_bulk(start, end) or nest_one_by_one(start, end)
    assert all(start[owner] <= cell < end[owner] for cell, owner in leaves(found).items())
    inside = found.parent >= 0
    assert (start[inside] >= start[found.parent[inside]]).all()
    assert (start[inside] < end[found.parent[inside]]).all()


def test_an_event_that_reaches_past_its_parent_is_cut() -> None:
    start, end = ordered([(0, 10), (5, 15)])
    assert nest_in_bulk(start, end) is None
    found = nest_one_by_one(start, end)
    assert found.parent.tolist() == [-1, 0]
    assert set(leaves(found)) == set(range(10))


def test_nearest_and_outermost_marked_ancestor() -> None:
    start, end = ordered([(0, 100), (1, 90), (2, 80), (3, 70)])
    found = nest_in_bulk(start, end)
    assert found is not None
    marks = np.array([True, False, True, False])
    assert nearest(marks, found).tolist() == [0, 0, 2, 2]
    assert outermost(marks, found).tolist() == [0, 0, 0, 0]
    assert nearest(np.zeros(4, dtype=np.bool_), found).tolist() == [-1] * 4
