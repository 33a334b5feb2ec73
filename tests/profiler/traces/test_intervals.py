"""Interval sets against sets of single points."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ftprof.profiler.traces.intervals import (
    Spans,
    clip,
    complement,
    covered,
    intersect,
    ints,
    merged,
    subtract,
    union,
)

END = 40
RAW = st.lists(st.tuples(st.integers(0, END), st.integers(0, END)), max_size=12)


def made(raw: list[tuple[int, int]]) -> Spans:
    """Their union; inverted pairs stay in and must cover nothing."""
    return union(ints([start for start, _ in raw]), ints([end for _, end in raw]))


def points(raw: list[tuple[int, int]]) -> set[int]:
    """The unit cells that the intervals cover."""
    return {cell for start, end in raw for cell in range(start, end)}


def cells(spans: Spans) -> set[int]:
    """The unit cells of a span set, which must be sorted, disjoint and not touching."""
    assert (spans.end > spans.start).all() and (spans.start[1:] > spans.end[:-1]).all()
    return {
        cell for start, end in zip(spans.start.tolist(), spans.end.tolist(), strict=True) for cell in range(start, end)
    }


@given(RAW)
def test_union_covers_what_any_covers(raw: list[tuple[int, int]]) -> None:
    spans = made(raw)
    assert cells(spans) == points(raw)
    assert spans.total == len(points(raw))


@given(RAW, RAW)
def test_set_operations(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    a, b = made(left), made(right)
    both = intersect(a, b)
    assert {c for s, e in zip(both.start.tolist(), both.end.tolist(), strict=True) for c in range(s, e)} == points(
        left
    ) & points(right)
    rest = subtract(a, b)
    assert rest.total + both.total == a.total
    assert cells(merged(a, b)) == points(left) | points(right)


@given(RAW, st.integers(0, END), st.integers(0, END))
def test_windows(raw: list[tuple[int, int]], one: int, two: int) -> None:
    low, high = min(one, two), max(one, two)
    spans, window = made(raw), set(range(low, high))
    assert cells(clip(spans, low, high)) == points(raw) & window
    assert cells(complement(spans, low, high)) == window - points(raw)
    assert covered(spans, ints([low]), ints([high])).tolist() == [len(points(raw) & window)]


def test_nothing_is_rounded_at_epoch_times() -> None:
    start = 1_712_345_678_901_234_567
    spans = union(ints([start, start + 1]), ints([start + 1, start + 4]))
    assert (spans.total, len(spans)) == (4, 1)
    assert covered(spans, ints([start + 1]), ints([start + 2])).tolist() == [1]
    assert np.issubdtype(spans.start.dtype, np.int64)
