"""The wall clock of a run: a hard limit that every stage asks before it starts something."""

from __future__ import annotations

import time
from collections.abc import Callable

FINAL_SHARE = 0.17
"""Of the budget, kept for the final comparison: three pairs of processes have to load before they are timed."""


class Budget:
    """`total_s` seconds from now. `clock` is a monotonic clock in seconds; tests pass their own."""

    def __init__(self, total_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.total_s = total_s
        self._clock = clock
        self._begin = clock()

    def now(self) -> float:
        """Seconds of the clock, for deadlines."""
        return self._clock()

    def spent(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._begin

    def left(self) -> float:
        """Seconds until the hard end, never below 0."""
        return max(0.0, self.total_s - self.spent())

    def left_for_trials(self) -> float:
        """Seconds that trials may use: what is left without the final comparison's reserve."""
        return max(0.0, self.left() - FINAL_SHARE * self.total_s)

    def until(self, seconds: float) -> float:
        """The deadline `seconds` from now, or the hard end if that comes first."""
        return self._clock() + min(seconds, self.left())
