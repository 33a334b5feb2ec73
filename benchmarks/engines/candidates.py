"""The variants that are compared: ways of running a model on PyTorch, and every conversion that rules know."""

from __future__ import annotations

from typing import NamedTuple

from ftprof.advisors.advise import within
from ftprof.advisors.rules import load_rules
from ftprof.advisors.stacking import MERGE
from ftprof.profiler.quality import Safety
from ftprof.profiler.record import RunRecord
from ftprof.profiler.workload import Change, labelled


class Candidate(NamedTuple):
    """`changes` on top of the directory as loaded; `native` ones run on PyTorch."""

    name: str
    changes: tuple[Change, ...]
    native: bool


AS_LOADED = Candidate("PyTorch, as loaded", (), True)
MERGED = Candidate("PyTorch, merged", (Change(rule=MERGE),), True)
PADDED = "padded-batches"
MERGED_BF16 = Candidate("PyTorch, merged, bf16", (Change(rule=MERGE), Change(rule="fp32-weights")), True)


def in_order(candidate: Candidate) -> Candidate:
    """The same with rows ordered by length and padded to the longest of their batch."""
    return candidate._replace(
        name=f"{candidate.name}, ordered by length", changes=(*candidate.changes, Change(rule=PADDED))
    )


def converted(record: RunRecord, max_loss: Safety, *, first_only: bool = False) -> list[Candidate]:
    """One candidate for each recipe (or the first one) of each rule that converts and that is meant for this model."""
    task = record.workload.task if record.workload else ""
    found = []
    for rule in within(max_loss, load_rules())[0]:
        if rule.convert is None or task not in rule.tasks:
            continue
        for options in rule.alternatives(record)[: 1 if first_only else None]:
            recipe = rule.convert(options)
            name = f"{recipe.runtime}, {labelled(recipe.precision, options)}"
            found.append(Candidate(name, (Change(rule=MERGE), Change(rule=rule.name, options=options)), False))
    return found
