"""Rows, token counts and what they cost, from lengths alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ftprof.advisors.estimate import estimate
from ftprof.advisors.plan import affordable_tokens, by_quantile, scenarios, wanted_tokens
from ftprof.profiler.batching import padding_facts, plan, shapes
from ftprof.profiler.workload import Call

LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=80)


@given(LENGTHS, st.integers(1, 16), st.sampled_from(["arrival", "length"]))
def test_every_row_is_in_one_batch(lengths: list[int], size: int, order: str) -> None:
    batches = plan(lengths, Call(batch_size=size, order=order))  # type: ignore[arg-type]
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    assert max(map(len, batches)) <= size


@given(LENGTHS, st.integers(1, 16))
def test_length_order_never_pads_more_than_the_longest_everywhere(lengths: list[int], size: int) -> None:
    facts = padding_facts("batch", lengths, Call(batch_size=size, padding="max_length", pad_to=300))
    assert facts.real_tokens <= facts.bucketed_tokens <= facts.padded_tokens == 300 * len(lengths)
    assert sum(rows for rows, _ in facts.batches) == len(lengths)


def test_padding_to_a_length_below_the_longest_keeps_the_longest() -> None:
    assert shapes([5, 9], Call(padding="max_length", pad_to=7)) == ((2, 9),)


@given(LENGTHS)
def test_single_rows_spread_over_the_lengths(lengths: list[int]) -> None:
    rows = by_quantile(lengths, 4)
    assert len(rows) == min(4, len(lengths)) == len(set(rows))
    assert [lengths[row] for row in rows] == sorted(lengths[row] for row in rows)


def test_scenarios() -> None:
    found = scenarios([10] * 40, Call(batch_size=8), encoder=False)
    assert [one.name for one in found] == ["single", "batch"]
    assert len(found[1].units[0]) == 8
    assert len(scenarios([10] * 200, Call(batch_size=8), encoder=True)[1].units[0]) == 64
    assert [one.name for one in scenarios([10] * 40, Call(batch_size=1), encoder=False)] == ["single"]
    assert [one.name for one in scenarios([10], Call(), encoder=False)] == ["single"]


@pytest.mark.parametrize(
    ("call", "lengths", "expected"),
    [
        pytest.param(Call(), [], 32, id="nothing known"),
        pytest.param(Call(), [20, 21, 22], 22, id="median completion and its end"),
        pytest.param(Call(), [1], 8, id="never so few that decode is noise"),
        pytest.param(Call(), [900], 48, id="never more than needed"),
        pytest.param(Call(new_tokens=100), [20], 100, id="the user's word"),
    ],
)
def test_new_tokens(call: Call, lengths: list[int], expected: int) -> None:
    assert wanted_tokens(call, lengths) == expected


def test_a_slow_model_gets_fewer_tokens() -> None:
    assert affordable_tokens(20, 0.1, 0.04, 300.0) == 20
    assert affordable_tokens(32, 0.2, 0.2, 300.0) == 6
    assert affordable_tokens(2, 30.0, 5.0, 300.0) == 2
    assert affordable_tokens(32, 30.0, 5.0, 300.0) == 4


def test_the_estimate_grows_with_model_vocabulary_and_saving() -> None:
    small = estimate("causal-lm", [100], 1000, 300, save=False)
    assert estimate("causal-lm", [10**9], 1000, 300, save=False).memory_bytes > small.memory_bytes + 10**9
    assert estimate("causal-lm", [100], 50_000, 300, save=False).disk_bytes > small.disk_bytes
    assert estimate("causal-lm", [10**9], 1000, 300, save=True).disk_bytes > 10**9
    assert "300 s" in small.sentence()
