"""Verdicts from interleaved samples of two variants: speed-up, share of time, when to stop.

Everything is a log ratio of adjacent samples, so that the machine's slow drift cancels and A against B is exactly the
inverse of B against A. Stopping looks at precision only, never at the sign.

Method: Before and after (docs/method.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from ftprof.profiler.comparison import Ratio, Verdict
from ftprof.profiler.diagnosis import Share
from ftprof.profiler.order_statistics import interval, percentile
from ftprof.profiler.paired_estimate import MIN_PAIRS, Estimate, estimate, hodges_lehmann
from ftprof.profiler.paired_order import aa_log_ratios, order, pairs_of
from ftprof.profiler.spread import robust_sd

__all__ = [
    "DELTA",
    "LOOKS",
    "MIN_PAIRS",
    "Estimate",
    "aa_log_ratios",
    "agree",
    "estimate",
    "hodges_lehmann",
    "interval",
    "log_ratios",
    "lora_advice",
    "order",
    "pairs_of",
    "percentile",
    "ratio",
    "share_from_pairs",
    "share_from_repeats",
    "should_stop",
]

DELTA = 0.03
"""Largest change that still counts as none."""
FASTER, SLOWER = 1.01, 0.99
"""A change below 1 % is not worth a claim, however well it is proven."""
LOOKS = (12, 16, 24, 32, 48, 64)
"""Pairs at which precision is looked at."""
DETECTABLE_SDS = 2.8
"""z(0.975) + z(0.80): the effect, in standard errors, that a two-sided 5 % test sees four times in five."""
MERGE, MERGE_IF_SINGLE, NEGLIGIBLE = 0.20, 0.05, 0.02
"""Shares of the adapter from which merging pays anyway, pays when one adapter is served, cannot be told from none."""


def log_ratios(numerator_s: Sequence[float], denominator_s: Sequence[float]) -> tuple[float, ...]:
    """ln(numerator / denominator), pair by pair. Raises ValueError unless both hold as many positive finite seconds."""
    if len(numerator_s) != len(denominator_s) or not numerator_s:
        raise ValueError(f"need as many samples on both sides, got {len(numerator_s)} and {len(denominator_s)}")
    if not all(0 < sample < math.inf for sample in (*numerator_s, *denominator_s)):
        raise ValueError("samples are seconds: positive and finite")
    return tuple(math.log(a / b) for a, b in zip(numerator_s, denominator_s, strict=True))


def ratio(a_s: Sequence[float], b_s: Sequence[float], aa: Sequence[float] = (), *, delta: float = DELTA) -> Ratio:
    """Speed-up of B over A from paired samples in seconds, above 1 where B is faster, with a 95 % interval.

    `aa` are log ratios of one variant against itself (`aa_log_ratios`); they give `aa_low` and `aa_high` by the same
    estimator. From `MIN_PAIRS` of them on they are a control: if their interval leaves out 1.0, something else than the
    variants moves the samples, by up to its far end and in either direction. The verdict then has to hold for the
    effect's interval widened by that much on both sides; the interval itself is reported as measured. With fewer than
    `MIN_PAIRS` pairs the verdict is always "inconclusive". Raises ValueError as `log_ratios` does.
    """
    logs = log_ratios(a_s, b_s)
    effect = estimate(logs)
    control = estimate(aa) if len(aa) > 1 else None  # one pair has no interval
    return Ratio(
        speedup=math.exp(effect.point),
        low=math.exp(effect.low),
        high=math.exp(effect.high),
        pairs=len(logs),
        verdict=_verdict(logs, effect, _bias(control, len(aa)), delta),
        aa_low=math.exp(control.low) if control else None,
        aa_high=math.exp(control.high) if control else None,
        detectable=_detectable(logs),
    )


def _bias(control: Estimate | None, pairs: int) -> float:
    """How far, in log, the control may have strayed from "no change"; 0.0 where it is sound or too small to judge."""
    if control is None or pairs < MIN_PAIRS or control.low <= 0.0 <= control.high:
        return 0.0
    return max(abs(control.low), abs(control.high))


def _verdict(logs: Sequence[float], effect: Estimate, bias: float, delta: float) -> Verdict:
    if len(logs) < MIN_PAIRS:
        return "inconclusive"
    if effect.low - bias > math.log(FASTER):
        return "faster"
    if effect.high + bias < math.log(SLOWER):
        return "slower"
    # Two one-sided 5 % tests against +-delta are a 90 % interval inside it.
    narrow, margin = estimate(logs, 0.90), math.log1p(delta) - bias
    return "equivalent" if -margin < narrow.low and narrow.high < margin else "inconclusive"


def _detectable(logs: Sequence[float]) -> float | None:
    """Smallest relative change seen with 80 % power; None below `MIN_PAIRS`, where none could be shown at all."""
    if len(logs) < MIN_PAIRS:
        return None
    return DETECTABLE_SDS * robust_sd(logs) / math.sqrt(len(logs))


def should_stop(logs: Sequence[float], target_half_width: float = 0.02, looks: Sequence[int] = LOOKS) -> bool:
    """Whether the log ratios of the pairs so far are precise enough, or the last look is spent.

    Only the first k pairs of each look k count, so that calling this after every quad spends no further looks. Adding
    a constant to all log ratios changes nothing: the answer cannot depend on who is winning.
    """
    if len(logs) >= max(looks):
        return True
    confidence = 1 - 0.05 / len(looks)  # Bonferroni, so that the statement at the end keeps its 95 %
    spent = (k for k in looks if k <= len(logs))
    return any(estimate(logs[:k], confidence).half_width <= target_half_width for k in spent)


def share_from_pairs(on_s: Sequence[float], off_s: Sequence[float], how: str) -> Share:
    """Share of the time `on_s` that vanishes in `off_s`, 1 - off / on, from paired seconds, with a 95 % interval.

    Noise around no share at all can be negative, and is shown so. Raises ValueError as `log_ratios` does.
    """
    logs = log_ratios(on_s, off_s)
    cost = estimate(logs)
    return Share(
        share=-math.expm1(-cost.point),
        low=-math.expm1(-cost.low),
        high=-math.expm1(-cost.high),
        n=len(logs),
        how=how,
    )


def share_from_repeats(shares: Sequence[float], how: str) -> Share:
    """One share with a 95 % interval from repeated measurements of it. Raises ValueError when empty."""
    found = estimate(shares)
    return Share(share=found.point, low=found.low, high=found.high, n=len(shares), how=how)


def agree(attributed: Share, ablation: Share) -> bool:
    """Whether two ways of measuring a share give the same: within 2 points, 10 % of the ablation, or their intervals."""
    intervals = math.hypot(attributed.high - attributed.low, ablation.high - ablation.low) / 2
    return abs(attributed.share - ablation.share) <= max(0.02, 0.10 * abs(ablation.share), intervals)


def lora_advice(share: Share) -> Literal["merge", "merge-if-single", "leave"]:
    """What an adapter's share of the time calls for. A share that may be next to nothing is left alone."""
    if share.low < NEGLIGIBLE or share.share < MERGE_IF_SINGLE:
        return "leave"
    return "merge" if share.share >= MERGE else "merge-if-single"
