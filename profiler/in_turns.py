"""Two ways of doing the same, run in turns in one process: what the small experiments of a run share."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ftprof.profiler.windows import no_collection

T = TypeVar("T")
LEAST_PAIRS = 2


def in_turns(
    first: Callable[[], T],
    second: Callable[[], T],
    *,
    pairs: int,
    budget_s: float,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[list[T], list[T]]:
    """What both return, run by run, after one run of each that does not count: at most `pairs`, at least two, and no
    more once `budget_s` is over."""
    ways = (first, second)
    taken: tuple[list[T], list[T]] = ([], [])
    end = clock() + budget_s
    with no_collection():
        for way in ways:
            way()
        while len(taken[0]) < pairs and (len(taken[0]) < LEAST_PAIRS or clock() < end):
            # Turned round at every pair, so that a drift of the machine's speed meets both alike.
            order = (0, 1) if len(taken[0]) % 2 == 0 else (1, 0)
            for which in order:
                taken[which].append(ways[which]())
    return taken
