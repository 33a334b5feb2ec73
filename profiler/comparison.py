"""The result of timing two variants against each other."""

from __future__ import annotations

from typing import Literal

import msgspec

Verdict = Literal["faster", "slower", "equivalent", "inconclusive"]


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """Speed-up of B over A (time A / time B): above 1 means B is faster. 95 % interval over `pairs` adjacent pairs.

    `aa_low` and `aa_high` are the same interval for the same variant against itself, taken in the same minutes.
    """

    speedup: float
    low: float
    high: float
    pairs: int
    verdict: Verdict
    aa_low: float | None = None
    aa_high: float | None = None
    detectable: float | None = None
    """Smallest relative change that this many pairs could have shown."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Ratios by scenario, then phase. `design` says how the samples were interleaved; `processes` per side."""

    ratios: dict[str, dict[str, Ratio]]
    design: str
    processes: int = 1
    seconds: float = 0.0

    def get(self, scenario: str, phase: str) -> Ratio | None:
        """The ratio of one phase, or None where it was not compared."""
        return self.ratios.get(scenario, {}).get(phase)
