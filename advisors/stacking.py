"""How a fix goes on top of those kept so far: what it replaces goes, what it needs comes first. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ftprof.advisors.rules import get_rule
from ftprof.profiler.workload import Change

MERGE = "unmerged-adapter"


def stacked(kept: Sequence[Change], change: Change, *, attached: bool) -> tuple[Change, ...]:
    """The changes with `change` last. A conversion merges an `attached` adapter first, since graphs hold none."""
    rule = get_rule(change.rule)
    left = [one for one in kept if one.rule != rule.name and one.rule not in rule.replaces]
    if rule.convert is not None and attached and MERGE not in [one.rule for one in left]:
        left.append(Change(rule=MERGE))
    return (*left, change)


def conversion(changes: Sequence[Change]) -> Change | None:
    """The change that moves the model to another runtime, or None; later ones replace earlier ones, so there is one."""
    return next((change for change in changes if get_rule(change.rule).convert is not None), None)


def weight_changes(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The changes that act on the model's weights, and so are in what a conversion starts from."""
    return tuple(change for change in changes if get_rule(change.rule).apply is not None)
