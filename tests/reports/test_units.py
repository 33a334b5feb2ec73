from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ftprof.profiler.comparison import Ratio
from ftprof.profiler.diagnosis import Interval, Share
from ftprof.reports import units


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0446, "44.6 ms"),
        (0.99999, "1.00 s"),
        (1.5, "1.50 s"),
        (12.345, "12.3 s"),
        (2.1e-6, "2.10 µs"),
        (3e-9, "3.00 ns"),
        (0.0, "0 s"),
        (None, "not measured"),
        (math.nan, "not measured"),
    ],
)
def test_duration(seconds: float | None, text: str) -> None:
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.22, "22%"), (0.047, "4.7%"), (0.0012, "0.12%"), (0.9972, "99.7%"), (1.0, "100%"), (0.0, "0%")],
)
def test_percent(share: float, text: str) -> None:
    assert units.percent(share) == text


def test_compound_texts() -> None:
    ratio = Ratio(speedup=1.58, low=1.51, high=1.66, pairs=12, verdict="faster")
    assert units.speedup(ratio) == "1.58x (1.51 to 1.66)"
    assert units.interval(Interval(median=0.987, low=0.967, high=1.01, n=3)) == "987 ms (967 to 1010)"
    assert units.share(Share(share=0.221, low=0.203, high=0.241, n=3, how="")) == "22% (20% to 24%)"
    assert (units.size(538_060_032), units.size(0), units.rate(2.68e11, "FLOP")) == ("513 MiB", "0 B", "268 GFLOP/s")
    assert units.moment("2026-11-30T17:44:10+01:00") == "2026-11-30 16:44 UTC"
    assert units.moment("yesterday") == "yesterday"


@given(st.floats(min_value=1e-12, max_value=1e12))
def test_three_digits_lose_less_than_half_a_percent(value: float) -> None:
    assert float(units.significant(value)) == pytest.approx(value, rel=0.0051)
    assert "e" not in units.significant(value)


@given(st.floats(min_value=1e-9, max_value=1e6))
def test_a_duration_keeps_its_value(seconds: float) -> None:
    number, unit = units.duration(seconds).split()
    scale = {name: scale for scale, name in units.TIMES}[unit]
    assert float(number) * scale == pytest.approx(seconds, rel=0.0051)
