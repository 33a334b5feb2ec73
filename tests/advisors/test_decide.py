"""When a fix is kept, when it is a trade, and what a guard forbids."""

from __future__ import annotations

import pytest

from ftprof.advisors.decide import enough, guard_broken, speed_reason, trades
from ftprof.profiler.comparison import Comparison, Ratio, Verdict


def ratio(speedup: float, low: float, high: float, verdict: Verdict) -> Ratio:
    return Ratio(speedup=speedup, low=low, high=high, pairs=12, verdict=verdict)


def test_only_a_proven_gain_above_one_percent_is_enough() -> None:
    assert enough(ratio(1.2, 1.1, 1.3, "faster"))
    assert not enough(ratio(1.2, 1.005, 1.3, "faster"))
    assert not enough(ratio(1.2, 1.1, 1.3, "inconclusive"))
    assert not enough(None)


@pytest.mark.parametrize("verdict", ["slower", "equivalent", "inconclusive"])
def test_the_reason_has_the_figures(verdict: Verdict) -> None:
    said = speed_reason(ratio(0.98, 0.97, 0.99, verdict), "single", "e2e")
    assert "0.98x" in said
    assert "12 pairs" in said


def test_trades_are_proven_losses_beyond_five_percent() -> None:
    comparison = Comparison(
        ratios={
            "single": {"e2e": ratio(2.0, 1.9, 2.1, "faster"), "prefill": ratio(0.6, 0.55, 0.65, "slower")},
            "batch": {"e2e": ratio(0.97, 0.95, 0.98, "slower"), "decode": ratio(0.7, 0.4, 1.2, "inconclusive")},
        },
        design="test",
    )
    assert [(trade.scenario, trade.phase) for trade in trades(comparison)] == [("single", "prefill")]


def test_a_guard_breaks_only_when_proven() -> None:
    comparison = Comparison(ratios={"single": {"prefill": ratio(0.6, 0.55, 0.65, "slower")}}, design="test")
    assert "guard ttft=1.1 broken" in (guard_broken(comparison, {"ttft": 1.1}) or "")
    assert guard_broken(comparison, {"ttft": 2.0}) is None
    assert guard_broken(comparison, {"tpot": 1.1}) is None
