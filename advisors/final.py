"""The last word: the best variant against the original, in fresh processes of both.

Method: Before and after (docs/method.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec

from ftprof.advisors.audit import Final, Trial
from ftprof.advisors.context import Context
from ftprof.advisors.decide import KEEP_ABOVE, trades
from ftprof.advisors.duel import Samples, duel, merged, ratios
from ftprof.advisors.improve import Best
from ftprof.advisors.load_lines import load_lines
from ftprof.advisors.memory import fits
from ftprof.advisors.variant import RestartArm, Variant, VariantArm
from ftprof.profiler.comparison import Comparison, Ratio
from ftprof.profiler.diagnosis import Interval
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.paired import interval
from ftprof.profiler.workload import Workload

PROCESSES = 3
"""Fresh processes a side: what differs from process to process (layout, addresses) must show in the interval."""
OBJECTIVE_SHARE, OTHER_SHARE = 0.6, 0.2
MOST_SHARE = 0.3
"""Of the budget; what is left beyond is given back to the user."""


def final(context: Context, best: Best, original: Workload, trials: Sequence[Trial]) -> Final:
    """The direct comparison, unless nothing was kept; then the original is the answer."""
    lines = load_lines(best.variant.workload, best.variant.loaded)
    if not best.changes:
        return Final(changes=(), comparison=None, objective=None, quality=None, load_lines=lines)
    context.progress.stage("final comparison with the original, in fresh processes")
    seconds = min(context.budget.left(), MOST_SHARE * context.budget.total_s)
    rounds, processes = _rounds(context, best, original, max(5.0, seconds))
    samples = {name: merged(found) for name, found in rounds.items()}
    quality = [trial.quality for trial in trials if trial.status == "kept"]
    bare = Final(
        changes=best.changes,
        comparison=None,
        objective=None,
        quality=quality[-1] if quality else None,
        phases=best.diagnosis.phases,
        load_lines=lines,
    )
    if not samples:
        return bare
    measured = {name: _across(ratios(samples[name]), [ratios(part) for part in rounds[name]]) for name in rounds}
    comparison = Comparison(
        ratios=measured,
        design=f"{'alternating blocks' if _alone(context, best) else 'interleaved ABBA quads'}, fresh processes of both",
        processes=processes,
        seconds=sum(found.seconds for found in samples.values()),
    )
    return msgspec.structs.replace(
        bare,
        comparison=comparison,
        objective=comparison.get(*best.objective),
        trades=trades(comparison),
        before=_intervals(samples, "A"),
        after=_intervals(samples, "B"),
    )


def _across(pooled: dict[str, Ratio], rounds: Sequence[dict[str, Ratio]]) -> dict[str, Ratio]:
    """Intervals widened to what the pairs of processes showed one by one: pairs inside a process are not independent."""
    return {phase: _widened(ratio, [one[phase].speedup for one in rounds]) for phase, ratio in pooled.items()}


def _widened(ratio: Ratio, estimates: Sequence[float]) -> Ratio:
    low, high = min(ratio.low, *estimates), max(ratio.high, *estimates)
    proven = {
        "faster": low > KEEP_ABOVE,
        "slower": high < 2 - KEEP_ABOVE,
        "equivalent": ratio.high / ratio.low >= high / low,
    }
    verdict = ratio.verdict if proven.get(ratio.verdict, True) else "inconclusive"
    return msgspec.structs.replace(ratio, low=low, high=high, verdict=verdict)


def _intervals(samples: dict[str, Samples], arm: str) -> dict[str, dict[str, Interval]]:
    return {name: {phase: interval(found.of(arm, phase)) for phase in found.phases} for name, found in samples.items()}


def _rounds(context: Context, best: Best, original: Workload, seconds: float) -> tuple[dict[str, list[Samples]], int]:
    """Samples by scenario and round over PROCESSES pairs of processes, and how many started on a side; fewer, or none, where the
    time does not allow more or a worker dies."""
    best.variant.close()
    alone = _alone(context, best)
    end = context.budget.until(seconds)
    parts: dict[str, list[Samples]] = {}
    rounds = 1 if alone else PROCESSES
    done = 0
    for number in range(rounds):
        left = end - context.budget.now()
        if number and left < seconds / rounds / 2:
            break
        a, b = Variant(context, "original", original), Variant(context, "final", best.variant.workload)
        arms = (RestartArm(a), RestartArm(b)) if alone else (VariantArm(a), VariantArm(b))
        try:
            for name, found in _round(context, best, arms, left / (rounds - number), number, alone=alone).items():
                parts.setdefault(name, []).append(found)
            done += 1
        except FtprofError as error:
            context.progress.note(f"{error.message}; the final comparison ends early.")
            break
        finally:
            a.close()
            b.close()
    started = sum(_blocks(found[0]) for found in parts.values()) if alone else done
    return parts, started


def _alone(context: Context, best: Best) -> bool:
    """Whether memory holds one variant at a time; asked while none is up."""
    loaded = best.variant.loaded
    return loaded is not None and not fits(loaded, context.options.memory_limit_bytes, more=2)


def _blocks(samples: Samples) -> int:
    """Runs of one side in the order of measurement: each had a process of its own."""
    return sum(1 for side, _ in groupby(samples.sequence) if side == "B")


def _round(
    context: Context, best: Best, arms: tuple[VariantArm, VariantArm], seconds: float, number: int, *, alone: bool
) -> dict[str, Samples]:
    scenario, phase = best.objective
    begin = context.budget.now()
    if not alone:
        for arm in arms:
            arm.variant.handle()
            arm.leave()
    # Loading took its part; what is left of the round is for samples.
    left = max(1.0, seconds - (context.budget.now() - begin))
    found: dict[str, Samples] = {}
    for name in sorted((one.name for one in best.variant.workload.scenarios), key=lambda name: name != scenario):
        # Each quad in blocks starts three processes anew; what is beside the objective must not outlive the budget.
        if alone and found and context.budget.left() < found[scenario].seconds * 4 / len(found[scenario].sequence):
            break
        found[name] = duel(
            arms[0],
            arms[1],
            name,
            quads=3 if alone else 12,
            least=1 if alone or name != scenario else 2,
            deadline=context.budget.until(left * (OBJECTIVE_SHARE if name == scenario else OTHER_SHARE)),
            now=context.budget.now,
            seed=101 + number,
            watch=phase,
            half_width=0.0,
            first_unit=number,
        )
    return found
