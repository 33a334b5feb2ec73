"""Which part of a stamped run is which phase. A unit stamps its start, the end of prefill and each token's end.

Method: Time (docs/method.md).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import NamedTuple

from ftprof.profiler.record import Phase

Run = Callable[[], tuple[int, ...]]
"""Executes one unit and returns its `time.perf_counter_ns` stamps: its start, the end of prefill, each token's end."""


class Window(NamedTuple):
    """One phase of one run: nanoseconds of `time.perf_counter_ns`, and how often the phase occurred in it."""

    phase: Phase
    start: int
    end: int
    occurrences: int

    @property
    def seconds(self) -> float:
        """Wall time per occurrence."""
        return (self.end - self.start) / 1e9 / self.occurrences


def windows(stamps: Sequence[int], phases: Sequence[Phase]) -> tuple[Window, ...]:
    """Phases of one run from its stamps.

    Two phases: (start, end of prefill, end of the 2nd token, ...); `decode` occurs once a token after the first and is
    left out where there is none. One phase: from the first stamp to the last.
    ValueError if the stamps do not cover the phases.
    """
    if len(stamps) < 2 or not 1 <= len(phases) <= 2:
        raise ValueError(f"{len(stamps)} stamps for {len(phases)} phases")
    if len(phases) == 1:
        return (Window(phases[0], stamps[0], stamps[-1], 1),)
    first = Window(phases[0], stamps[0], stamps[1], 1)
    if len(stamps) == 2:
        return (first,)
    return (first, Window(phases[1], stamps[1], stamps[-1], len(stamps) - 2))


def of_phase(runs: Sequence[Sequence[int]], phases: Sequence[Phase], phase: Phase) -> list[Window]:
    """The windows of one phase, one a run in which it occurred."""
    return [window for stamps in runs for window in windows(stamps, phases) if window.phase == phase]


def seconds_by_phase(runs: Sequence[Sequence[int]], phases: Sequence[Phase]) -> dict[Phase, tuple[float, ...]]:
    """Seconds per occurrence of each phase that occurred, a value for each run in which it did."""
    seen = {phase: tuple(window.seconds for window in of_phase(runs, phases, phase)) for phase in phases}
    return {phase: values for phase, values in seen.items() if values}


def per_occurrence(runs: Sequence[Sequence[int]], phases: Sequence[Phase]) -> dict[str, float]:
    """Seconds per occurrence of each phase: the median over runs."""
    return {phase: median(values) for phase, values in seconds_by_phase(runs, phases).items()}


def quieter_half(found: Sequence[Window]) -> list[int]:
    """Positions of the shorter half of the windows, at least one: disturbances only ever lengthen."""
    ranked = sorted(range(len(found)), key=lambda position: found[position].seconds)
    return ranked[: (len(found) + 1) // 2]


@contextmanager
def no_collection() -> Iterator[None]:
    """Python's garbage collector held off, as in the timed samples."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
