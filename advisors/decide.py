"""Whether a fix is kept: one objective, the quality gate, the user's guards. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ftprof.advisors.audit import Trade
from ftprof.advisors.context import OBJECTIVES
from ftprof.profiler.comparison import Comparison, Ratio
from ftprof.profiler.paired import MIN_PAIRS
from ftprof.profiler.quality import QualityCheck

# A fix is kept only if its speed-up is proven to be above 1 % (design section 6).
KEEP_ABOVE = 1.01
# A proven slow-down beyond 5 % somewhere else is a trade, and is said on the first screen.
TRADE_BELOW = 0.95


def enough(ratio: Ratio | None) -> bool:
    """Whether the objective's speed-up is proven."""
    return ratio is not None and ratio.verdict == "faster" and ratio.low > KEEP_ABOVE


def speed_reason(ratio: Ratio | None, scenario: str, phase: str) -> str:
    """Why the objective's measurement does not allow to keep a fix, as a sentence."""
    if ratio is None:
        return f"{phase} of the {scenario} scenario could not be measured"
    measured = f"measured {ratio.speedup:.2f}x ({ratio.low:.2f} to {ratio.high:.2f}, {ratio.pairs} pairs)"
    return {
        "faster": f"{measured}: the gain is not proven to exceed 1%",
        "slower": f"{measured}: slower",
        "equivalent": f"{measured}: no change larger than 3%",
        "inconclusive": f"{measured}: inconclusive",
    }[ratio.verdict]


def trades(comparison: Comparison) -> tuple[Trade, ...]:
    """Phases that are proven to have become slower by more than 5 %."""
    return tuple(
        Trade(scenario=scenario, phase=phase, ratio=ratio)
        for scenario, phases in comparison.ratios.items()
        for phase, ratio in phases.items()
        if ratio.verdict == "slower" and ratio.high < TRADE_BELOW
    )


def guard_broken(comparison: Comparison, guards: Mapping[str, float]) -> str | None:
    """The first guard that is proven broken, as a sentence; `guards` maps an objective's name to the allowed ratio of
    new over old time."""
    for name, allowed in guards.items():
        for scenario, phases in comparison.ratios.items():
            ratio = phases.get(OBJECTIVES[name])
            if ratio is not None and ratio.pairs >= MIN_PAIRS and ratio.high < 1 / allowed:
                return (
                    f"guard {name}={allowed:g} broken: {scenario} {OBJECTIVES[name]} takes {1 / ratio.speedup:.2f}x "
                    f"the time (at least {1 / ratio.high:.2f}x)"
                )
    return None


def gate_reason(check: QualityCheck) -> str:
    """Why the quality gate does not let a fix pass."""
    return f"quality gate {check.verdict}: {check.why}" if check.why else f"quality gate {check.verdict}"
