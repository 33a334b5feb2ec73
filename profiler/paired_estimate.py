"""Hodges-Lehmann estimate with the interval of Wilcoxon's signed ranks, for differences of paired samples.

Method: Before and after (docs/method.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

MIN_PAIRS = 6
"""Fewest pairs with an exact 95 % interval: all n signs agree by chance with 2 / 2**n, which is 3.1 % at 6, 6.3 % at 5."""

AUTOCORRELATION = 0.3
"""Lag-1 correlation above which neighbouring pairs no longer count as independent."""


class Estimate(NamedTuple):
    """Point and two-sided interval, in the unit of the differences."""

    point: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval's length."""
        return (self.high - self.low) / 2


def hodges_lehmann(differences: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Median of all pairwise means (Walsh averages), with the interval that the signed-rank test does not reject.

    The interval is exact for independent symmetric differences whatever their distribution. Below `MIN_PAIRS` no 95 %
    interval exists: the widest one, smallest to largest average, is given, whose true confidence is 1 - 2**(1 - n)
    (none at all for one difference); callers must not build a verdict on it. Raises ValueError when empty or not finite.
    """
    import numpy as np

    values = np.asarray(differences, dtype=float)
    if values.size == 0 or not np.isfinite(values).all():
        raise ValueError(f"need finite differences, at least one; got {values.size}")
    first, second = np.triu_indices(values.size)
    averages = np.sort((values[first] + values[second]) / 2)
    outer = _outer_rank(values.size, (1 - confidence) / 2)
    return Estimate(float(np.median(averages)), float(averages[outer - 1]), float(averages[-outer]))


def estimate(differences: Sequence[float], confidence: float = 0.95) -> Estimate:
    """`hodges_lehmann`, widened where neighbouring differences are correlated (bursts, a change of speed).

    The half-widths grow by sqrt((1 + r) / (1 - r)), the loss of independent samples under lag-1 correlation r. In
    simulation this held its confidence better than resampling blocks of two to eight pairs, and it needs no seed.
    """
    plain = hodges_lehmann(differences, confidence)
    correlation = autocorrelation(differences)
    if correlation <= AUTOCORRELATION:
        return plain
    factor = math.sqrt((1 + correlation) / (1 - correlation))
    low, high = (plain.point - plain.low) * factor, (plain.high - plain.point) * factor
    return Estimate(plain.point, plain.point - low, plain.point + high)


def autocorrelation(values: Sequence[float]) -> float:
    """Lag-1 autocorrelation, -1 to 1; 0.0 where there are fewer than `MIN_PAIRS` values or they do not vary."""
    if len(values) < MIN_PAIRS:
        return 0.0
    mean = math.fsum(values) / len(values)
    around = [value - mean for value in values]
    power = math.fsum(value * value for value in around)
    if power == 0.0:
        return 0.0
    return math.fsum(a * b for a, b in pairwise(around)) / power


@lru_cache(maxsize=256)
def _outer_rank(n: int, tail: float) -> int:
    """Largest k >= 1 with P(signed-rank sum <= k - 1) <= tail: the 1-based rank of the interval's lower Walsh average."""
    import numpy as np

    chance = np.zeros(n * (n + 1) // 2 + 1)
    chance[0] = 1.0
    for rank in range(1, n + 1):  # each rank is in the sum or not, evenly
        chance[rank:] = chance[rank:] + chance[:-rank]
        chance /= 2
    # A hair of slack, so that a tail that equals a binary fraction is not lost to rounding.
    return max(1, int(np.searchsorted(np.cumsum(chance), tail * (1 + 1e-12), side="right")))
