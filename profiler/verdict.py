"""From a ledger to a verdict: the bound, how sure, and whether an intervention in the record supports it. Pure."""

from __future__ import annotations

from math import log
from statistics import fmean, median
from typing import NamedTuple

from ftprof.profiler.diagnosis import Bound, Ledger
from ftprof.profiler.record import RunRecord

# Two groups closer than ten points are not told apart (G 1.2).
MARGIN = 0.10

# Table of interventions (G 1.6): doubling the tokens multiplies the time by at least 1.7 where arithmetic is the
# limit, by at most 1.3 where streaming the weights is, by at most 1.15 where the host is. As exponents of the growth,
# so that eight times the tokens are judged alike.
COMPUTE_EXPONENT, MEMORY_EXPONENT, HOST_EXPONENT = log(1.7) / log(2), log(1.3) / log(2), log(1.15) / log(2)
LEAST_GROWTH = 1.5
"""Fewer times as many tokens than this prove nothing."""
TESTED = ("prefill", "decode", "forward")

# Below 40 % of the limit an op is merely inefficient, and its limit hardly the cause (G 1.3).
INEFFICIENT = 0.4

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


def confirmation(record: RunRecord, phase: str, ruling: Ruling, device_share: float) -> str | None:
    """A sentence on the intervention that supports the bound, or None where none in the record does.

    The intervention is more tokens at once: the batch scenario against the single one. `device_share` is ideal
    compute and memory time over the phase's time.
    """
    single, batch = record.times("single", phase), record.times("batch", phase)
    growth = token_growth(record, phase)
    if phase not in TESTED or not single or not batch or growth is None or growth < LEAST_GROWTH:
        return None
    ratio = median(batch) / median(single)
    exponent = log(ratio) / log(growth)
    seen = f"{growth:.1f} times the tokens at once took {ratio:.2f} times as long"
    if ruling.bound == "memory" and phase == "decode" and exponent <= MEMORY_EXPONENT:
        return f"Confirmed by batching: {seen}, so streaming the weights, not arithmetic, sets the pace."
    if ruling.bound == "compute" and exponent >= COMPUTE_EXPONENT:
        return f"Confirmed by batching: {seen}, as arithmetic does."
    if ruling.bound == "host" and exponent <= HOST_EXPONENT and device_share < 0.5:
        return f"Confirmed by batching: {seen}, so the cost is a call's, not a token's."
    return None


def token_growth(record: RunRecord, phase: str) -> float | None:
    """How many times as many tokens one pass of the batch scenario computes as one of the single scenario."""
    workload = record.workload
    if workload is None or {scenario.name for scenario in workload.scenarios} < {"single", "batch"}:
        return None
    single, batch = workload.scenario("single"), workload.scenario("batch")
    rows = fmean(len(unit) for unit in batch.units) if batch.units else 0.0
    if phase == "decode":
        return min(rows, float(workload.call.batch_size)) or None
    lengths = workload.prompt_tokens
    if not lengths or not single.units or not batch.units:
        return None
    one = fmean(sum(lengths[row] for row in unit) for unit in single.units)
    facts = record.padding
    many = facts.padded_tokens / len(batch.units) if facts and facts.scenario == "batch" else None
    return (many or fmean(max(lengths[row] for row in unit) * len(unit) for unit in batch.units)) / one


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
    # Above 1.5 the shares of small ops are good to five points only (G 3.7).
    light = 0.8 if traced_ratio is not None and traced_ratio > 1.5 else 1.0
    # At a limit or merely inefficient: half sure at best where ops run at a small part of the limit.
    at_limit = 1.0 if near is None else min(1.0, 0.5 + 0.5 * near / INEFFICIENT)
    return min(closes, exact_share, light, at_limit)
