"""What a trial will cost, so that none is begun that would take the final comparison's time. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import msgspec

from ftprof.advisors.advise import CLEARLY, gain
from ftprof.advisors.audit import AdviceEntry
from ftprof.advisors.baseline import LEAST_QUADS
from ftprof.advisors.rules import get_rule
from ftprof.advisors.stacking import MERGE
from ftprof.profiler.record import RunRecord

LOAD_S = 3.0  # a worker with its model, from the fork server
BUILD_S = 10.0  # a 135M decoder in fp32, int8 or int4, on two cores, once the exporter is imported
WARM = 1.3  # a short run after each switch of workers
QUAD_RESTARTS = 3  # A B B A: three workers, unless the quad before it ended on the same side
OTHER_PART = 0.25
"""Of the time for pairs, what the scenario that does not decide gets."""
LONGEST_SHARE = 0.25
"""Of the budget; longer trials gain little precision."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of a trial: what comes before and after its pairs, and the fewest pairs that can prove anything."""

    fixed_s: float
    pairs_s: float


def cost(
    entry: AdviceEntry, record: RunRecord, objective: tuple[str, str], check_s: float, restart_s: float = 0.0
) -> Cost:
    """The least that a trial of `entry` takes. `check_s` is what judging one variant takes, `restart_s` what changing
    sides takes where memory holds one variant at a time."""
    built = get_rule(entry.rule).convert is not None
    scenario = objective[0]
    pairs_s = LEAST_QUADS * _quad_s(entry, record, scenario, restart_s)
    for other in record.workload.scenarios if record.workload else ():
        if other.name != scenario:
            pairs_s += _quad_s(entry, record, other.name, restart_s)
    return Cost(fixed_s=check_s + LOAD_S + (BUILD_S if built else 0.0), pairs_s=pairs_s)


def _quad_s(entry: AdviceEntry, record: RunRecord, scenario: str, restart_s: float) -> float:
    return 4 * _sample_s(entry, record, scenario) + QUAD_RESTARTS * restart_s


def _sample_s(entry: AdviceEntry, record: RunRecord, scenario: str) -> float:
    """Mean seconds of a sample of the two sides, the switch between them included."""
    samples = record.times(scenario, "e2e")
    old_s = median(samples) if samples else 0.0
    ratio = entry.predicted.ratios.get(scenario, {}).get("e2e") if entry.predicted else None
    return WARM * old_s * (1.0 + (1.0 / ratio.speedup if ratio else 1.0)) / 2


def first_affordable(
    waiting: Sequence[AdviceEntry],
    record: RunRecord,
    objective: tuple[str, str],
    check_s: float,
    room_s: float,
    total_s: float,
    restart_s: float = 0.0,
) -> tuple[AdviceEntry, float] | None:
    """The first entry that fits into `room_s`, and the seconds that its pairs may take: what is left is shared out over
    those that wait. None where none fits. Where not all of them fit, the most promising goes first (`by_promise`)."""
    costs = {entry.key: cost(entry, record, objective, check_s, restart_s) for entry in waiting}
    if sum(found.fixed_s + found.pairs_s for found in costs.values()) > room_s:
        waiting = by_promise(waiting, objective)
    for entry in waiting:
        found = costs[entry.key]
        if found.fixed_s + found.pairs_s <= room_s:
            even = room_s / len(waiting) - found.fixed_s
            return entry, min(max(even, found.pairs_s), LONGEST_SHARE * total_s, room_s - found.fixed_s)
    return None


def by_promise(waiting: Sequence[AdviceEntry], objective: tuple[str, str]) -> list[AdviceEntry]:
    """The entries with the one first that the fastest model in reach begins with.

    A conversion rules out what it takes the place of, so it is held against all of that together: one that is not
    clearly faster than the fixes on this runtime combined waits for them, since it builds on them and loses more.
    """
    rules = {entry.rule: get_rule(entry.rule) for entry in waiting}
    logs = {entry.key: -math.log1p(-gain(entry, objective)) for entry in waiting}
    best: dict[str, float] = {}
    for entry in waiting:
        best[entry.rule] = max(best.get(entry.rule, 0.0), logs[entry.key])
    here = [name for name, rule in rules.items() if rule.convert is None]
    # Of two that exclude each other the better one counts.
    here = [
        name for name in here if not any((best[name], name) < (best[other], other) for other in _excluded(name, here))
    ]

    def reach(entry: AdviceEntry) -> float:
        rule = rules[entry.rule]
        if rule.convert is None:
            return math.log(CLEARLY) + sum(best[name] for name in here)
        left = (name for name in here if name != MERGE and name not in rule.replaces)
        return logs[entry.key] + sum(best[name] for name in left)

    return sorted(waiting, key=lambda entry: (-reach(entry), -gain(entry, objective)))


def _excluded(name: str, others: Sequence[str]) -> list[str]:
    """Those of the others that cannot be kept beside this rule."""
    return [
        other
        for other in others
        if other != name and (other in get_rule(name).conflicts or name in get_rule(other).conflicts)
    ]
