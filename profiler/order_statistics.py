"""Median and percentiles of one variant's samples, with what the number of samples can support and no more.

Method: Before and after (docs/method.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from ftprof.profiler.diagnosis import Interval

TAIL = 0.025
EARLY_STOPPING_CONFIDENCE = 0.99
"""MLPerf Inference's early stopping: the true percentile lies below the printed figure with this probability."""


def interval(samples: Sequence[float]) -> Interval:
    """Median of `samples` (seconds) with a 95 % interval from order statistics; smallest and largest below 6 samples.

    Assumes nothing about the distribution. Raises ValueError when empty.
    """
    import numpy as np
    from scipy.special import bdtr

    ordered = np.sort(np.asarray(samples, dtype=float))
    count = ordered.size
    if count == 0:
        raise ValueError("no samples")
    # Rank k bounds the median from below unless fewer than k of n samples fall under it: P = BinomCDF(k - 1; n, 1/2).
    ranks = np.arange(count // 2 + 1)
    outer = max(1, int(np.count_nonzero(bdtr(ranks, count, 0.5) <= TAIL)))
    return Interval(
        median=float(np.median(ordered)), low=float(ordered[outer - 1]), high=float(ordered[-outer]), n=count
    )


def percentile(p: float, samples: Sequence[float]) -> float | None:
    """The `p` quantile (0 < p < 1, so 0.99 for P99) by MLPerf's early-stopping rule, or None where n is too small.

    It is an upper bound that holds with 99 % confidence; it needs 64 samples for P90, 130 for P95 and 662 for P99.
    With fewer, print the largest of n instead.
    """
    import numpy as np
    from scipy.special import bdtr

    if not 0 < p < 1:
        raise ValueError(f"p is a fraction between 0 and 1, not {p}")
    ordered = np.sort(np.asarray(samples, dtype=float))
    count = ordered.size
    if count == 0:
        return None
    allowed = np.arange(count)
    spare = int(np.count_nonzero(bdtr(allowed, count, 1 - p) <= 1 - EARLY_STOPPING_CONFIDENCE)) - 1
    return float(ordered[count - spare]) if spare >= 1 else None
