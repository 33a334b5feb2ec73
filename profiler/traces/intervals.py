"""Arithmetic on sets of half-open intervals, in whole nanoseconds.

A `Spans` is sorted and disjoint: `start[i] < end[i] < start[i + 1]`. Nothing here rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Marks: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Spans:
    """Sorted disjoint intervals [start, end) in nanoseconds."""

    start: Ints
    end: Ints

    @property
    def total(self) -> int:
        """Nanoseconds covered."""
        return int((self.end - self.start).sum())

    def __len__(self) -> int:
        return len(self.start)


def ints(values: object) -> Ints:
    """An int64 array."""
    return np.asarray(values, dtype=np.int64)


def distinct(values: Ints) -> Ints:
    """The different values, in order.

    Counting beats sorting for the small numbers of names and threads, and numpy's own `unique` loads masked arrays.
    """
    if not len(values):
        return values
    low = int(values.min())
    if int(values.max()) - low < 1 << 20:
        return np.flatnonzero(np.bincount(values - low)) + low
    return np.unique(values, return_index=True)[0]


NONE = Spans(ints([]), ints([]))


def union(start: Ints, end: Ints) -> Spans:
    """What any of the intervals covers; empty and inverted ones cover nothing. Touching intervals become one."""
    real = end > start
    if not real.any():
        return NONE
    start, end = start[real], end[real]
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    opens = np.ones(len(start), dtype=np.bool_)
    opens[1:] = start[1:] > end[:-1]
    last = np.flatnonzero(np.append(opens[1:], True))
    return Spans(start[opens], end[last])


def complement(spans: Spans, low: int, high: int) -> Spans:
    """What of [low, high) the spans leave free."""
    inside = clip(spans, low, high)
    start, end = np.append(low, inside.end), np.append(inside.start, high)
    real = end > start
    return Spans(start[real], end[real])


def clip(spans: Spans, low: int, high: int) -> Spans:
    """The part of the spans inside [low, high)."""
    start, end = np.maximum(spans.start, low), np.minimum(spans.end, high)
    real = end > start
    return Spans(start[real], end[real])


def intersect(left: Spans, right: Spans) -> Spans:
    """What both cover."""
    if not len(left) or not len(right):
        return NONE
    first = np.searchsorted(right.end, left.start, side="right")
    last = np.searchsorted(right.start, left.end, side="left")
    counts = np.maximum(last - first, 0)
    mine = np.repeat(np.arange(len(left)), counts)
    offset = np.arange(len(mine)) - np.repeat(np.cumsum(counts) - counts, counts)
    other = np.repeat(first, counts) + offset
    return Spans(np.maximum(left.start[mine], right.start[other]), np.minimum(left.end[mine], right.end[other]))


def subtract(left: Spans, right: Spans) -> Spans:
    """What the left covers and the right does not."""
    if not len(left) or not len(right):
        return left
    low, high = int(min(left.start[0], right.start[0])), int(max(left.end[-1], right.end[-1]))
    return intersect(left, complement(right, low, high))


def merged(*parts: Spans) -> Spans:
    """What any of the span sets covers."""
    return union(np.concatenate([part.start for part in parts]), np.concatenate([part.end for part in parts]))


def covered_before(spans: Spans, time: Ints) -> Ints:
    """Nanoseconds of the spans that lie before each time."""
    if not len(spans):
        return np.zeros(len(time), dtype=np.int64)
    whole = np.append(0, np.cumsum(spans.end - spans.start))
    at = np.searchsorted(spans.start, time, side="right")
    last = np.maximum(at - 1, 0)
    beyond = np.where(at > 0, np.maximum(spans.end[last] - time, 0), 0)
    return whole[at] - beyond


def covered(spans: Spans, low: Ints, high: Ints) -> Ints:
    """Nanoseconds of the spans inside each [low, high)."""
    return covered_before(spans, high) - covered_before(spans, low)
