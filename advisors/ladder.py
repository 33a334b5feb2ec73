"""Fixes with steps from mild to harsh: which step's turn it is. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ftprof.advisors.audit import AdviceEntry, Trial
from ftprof.advisors.rules import get_rule

HARSHER = "the milder step before it did not pass the quality gate"


def fallen(trials: Sequence[Trial]) -> set[str]:
    """Ladders of which the quality gate sent a step back."""
    back = {trial.rule for trial in trials if trial.quality is not None and trial.status == "reverted"}
    return {rule for rule in back if get_rule(rule).ladder}


def next_rungs(entries: Sequence[AdviceEntry], tried: set[str], trials: Sequence[Trial]) -> list[AdviceEntry]:
    """The entries without those of ladders whose turn has not come: a harsher rung waits for the milder one, and for
    good where the quality gate sent that back."""
    left: list[AdviceEntry] = []
    climbing: set[str] = set()
    over = fallen(trials)
    for entry in entries:
        if get_rule(entry.rule).ladder:
            if entry.rule in over or entry.rule in climbing:
                continue
            if entry.key not in tried:
                climbing.add(entry.rule)
        left.append(entry)
    return left
