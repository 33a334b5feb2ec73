"""Trials that were not made, with the reason why. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ftprof.advisors.advise import Advised, blocked
from ftprof.advisors.audit import AdviceEntry, Trial
from ftprof.advisors.ladder import HARSHER, fallen
from ftprof.advisors.rules import get_rule
from ftprof.advisors.stacking import conversion
from ftprof.profiler.quality import Safety
from ftprof.profiler.workload import Change


def unmade(entry: AdviceEntry, kept: Sequence[Change], status: str, why: str) -> Trial:
    """A trial of which nothing was measured yet, on top of the changes `kept` so far."""
    return Trial(
        rule=entry.rule,
        title=entry.title,
        safety=entry.safety,
        status=status,  # type: ignore[arg-type]
        why=why,
        base=tuple(kept),
        change=Change(rule=entry.rule, options=entry.options),
        predicted=entry.predicted,
    )


def refused(
    first: Advised,
    last: Advised,
    kept: Sequence[Change],
    tried: set[str],
    max_loss: Safety,
    trials: Sequence[Trial],
) -> list[Trial]:
    """Fixes that were found at first and never tried, with the reason: as the last look at the best variant has it."""
    found, moved = [], conversion(kept)
    for entry in first.entries:
        if entry.key in tried or not entry.fixable:
            continue
        why = entry.error or blocked(entry, kept, max_loss)
        status = "failed" if entry.error else "refused"
        if moved is not None and entry.key in [change.key for change in kept]:
            # A graph is built from merged weights: what was never tried by itself is in it all the same.
            status, why = "not_tried", f"not by itself: it is part of {moved.key}"
        if why is None and entry.rule in fallen(trials):
            why = HARSHER
        elif why is None:
            status, why = "not_tried", _left_alone(entry, last, moved)
        found.append(unmade(entry, kept, status, why))
    return found


def _left_alone(entry: AdviceEntry, last: Advised, moved: Change | None) -> str:
    said = [sentence for sentence in last.checked if sentence.startswith(f"{entry.key}: ")]
    if said:
        return said[0].removeprefix(f"{entry.key}: ")
    if moved is not None and (entry.rule == moved.rule or entry.rule in get_rule(moved.rule).replaces):
        return f"{moved.key} was kept in its place"
    return "no longer found after the fixes that were kept"
