"""How far samples scatter, told by medians, so that a burst of another process does not tell it."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import median

MAD_TO_SD = 1.4826
"""Standard deviation of a normal over its median absolute deviation."""
MEDIAN_ERROR = 1.2533
"""Standard error of a normal's median over that of its mean."""


def robust_sd(samples: Sequence[float]) -> float:
    """Standard deviation by the median absolute deviation, in the samples' unit. Raises StatisticsError when empty."""
    middle = median(samples)
    return MAD_TO_SD * median(abs(value - middle) for value in samples)


def median_error(samples: Sequence[float]) -> float:
    """Standard error of their median, in the samples' unit. Raises StatisticsError when empty."""
    return MEDIAN_ERROR * robust_sd(samples) / sqrt(len(samples))
