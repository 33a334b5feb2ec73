"""Self times of nested intervals, corrected for what recording them costs. Pure; times in nanoseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Node:
    """One interval and what lies directly inside it. `parent` is the position of the enclosing one, -1 at the top."""

    start: int
    end: int
    parent: int = -1
    inside: int = 0
    """Nanoseconds of direct children."""
    children: int = 0

    @property
    def self_ns(self) -> int:
        """Time that no child covers, as recorded."""
        return self.end - self.start - self.inside


def nest(intervals: Sequence[tuple[int, int]]) -> list[Node]:
    """The nesting of (start, end) intervals of one thread, in the order given.

    The order must be by start, an enclosing interval before what it encloses. An interval that reaches past the end
    of its neighbour (clock granularity) counts as nested where it starts inside.
    """
    nodes: list[Node] = []
    open_: list[int] = []
    for position, (start, end) in enumerate(intervals):
        while open_ and nodes[open_[-1]].end <= start:
            open_.pop()
        parent = open_[-1] if open_ else -1
        if parent >= 0:
            outer = nodes[parent]
            end = min(end, outer.end)
            outer.inside += end - start
            outer.children += 1
        nodes.append(Node(start, end, parent))
        open_.append(position)
    return nodes


def corrected(self_s: float, calls: float, children: float, inside_s: float, outside_s: float) -> float:
    """Self time without the cost of recording.

    Each recorded interval holds `inside_s` of its own recording, and puts `outside_s` into whatever encloses it.
    Never below zero: a cost that is larger than what was seen says only that nothing else was there.
    """
    return max(0.0, self_s - calls * inside_s - children * outside_s)
