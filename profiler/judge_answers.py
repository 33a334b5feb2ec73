"""Did the candidate get answers wrong that the baseline got right: paired, so that the task's difficulty cancels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from ftprof.profiler.quality import Bounded

SIGNIFICANCE = 0.05
Z = 1.6448536269514722
"""One-sided 95 % of the normal distribution."""


class TaskScores(msgspec.Struct, frozen=True, kw_only=True):
    """Right or wrong by example, of the baseline and of the candidate on the same examples in the same order."""

    base_right: tuple[bool, ...]
    new_right: tuple[bool, ...]


class TaskChange(msgspec.Struct, frozen=True, kw_only=True):
    """`change` is new minus old accuracy, -1 to 1, with one-sided 95 % bounds; `lost` were right and are wrong now.

    `p_harm` is the probability of so many losses among the flips if either direction were equally likely;
    `harmed` says that this proves harm.
    """

    n: int
    lost: int
    gained: int
    change: float
    low: float
    high: float
    p_harm: float
    harmed: bool

    @property
    def flips(self) -> int:
        """Answers that changed between right and wrong, either way."""
        return self.lost + self.gained

    @property
    def not_excluded(self) -> str:
        """The accuracy loss that this many examples leave open, as a sentence."""
        points = max(0.0, -self.low) * 100
        return f"an accuracy loss of up to {points:.1f} points cannot be excluded (n = {self.n})"

    def bounded(self) -> Bounded:
        """As a figure: it fails on proven harm only, and is never a proof of equality."""
        return Bounded(value=self.change, low=self.low, high=self.high, passed=not self.harmed)


def task_change(base_right: Sequence[bool], new_right: Sequence[bool]) -> TaskChange:
    """Compares paired answers. Raises ValueError when empty or of different length.

    Harm is McNemar's mid-p test, one-sided; the bounds are Tango's score interval of the paired difference, which stays
    honest where nothing flipped (60 equal answers still leave 4.3 points open).
    """
    if len(base_right) != len(new_right) or not len(base_right):
        raise ValueError(f"need the same examples on both sides, got {len(base_right)} and {len(new_right)}")
    pairs = [(bool(base), bool(new)) for base, new in zip(base_right, new_right, strict=True)]
    lost, gained, n = pairs.count((True, False)), pairs.count((False, True)), len(pairs)
    p_harm = _mid_p(lost, gained)
    return TaskChange(
        n=n,
        lost=lost,
        gained=gained,
        change=(gained - lost) / n,
        low=-_tango_upper(lost, gained, n),
        high=_tango_upper(gained, lost, n),
        p_harm=p_harm,
        harmed=lost > gained and p_harm < SIGNIFICANCE,
    )


def _mid_p(lost: int, gained: int) -> float:
    """P(more than `lost` of the flips are losses) + half of P(exactly as many), each flip a fair coin."""
    flips = lost + gained
    ways = sum(math.comb(flips, k) for k in range(lost + 1, flips + 1))
    return (2 * ways + math.comb(flips, lost)) / (1 << (flips + 1))


def _tango_upper(lost: int, gained: int, n: int) -> float:
    """Largest loss (lost - gained) / n that the score test does not reject at one-sided 5 %, by bisection."""
    low, high = (lost - gained) / n, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _tango_score(lost, gained, n, middle) > -Z else (low, middle)
    return low


def _tango_score(lost: int, gained: int, n: int, loss: float) -> float:
    """Standardised distance of the data from a true `loss`, with the gains' rate at its restricted likelihood maximum."""
    b = -lost - gained + (2 * n - lost + gained) * loss
    c = -gained * loss * (1 - loss)
    rate = (math.sqrt(max(0.0, b * b - 8 * n * c)) - b) / (4 * n)
    variance = n * (2 * rate + loss * (1 - loss))
    distance = lost - gained - n * loss
    return (
        distance / math.sqrt(variance)
        if variance > 0
        else (0.0 if distance == 0 else math.copysign(math.inf, distance))
    )
