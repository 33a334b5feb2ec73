"""A variant that its own limits leave undecided is held to the loss that the user allows; a proven breach is not."""

from __future__ import annotations

import pytest

from ftprof.advisors.gate import within_allowed
from ftprof.profiler.judge_limits import Row
from ftprof.profiler.judge_rows import judge_classifier
from ftprof.profiler.quality import QualityCheck, Safety

ROWS = 96


def check(flips: int, most: Safety, safety: Safety = "rounding") -> QualityCheck:
    """96 rows of two classes, of which the first few got another label."""
    base = [[0.9, 0.1]] * ROWS
    new = [[0.1, 0.9]] * flips + [[0.9, 0.1]] * (ROWS - flips)

    def judged(safety: Safety, limits: Row) -> QualityCheck:
        return judge_classifier(safety, base, new)  # type: ignore[arg-type]

    return within_allowed(judged, safety, "half", most)


@pytest.mark.parametrize(
    ("flips", "most", "verdict", "held_to"),
    [
        pytest.param(0, "int8", "pass", "rounding", id="nothing flips: its own limits are kept"),
        pytest.param(1, "rounding", "inconclusive", "rounding", id="one row flips, and only rounding is allowed"),
        pytest.param(1, "int8", "pass", "int8", id="one row flips, and int8's loss is allowed"),
        pytest.param(12, "int8", "fail", "rounding", id="proven beyond its own limits"),
    ],
)
def test_undecided_is_held_to_what_is_allowed(flips: int, most: Safety, verdict: str, held_to: str) -> None:
    found = check(flips, most)
    assert (found.verdict, found.safety) == (verdict, held_to)
    assert ("which --max-loss allows" in found.why) == (held_to != "rounding")


def test_nothing_is_laxer_than_what_is_allowed() -> None:
    assert check(3, "int8", safety="int8").safety == "int8"
    assert check(3, "exact").safety == "rounding"
