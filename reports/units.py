"""Numbers as people read them: three significant digits, always with a unit, "not measured" for what is absent."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from ftprof.advisors.rule import PredictedRatio
from ftprof.profiler.comparison import Ratio
from ftprof.profiler.diagnosis import Interval, Share

ABSENT = "not measured"
TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
SIZES = ((1024.0**3, "GiB"), (1024.0**2, "MiB"), (1024.0, "KiB"), (1.0, "B"))
RATES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def significant(value: float, digits: int = 3) -> str:
    """`value` with `digits` significant digits and no exponent: 0.0446, 1.58, 988, 12300."""
    if not math.isfinite(value):
        return ABSENT
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    # Rounding may have carried into a new digit (9.999 -> 10.0).
    places = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:.{max(places, 0)}f}"


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    for scale, unit in steps:
        # 0.9995 of a unit already rounds up into it.
        if abs(value) >= 0.9995 * scale:
            return scale, unit
    return steps[-1]


def time_unit(seconds: float) -> tuple[float, str]:
    """The scale and the unit in which `seconds` has one to three digits before the point."""
    return _scaled(seconds, TIMES) if seconds and math.isfinite(seconds) else TIMES[0]


def duration(seconds: float | None) -> str:
    """A time: "44.6 ms"."""
    if seconds is None or not math.isfinite(seconds):
        return ABSENT
    scale, unit = time_unit(seconds)
    return f"{significant(seconds / scale)} {unit}"


def interval(time: Interval | None) -> str:
    """A median with its 95 % interval, all in one unit: "44.6 ms (44.1 to 45.2)"."""
    if time is None or not math.isfinite(time.median):
        return ABSENT
    scale, unit = time_unit(time.median)
    low, high = significant(time.low / scale), significant(time.high / scale)
    return f"{significant(time.median / scale)} {unit} ({low} to {high})"


def factor(value: float) -> str:
    """A bare ratio: "1.58x"."""
    return f"{value:.2f}x" if math.isfinite(value) and value < 99.995 else f"{significant(value)}x"


def speedup(ratio: Ratio | PredictedRatio | None) -> str:
    """A speed-up with its interval: "1.58x (1.51 to 1.66)"."""
    if ratio is None:
        return ABSENT
    low, high = factor(ratio.low)[:-1], factor(ratio.high)[:-1]
    return f"{factor(ratio.speedup)} ({low} to {high})"


def percent(share: float | None) -> str:
    """A share of 1 as percent, with decimals only where they tell: "22%", "4.7%", "0.12%", "99.7%"."""
    if share is None or not math.isfinite(share):
        return ABSENT
    value = 100 * share
    if abs(value) < 9.95 or 99 < abs(value) < 100:
        return f"{significant(value, 2 if abs(value) < 9.95 else 3)}%"
    return f"{value:.0f}%"


def share(value: Share | None) -> str:
    """A share with its 95 % interval: "22% (20% to 24%)"."""
    if value is None:
        return ABSENT
    return f"{percent(value.share)} ({percent(value.low)} to {percent(value.high)})"


def size(count: float | None) -> str:
    """Bytes: "513 MiB"."""
    if count is None or not math.isfinite(count):
        return ABSENT
    scale, unit = _scaled(count, SIZES)
    return f"{count:.0f} B" if unit == "B" else f"{significant(count / scale)} {unit}"


def rate(per_second: float | None, unit: str) -> str:
    """A rate with a decimal prefix: "268 GFLOP/s", "20.1 GB/s". `unit` is what is counted: "FLOP" or "B"."""
    if per_second is None or not math.isfinite(per_second):
        return ABSENT
    scale, prefix = _scaled(per_second, RATES)
    return f"{significant(per_second / scale)} {prefix}{unit}/s"


def count(value: float | None) -> str:
    """A whole number with its thousands marked: "134,515,008"."""
    return ABSENT if value is None else f"{value:,.0f}"


def moment(iso: str) -> str:
    """A UTC time to the minute: "2026-11-30 16:44 UTC"; `iso` itself where it is no ISO 8601 time."""
    try:
        return datetime.fromisoformat(iso).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:
        return iso
