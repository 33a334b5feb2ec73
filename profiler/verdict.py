"""From a ledger to a verdict: the bound and how sure. Pure.

Method: Verdicts (docs/method.md).
"""

from __future__ import annotations

from typing import NamedTuple

from ftprof.profiler.diagnosis import Bound, Ledger

# Two groups closer than ten points are not told apart.
MARGIN = 0.10

# Below 40 % of the limit an op is merely inefficient, and its limit hardly the cause.
INEFFICIENT = 0.4

CONTRADICTED = 0.5
"""At most this sure of a bound that an experiment speaks against."""

BOUNDS: tuple[Bound, ...] = ("compute", "memory", "host", "io", "sync")


class Ruling(NamedTuple):
    """The bound, the largest group's share of the time, and the runner-up."""

    bound: Bound
    share: float
    first: Bound
    second: Bound | None
    second_share: float


def rule(ledger: Ledger) -> Ruling:
    """Largest group wins; "mixed" within ten points of the next; "unknown" where most of the time has no name."""
    total = ledger.total_s
    if total <= 0:
        return Ruling("unknown", 0.0, "unknown", None, 0.0)
    groups = ledger.grouped()
    ranked = sorted(BOUNDS, key=lambda name: -groups[name])
    first, second = ranked[0], ranked[1]
    share, second_share = groups[first] / total, groups[second] / total
    runner_up = second if second_share > 0 else None
    if groups["unattributed"] > groups[first]:
        return Ruling("unknown", groups["unattributed"] / total, first, first, share)
    bound: Bound = "mixed" if runner_up and share - second_share < MARGIN else first
    return Ruling(bound, share, first, runner_up, second_share)


def efficiency(ledger: Ledger, bound: str) -> float | None:
    """Ideal over actual time of the ops under a limit: how near they run to it; None for groups without a limit."""
    ideal, lost = {
        "compute": (ledger.compute_s, ledger.compute_inefficiency_s),
        "memory": (ledger.memory_s, ledger.memory_inefficiency_s),
    }.get(bound, (0.0, 0.0))
    return ideal / (ideal + lost) if ideal + lost > 0 else None


def confidence(closure: float, exact_share: float, traced_ratio: float | None, near: float | None) -> float:
    """0 to 1: the least of how well the ledger closes, how much of the time has a known formula, how light the trace
    was, and how near to their limit the ops run that the bound is named after (`near`, as from `efficiency`).

    `closure` is the sum of what was seen over the untraced time.
    """
    closes = max(0.0, 1.0 - abs(1.0 - closure))
    # Above 1.5 the shares of small ops are good to five points only.
    light = 0.8 if traced_ratio is not None and traced_ratio > 1.5 else 1.0
    # At a limit or merely inefficient: half sure at best where ops run at a small part of the limit.
    at_limit = 1.0 if near is None else min(1.0, 0.5 + 0.5 * near / INEFFICIENT)
    return min(closes, exact_share, light, at_limit)
