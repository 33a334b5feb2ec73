"""The arithmetic of predictions, against what it must obey."""

from __future__ import annotations

import math
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ftprof.advisors.predict import (
    fractions,
    from_saving,
    interpolate,
    paired,
    stake,
    with_end_to_end,
)
from ftprof.advisors.rule import PredictedRatio
from ftprof.advisors.shapes import main_phase, occurrences, steps
from ftprof.profiler.workload import Call
from tests.advisors.records import LLM_TIMES, causal, encoder

speedups = st.floats(0.2, 20.0)


@given(st.floats(1e-4, 1e3), st.floats(-2.0, 2.0), st.floats(0.0, 1.0))
def test_a_saving_gives_ordered_positive_bounds(total: float, saved: float, sd: float) -> None:
    ratio = from_saving(total, saved * total, sd * total)
    assert 0 < ratio.low <= ratio.speedup <= ratio.high <= 20.001


@given(st.lists(st.floats(1e-3, 10.0), min_size=3, max_size=12), st.floats(0.2, 5.0), st.floats(1e-3, 1e3))
def test_pairs_do_not_care_about_the_unit(old: list[float], factor: float, scale: float) -> None:
    new = [value / factor for value in old]
    ratio = paired(old, new, 0.05)
    scaled = paired([value * scale for value in old], [value * scale for value in new], 0.05)
    assert ratio.speedup == pytest.approx(factor)
    assert scaled.speedup == pytest.approx(ratio.speedup)
    assert ratio.low < ratio.speedup < ratio.high


def test_the_interval_of_pairs_covers_the_truth_about_four_times_in_five() -> None:
    draw, hits = random.Random(0), 0
    for _ in range(400):
        old = [math.exp(draw.gauss(0.3, 0.1)) for _ in range(8)]
        ratio = paired(old, [1.0] * 8, 0.0)
        hits += ratio.low <= math.exp(0.3) <= ratio.high
    assert 0.68 < hits / 400 < 0.9  # eight samples give a rough spread


@given(speedups, speedups)
def test_end_to_end_lies_between_the_phases_and_one(prefill: float, decode: float) -> None:
    record = causal()
    ratios = {
        phase: PredictedRatio(speedup=value, low=value, high=value)
        for phase, value in (("prefill", prefill), ("decode", decode))
    }
    whole = with_end_to_end(record, {"single": ratios})["single"]["e2e"]
    assert min(prefill, decode, 1.0) - 1e-9 <= whole.speedup <= max(prefill, decode, 1.0) + 1e-9


def test_end_to_end_is_the_sum_of_its_phases() -> None:
    decode = PredictedRatio(speedup=2.0, low=1.5, high=3.0)
    whole = with_end_to_end(causal(), {"single": {"decode": decode}})["single"]["e2e"]
    times = LLM_TIMES["single"]
    assert whole.speedup == pytest.approx(times["e2e"] / (times["e2e"] - 31 * times["decode"] / 2))
    assert whole.low < whole.speedup < whole.high


def test_fractions_never_exceed_the_whole() -> None:
    record = causal()
    assert record.workload
    longer = msgspec.structs.replace(record, workload=msgspec.structs.replace(record.workload, new_tokens=400))
    assert sum(fractions(longer, "single").values()) == pytest.approx(1.0)
    assert 0.9 < sum(fractions(record, "single").values()) <= 1.0


def test_a_batch_unit_of_several_batches_counts_their_steps() -> None:
    record = causal(Call(order="length", batch_size=4))
    assert occurrences(record, "batch")["decode"] == 2 * 31
    assert occurrences(record, "single")["decode"] == 31
    batch = [step for step in steps(record) if step.scenario == "batch"]
    assert [(step.phase, step.rows, step.query, step.passes) for step in batch] == [
        ("prefill", 4, 65, 2),
        ("decode", 4, 1, 1),
    ]


def test_people_feel_a_request_or_a_batch_of_texts() -> None:
    assert main_phase(causal()) == ("single", "e2e")
    assert main_phase(encoder()) == ("batch", "forward")


@given(st.floats(1.0, 1e5))
def test_interpolation_is_monotonic_and_meets_its_points(tokens: float) -> None:
    points = [(100.0, 1.0), (200.0, 1.5), (800.0, 6.0)]
    assert all(interpolate(points, x) == pytest.approx(y) for x, y in points)
    assert interpolate(points, tokens) <= interpolate(points, tokens * 1.1) + 1e-12


def test_what_is_at_stake_is_bounded_by_the_phase() -> None:
    record = causal()
    assert stake(record, {"prefill": 1.0, "decode": 1.0})[2] <= max(record.times("single", "e2e"))
    assert stake(record, {}) == ("single", "e2e", 0.0)
