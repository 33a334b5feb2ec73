"""Trials and the time that is left: none is begun that does not fit, and when not all do, the best goes first."""

from __future__ import annotations

import pytest

from ftprof.advisors.afford import BUILD_S, LOAD_S, by_promise, cost, first_affordable
from ftprof.advisors.audit import AdviceEntry, Predicted
from ftprof.advisors.rule import PredictedRatio
from ftprof.profiler.workload import Options
from tests.advisors.records import causal

SINGLE = ("single", "e2e")
CHECK_S = 10.0


def entry(rule: str, speedup: float, options: Options | None = None) -> AdviceEntry:
    ratio = PredictedRatio(speedup=speedup, low=speedup, high=speedup)
    predicted = Predicted(ratios={"single": {"e2e": ratio}, "batch": {"e2e": ratio}}, basis="b", at="now")
    return AdviceEntry(
        rule=rule, title=rule, safety="rounding", finding=None, options=options or {}, predicted=predicted
    )


MERGE, INT8 = entry("unmerged-adapter", 1.3), entry("unquantised-weights", 3.0, {"runtime": "genai"})


def chosen(room_s: float) -> tuple[str, float] | None:
    found = first_affordable([MERGE, INT8], causal(), SINGLE, CHECK_S, room_s, 300.0)
    return (found[0].rule, found[1]) if found else None


def test_a_conversion_costs_its_build_and_a_faster_side_fewer_seconds_of_pairs() -> None:
    merge, int8 = (cost(one, causal(), SINGLE, CHECK_S) for one in (MERGE, INT8))
    assert merge.fixed_s == CHECK_S + LOAD_S
    assert int8.fixed_s == merge.fixed_s + BUILD_S
    assert int8.pairs_s < merge.pairs_s


def test_with_time_for_all_the_order_stays_and_what_is_left_is_shared_out() -> None:
    found = chosen(200.0)
    assert found is not None
    assert found[0] == "unmerged-adapter"
    assert found[1] == pytest.approx(min(75.0, 100.0 - CHECK_S - LOAD_S))


def test_where_not_all_fit_the_most_promising_goes_first() -> None:
    found = chosen(65.0)
    assert found is not None
    assert found[0] == "unquantised-weights"
    need = cost(INT8, causal(), SINGLE, CHECK_S)
    assert need.pairs_s <= found[1] <= 65.0 - need.fixed_s


def test_nothing_is_begun_that_does_not_fit() -> None:
    assert chosen(10.0) is None
    least = cost(MERGE, causal(), SINGLE, CHECK_S)
    assert chosen(least.fixed_s + least.pairs_s) is not None


def test_where_sides_take_turns_in_memory_every_change_of_sides_is_counted() -> None:
    plain, restarting = (cost(MERGE, causal(), SINGLE, CHECK_S, restart_s) for restart_s in (0.0, 2.0))
    assert restarting.pairs_s == pytest.approx(plain.pairs_s + 2.0 * 3 * 4), "three quads, and one of the batch"
    room_s = plain.fixed_s + plain.pairs_s
    assert first_affordable([MERGE], causal(), SINGLE, CHECK_S, room_s, 300.0) is not None
    assert first_affordable([MERGE], causal(), SINGLE, CHECK_S, room_s, 300.0, restart_s=2.0) is None


def order(*entries: AdviceEntry) -> list[str]:
    return [one.rule for one in by_promise(entries, SINGLE)]


PADDED, BF16 = entry("padded-batches", 1.7), entry("fp32-weights", 1.8)


def test_a_conversion_is_held_against_all_that_it_takes_the_place_of() -> None:
    """Merged and in bf16 the model is 2.3 times as fast: 8 bit at 2.3 are not worth their loss, at 3.0 they are."""
    near, clear = (entry("unquantised-weights", speedup, {"runtime": "ort"}) for speedup in (2.3, 3.0))
    assert order(near, MERGE, BF16, PADDED) == ["fp32-weights", "padded-batches", "unmerged-adapter", near.rule]
    assert order(MERGE, BF16, PADDED, clear)[0] == clear.rule
    assert order(MERGE, near)[0] == near.rule, "merging alone is far behind"


def test_fixes_that_exclude_each_other_do_not_add_up() -> None:
    """An adapter in its base's precision and a merged one are the same 1.3 times once."""
    dtype = entry("fp32-adapter", 1.3)
    int8 = entry("unquantised-weights", 1.6, {"runtime": "genai"})
    assert order(MERGE, dtype, int8)[0] == int8.rule
    assert order(MERGE, dtype, entry(int8.rule, 1.4, int8.options))[0] != int8.rule, "but 1.3 times they are"
    assert order(MERGE, entry("disabled-kv-cache", 1.4), int8)[0] == "disabled-kv-cache"
