"""Paired statistics: invariances, coverage and false alarms under noise, and the rules on too little data."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wilcoxon

from ftprof.profiler.diagnosis import Share
from ftprof.profiler.paired import (
    LOOKS,
    MIN_PAIRS,
    aa_log_ratios,
    agree,
    estimate,
    hodges_lehmann,
    interval,
    lora_advice,
    order,
    pairs_of,
    percentile,
    ratio,
    share_from_pairs,
    share_from_repeats,
    should_stop,
)

SECONDS = st.floats(1e-4, 1e3)
LOGS = st.lists(st.floats(-1, 1), min_size=1, max_size=24)
PAIRS = st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=20)


def noise(rng: np.random.Generator, samples: int) -> np.ndarray:
    """Log noise of a shared machine: a slow AR(1) drift of 3 %, 1 % white, and bursts of 30 % on every twentieth."""
    drift = np.empty(samples)
    level = rng.normal(0, 0.03)
    for i in range(samples):
        level = 0.97 * level + rng.normal(0, 0.03 * math.sqrt(1 - 0.97**2))
        drift[i] = level
    bursts = (rng.random(samples) < 0.05) * np.abs(rng.normal(0, 0.3, samples))
    return drift + rng.normal(0, 0.01, samples) + bursts


def session(rng: np.random.Generator, quads: int, gain: float) -> tuple[tuple[str, ...], list[float]]:
    """A sequence of arms and their times where B is faster by the factor `gain`."""
    arms = order(int(rng.integers(1 << 30)), quads)
    times = 0.05 * np.exp(noise(rng, len(arms))) / np.where(np.array(arms) == "B", gain, 1.0)
    return arms, [float(t) for t in times]


# --- estimator ---------------------------------------------------------------------------------------------------


def test_known_interval_of_signed_ranks() -> None:
    # n = 6 at 95 %: only all six signs alike lies in the 2.5 % tail, so the ends are smallest and largest average.
    found = hodges_lehmann([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert found == (3.5, 1.0, 6.0)
    # n = 10: Wilcoxon's two-sided 5 % critical value is 8, so the 9th of 55 averages from either end.
    values = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0]
    averages = sorted((a + b) / 2 for i, a in enumerate(values) for b in values[i:])
    assert hodges_lehmann(values)[1:] == (averages[8], averages[-9])


@pytest.mark.parametrize("n", [7, 12, 20])
def test_interval_is_what_the_signed_rank_test_does_not_reject(n: int) -> None:
    values = np.random.default_rng(n).normal(0.3, 1, n)
    _, low, high = hodges_lehmann(values.tolist())
    for inside, outside in ((low + 1e-9, low - 1e-9), (high - 1e-9, high + 1e-9)):
        assert wilcoxon(values - inside, method="exact").pvalue > 0.05
        assert wilcoxon(values - outside, method="exact").pvalue <= 0.05


@settings(deadline=None)
@given(LOGS, st.floats(-3, 3))
def test_estimate_moves_with_the_data(logs: list[float], shift: float) -> None:
    moved = hodges_lehmann([value + shift for value in logs])
    assert np.allclose(moved, np.array(hodges_lehmann(logs)) + shift, atol=1e-9)


@settings(deadline=None)
@given(LOGS)
def test_more_confidence_is_wider_and_holds_the_point(logs: list[float]) -> None:
    narrow, wide = hodges_lehmann(logs, 0.90), hodges_lehmann(logs, 0.992)
    assert wide.low <= narrow.low <= narrow.point <= narrow.high <= wide.high


def test_one_burst_hardly_moves_the_estimate() -> None:
    quiet = [0.10 + 0.001 * i for i in range(12)]
    burst = [*quiet[:-1], 5.0]
    assert abs(hodges_lehmann(burst).point - hodges_lehmann(quiet).point) < 0.002


def test_rejects_nothing_and_nan() -> None:
    with pytest.raises(ValueError, match="at least one"):
        hodges_lehmann([])
    with pytest.raises(ValueError, match="finite"):
        hodges_lehmann([0.1, math.nan])


def test_coverage_of_the_interval() -> None:
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(400):
        arms, times = session(rng, 6, 1.2)
        found = ratio(*pairs_of(arms, times))
        hits += found.low <= 1.2 <= found.high
    assert hits / 400 >= 0.93


def test_correlated_pairs_get_a_wider_interval() -> None:
    rng = random.Random(1)
    stuck = [0.1 * math.sin(i / 4) + rng.gauss(0, 0.005) for i in range(24)]
    mixed = stuck.copy()
    rng.shuffle(mixed)
    assert estimate(stuck).half_width > 1.5 * hodges_lehmann(stuck).half_width
    assert hodges_lehmann(mixed) == pytest.approx(hodges_lehmann(stuck))
    assert estimate(mixed) == hodges_lehmann(mixed)


# --- ratio and verdict -------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(PAIRS)
def test_ratio_is_antisymmetric(pairs: list[tuple[float, float]]) -> None:
    a, b = zip(*pairs, strict=True)
    there, back = ratio(a, b), ratio(b, a)
    assert there.speedup == pytest.approx(1 / back.speedup)
    assert there.low == pytest.approx(1 / back.high)
    assert there.high == pytest.approx(1 / back.low)


@settings(deadline=None)
@given(PAIRS, st.floats(0.01, 100))
def test_ratio_does_not_know_the_unit(pairs: list[tuple[float, float]], scale: float) -> None:
    a, b = zip(*pairs, strict=True)
    scaled = ratio([x * scale for x in a], [x * scale for x in b])
    assert (scaled.speedup, scaled.low, scaled.high) == pytest.approx(
        (ratio(a, b).speedup, ratio(a, b).low, ratio(a, b).high)
    )


@settings(deadline=None)
@given(PAIRS, st.integers(0, 19), st.floats(1.0, 10.0))
def test_a_slower_baseline_never_lowers_the_speedup(pairs: list[tuple[float, float]], at: int, by: float) -> None:
    a, b = map(list, zip(*pairs, strict=True))
    before = ratio(a, b)
    a[at % len(a)] *= by
    assert ratio(a, b).speedup >= before.speedup * (1 - 1e-12)


def steady(factor: float, n: int, jitter: float = 0.002) -> tuple[list[float], list[float]]:
    rng = random.Random(n)
    b = [0.1 * math.exp(rng.gauss(0, jitter)) for _ in range(n)]
    return [0.1 * factor * math.exp(rng.gauss(0, jitter)) for _ in range(n)], b


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.5, "faster"), (1 / 1.5, "slower"), (1.0, "equivalent"), (1.008, "equivalent")]
)
def test_verdicts(factor: float, verdict: str) -> None:
    found = ratio(*steady(factor, 20))
    assert found.verdict == verdict
    assert found.low <= factor <= found.high
    assert found.detectable is not None and found.detectable < 0.01


def test_noise_is_inconclusive_and_says_what_it_could_have_seen() -> None:
    found = ratio(*steady(1.02, 8, jitter=0.1))
    assert found.verdict == "inconclusive"
    assert found.detectable is not None and found.detectable > 0.05


def test_few_pairs_never_decide() -> None:
    found = ratio(*steady(3.0, MIN_PAIRS - 1))
    assert found.verdict == "inconclusive" and found.low > 2.9
    assert found.detectable is None
    assert ratio(*steady(3.0, MIN_PAIRS)).verdict == "faster"


def test_a_biased_control_voids_small_effects_only() -> None:
    biased = [0.05 + 0.001 * i for i in range(8)]
    assert ratio(*steady(1.04, 20)).verdict == "faster"
    small = ratio(*steady(1.04, 20), biased)
    assert small.verdict == "inconclusive"
    assert small.aa_low is not None and small.aa_low > 1.04
    assert ratio(*steady(1.0, 20), biased).verdict == "inconclusive"
    assert ratio(*steady(1 / 1.04, 20), biased).verdict == "inconclusive"
    assert ratio(*steady(1.3, 20), biased).verdict == "faster"
    assert ratio(*steady(1 / 1.3, 20), biased).verdict == "slower"


def test_a_sound_or_tiny_control_changes_nothing() -> None:
    assert ratio(*steady(1.04, 20), [0.01, -0.01, 0.02, -0.02, 0.005, -0.005]).verdict == "faster"
    assert ratio(*steady(1.04, 20), [0.05, 0.06, 0.07]).verdict == "faster"
    assert ratio(*steady(1.04, 20), [0.05]).aa_low is None
    assert ratio(*steady(1.04, 20)).aa_low is None


def test_control_under_noise_rarely_raises_a_false_alarm() -> None:
    rng = np.random.default_rng(11)
    alarms = void = 0
    for _ in range(400):
        arms, times = session(rng, 10, 1.0)
        found = ratio(*pairs_of(arms, times), aa_log_ratios(arms, times))
        assert found.aa_low is not None and found.aa_high is not None
        alarms += found.verdict in ("faster", "slower")
        void += not found.aa_low <= 1 <= found.aa_high
    assert alarms / 400 <= 0.07
    assert void / 400 <= 0.09


def test_three_percent_is_found_under_noise() -> None:
    rng = np.random.default_rng(12)
    found = [ratio(*pairs_of(*session(rng, 10, 1.03))) for _ in range(200)]
    assert np.mean([r.low > 1.0 for r in found]) >= 0.85
    assert not any(r.verdict == "slower" for r in found)


def test_ratio_refuses_what_is_not_paired_time() -> None:
    with pytest.raises(ValueError, match="2 and 1"):
        ratio([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="positive"):
        ratio([1.0], [0.0])


# --- one variant -------------------------------------------------------------------------------------------------


def test_interval_ranks() -> None:
    found = interval([float(i) for i in range(20, 0, -1)])
    assert (found.median, found.low, found.high, found.n) == (10.5, 6.0, 15.0, 20)
    few = interval([3.0, 1.0, 2.0])
    assert (few.median, few.low, few.high) == (2.0, 1.0, 3.0)
    with pytest.raises(ValueError, match="no samples"):
        interval([])


@settings(deadline=None)
@given(st.lists(SECONDS, min_size=1, max_size=60), st.floats(0.01, 100))
def test_interval_scales_and_holds_its_median(samples: list[float], scale: float) -> None:
    found, scaled = interval(samples), interval([s * scale for s in samples])
    assert found.low <= found.median <= found.high
    assert (scaled.low, scaled.high) == pytest.approx((found.low * scale, found.high * scale))


@pytest.mark.parametrize(("p", "needed"), [(0.90, 64), (0.95, 130), (0.99, 662)])
def test_percentiles_need_their_samples(p: float, needed: int) -> None:
    samples = [float(i) for i in range(1, needed + 1)]
    assert percentile(p, samples[:-1]) is None
    assert percentile(p, samples) == needed


def test_percentile_drops_what_the_rule_allows_and_stays_above_the_truth() -> None:
    samples = [i / 5000 for i in range(1, 5001)]
    found = percentile(0.99, samples)
    assert found is not None and 0.99 < found < 0.996
    assert percentile(0.9, []) is None
    with pytest.raises(ValueError, match="fraction"):
        percentile(99, samples)


# --- shares ------------------------------------------------------------------------------------------------------


def share(value: float, half: float = 0.0) -> Share:
    return Share(share=value, low=value - half, high=value + half, n=12, how="")


def test_share_from_pairs_inverts_the_speedup() -> None:
    on, off = steady(1.25, 16)
    found = share_from_pairs(on, off, "ablation")
    assert found.low < 0.2 < found.high and found.share == pytest.approx(0.2, abs=0.005)
    assert found.share == pytest.approx(1 - 1 / ratio(on, off).speedup)
    assert (found.n, found.how) == (16, "ablation")


def test_no_share_may_be_negative_within_noise() -> None:
    found = share_from_pairs(*steady(0.999, 16), "ablation")
    assert found.share < 0 and found.high < 1


def test_share_from_repeats() -> None:
    found = share_from_repeats([0.20, 0.22, 0.21, 0.19, 0.23, 0.21, 0.9], "modules")
    assert 0.19 <= found.low < 0.22 < found.high and found.share == pytest.approx(0.21, abs=0.011)


@pytest.mark.parametrize(
    ("attributed", "ablation", "expected"),
    [
        (share(0.03), share(0.049), True),  # within 2 points
        (share(0.03), share(0.06), False),
        (share(0.46), share(0.50), True),  # within a tenth
        (share(0.40), share(0.50), False),
        (share(0.40, 0.08), share(0.50, 0.07), True),  # within both intervals together
        (share(0.40, 0.05), share(0.50, 0.05), False),
    ],
)
def test_agreement_of_two_ways(attributed: Share, ablation: Share, expected: bool) -> None:
    assert agree(attributed, ablation) is expected


@pytest.mark.parametrize(
    ("found", "advice"),
    [
        (share(0.25, 0.03), "merge"),
        (share(0.20, 0.02), "merge"),
        (share(0.12, 0.03), "merge-if-single"),
        (share(0.04, 0.01), "leave"),
        (share(0.30, 0.29), "leave"),  # may be next to nothing
    ],
)
def test_lora_advice(found: Share, advice: str) -> None:
    assert lora_advice(found) == advice


# --- order and stopping ------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 1 << 32), st.integers(0, 30))
def test_order_is_balanced_seeded_and_extendable(seed: int, quads: int) -> None:
    arms = order(seed, quads)
    assert len(arms) == 4 * quads
    assert all(arms[i : i + 4] in (("A", "B", "B", "A"), ("B", "A", "A", "B")) for i in range(0, len(arms), 4))
    assert order(seed, quads + 2)[: len(arms)] == arms


def test_order_mixes_both_quads() -> None:
    assert set(order(3, 16)[::4]) == {"A", "B"}


@settings(deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 12))
def test_pairs_cancel_a_linear_drift(seed: int, quads: int) -> None:
    arms = order(seed, quads)
    a, b = pairs_of(arms, [math.exp(0.01 * i) for i in range(len(arms))])
    assert len(a) == len(b) == 2 * quads
    assert sum(math.log(x / y) for x, y in zip(a, b, strict=True)) == pytest.approx(0, abs=1e-9)


def test_pairs_keep_their_arms() -> None:
    assert pairs_of("ABBABAAB", [1, 10, 11, 2, 12, 3, 4, 13]) == ((1, 2, 3, 4), (10, 11, 12, 13))
    assert pairs_of("ABBA", [1, 10, 11]) == ((1,), (10,))


def test_same_arm_neighbours_are_the_control_and_turn_round() -> None:
    found = aa_log_ratios("ABBAABBA", [1.0, 2.0, 4.0, 8.0, 4.0, 2.0, 1.0, 1.0])
    assert found == pytest.approx((math.log(2 / 4), -math.log(8 / 4), math.log(2 / 1)))
    drifting = aa_log_ratios(order(1, 40), [math.exp(0.001 * i) for i in range(160)])
    assert len(drifting) >= 40 and abs(sum(drifting)) <= 0.001 + 1e-9


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-0.2, 0.2), min_size=1, max_size=40), st.floats(-2, 2))
def test_stopping_never_looks_at_the_sign(logs: list[float], shift: float) -> None:
    shifted = [value + shift for value in logs]
    target = 0.0517193  # no round number, which rounding could put on either side
    assert should_stop(logs, target) == should_stop(shifted, target)
    assert should_stop(logs, target) == should_stop([-value for value in logs], target)


def test_stopping_waits_for_a_look_and_ends_at_the_last() -> None:
    rng = random.Random(4)
    quiet = [rng.gauss(0.3, 0.001) for _ in range(12)]
    assert not should_stop(quiet[:11])
    assert should_stop(quiet)
    loud = [rng.gauss(0.3, 0.5) for _ in range(LOOKS[-1])]
    assert not should_stop(loud[:-1])
    assert should_stop(loud)


def test_stopping_spends_no_look_between_looks() -> None:
    rng = random.Random(4)
    loud_then_quiet = [rng.gauss(0, 0.2) for _ in range(12)] + [0.0] * 3
    assert not should_stop(loud_then_quiet, 0.05)
    assert should_stop(loud_then_quiet[:12], 1.0) and should_stop(loud_then_quiet, 1.0)
