"""The interleaving: order, pairing, deadlines and what is thrown away, on a fake clock."""

from __future__ import annotations

import math

import pytest

from ftprof.advisors.budget import FINAL_SHARE, Budget
from ftprof.advisors.duel import Samples, duel, merged, ratios


class Clock:
    """A clock that only the arms move."""

    def __init__(self) -> None:
        self.time_s = 100.0

    def __call__(self) -> float:
        return self.time_s


class FakeArm:
    """Takes `seconds` times the unit's weight and writes down what it was asked for."""

    def __init__(self, name: str, seconds: float, clock: Clock, log: list[tuple[str, str, int]]) -> None:
        self.name, self.seconds, self.clock, self.log = name, seconds, clock, log

    def enter(self, scenario: str, unit: int) -> None:
        self.log.append((self.name, "enter", unit))

    def sample(self, scenario: str, unit: int) -> dict[str, float]:
        took = self.seconds * (1 + unit)
        self.clock.time_s += took
        self.log.append((self.name, "sample", unit))
        return {"e2e": took, "prefill": took / 2}

    def leave(self) -> None:
        self.log.append((self.name, "leave", -1))


def run(
    quads: int, deadline_s: float, slow: float = 1.0, fast: float = 0.5
) -> tuple[Samples, list[tuple[str, str, int]]]:
    clock = Clock()
    log: list[tuple[str, str, int]] = []
    arms = FakeArm("A", slow, clock, log), FakeArm("B", fast, clock, log)
    samples = duel(*arms, "single", quads=quads, deadline=clock.time_s + deadline_s, now=clock, half_width=0.0)
    return samples, log


def test_pairs_run_the_same_rows_and_give_the_true_ratio() -> None:
    samples, _ = run(quads=4, deadline_s=1e9)
    a, b = samples.pairs("e2e")
    assert len(a) == len(b) == 8
    assert all(x / y == pytest.approx(2.0) for x, y in zip(a, b, strict=True))
    assert ratios(samples)["prefill"].speedup == pytest.approx(2.0)


def test_each_switch_is_entered_and_left_and_the_last_arm_is_left_too() -> None:
    _, log = run(quads=3, deadline_s=1e9)
    current = None
    for name, what, _ in log:
        if what == "enter":
            assert current is None, "the other arm was left first"
            current = name
        elif what == "leave":
            assert current == name
            current = None
        else:
            assert current == name
    assert current is None


def test_the_deadline_cuts_whole_quads_but_never_the_first() -> None:
    samples, _ = run(quads=16, deadline_s=7.0)
    assert len(samples.sequence) == 8, "3 s, then 6 s of which less than a whole quad was left"
    samples, _ = run(quads=16, deadline_s=0.0)
    assert len(samples.sequence) == 4


def test_a_precise_result_stops_early() -> None:
    clock = Clock()
    log: list[tuple[str, str, int]] = []
    arms = FakeArm("A", 1.0, clock, log), FakeArm("B", 0.5, clock, log)
    samples = duel(*arms, "single", quads=16, deadline=1e9, now=clock, half_width=0.02)
    assert 12 <= len(samples.sequence) // 2 < 32


def test_control_pairs_compare_an_arm_with_itself() -> None:
    samples, _ = run(quads=4, deadline_s=1e9)
    control = samples.control("e2e")
    assert len(control) == 4
    assert all(value == pytest.approx(0.0) for value in control)


def test_merging_keeps_every_sample_of_both() -> None:
    first, _ = run(quads=2, deadline_s=1e9)
    second, _ = run(quads=3, deadline_s=1e9)
    both = merged([first, second])
    assert len(both.sequence) == 20
    assert len(both.pairs("e2e")[0]) == 10
    assert math.isclose(both.seconds, first.seconds + second.seconds)


def test_the_budget_is_a_wall_and_keeps_its_reserve() -> None:
    clock = Clock()
    budget = Budget(100.0, clock)
    clock.time_s += 70.0
    assert budget.left() == pytest.approx(30.0)
    assert budget.left_for_trials() == pytest.approx(30.0 - 100.0 * FINAL_SHARE, abs=1e-9)
    assert budget.until(60.0) == pytest.approx(clock.time_s + 30.0)
    clock.time_s += 40.0
    assert budget.left() == budget.left_for_trials() == 0.0
