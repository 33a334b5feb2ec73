"""Fixes on top of each other: runtimes are alternatives, and a graph holds no adapter."""

from __future__ import annotations

from ftprof.advisors.audit import AdviceEntry, Trial
from ftprof.advisors.ladder import next_rungs
from ftprof.advisors.stacking import conversion, stacked, weight_changes
from ftprof.profiler.quality import QualityCheck
from ftprof.profiler.workload import Change, Options

INT8 = Change(rule="unquantised-weights", options={"runtime": "genai"})
FP32_GRAPH = Change(rule="eager-runtime", options={"runtime": "genai"})
MERGE, BF16, PADDING = Change(rule="unmerged-adapter"), Change(rule="fp32-weights"), Change(rule="padded-batches")


def test_a_runtime_takes_the_place_of_another_and_of_what_only_pytorch_knows() -> None:
    kept = (MERGE, BF16, PADDING, FP32_GRAPH)
    assert stacked(kept, INT8, attached=False) == (MERGE, PADDING, INT8)


def test_a_conversion_merges_an_attached_adapter_first() -> None:
    assert stacked((PADDING,), INT8, attached=True) == (PADDING, MERGE, INT8)
    assert stacked((MERGE,), INT8, attached=True) == (MERGE, INT8)


def test_an_alternative_takes_the_place_of_its_sibling() -> None:
    milder = Change(rule="int4-weights", options={"algorithm": "measured"})
    harsher = Change(rule="int4-weights", options={"algorithm": "plain"})
    assert stacked((MERGE, milder), harsher, attached=False) == (MERGE, harsher)


def test_a_fix_on_pytorch_leaves_the_others_alone() -> None:
    assert stacked((MERGE,), BF16, attached=False) == (MERGE, BF16)


def test_the_conversion_and_what_it_starts_from() -> None:
    changes = (MERGE, PADDING, INT8)
    assert conversion(changes) == INT8
    assert conversion((MERGE, BF16)) is None
    assert weight_changes(changes) == (MERGE,)


def entry(options: Options, rule: str = "int4-weights") -> AdviceEntry:
    return AdviceEntry(rule=rule, title="t", safety="int4", finding=None, options=options)


def trial(status: str, *, judged: bool, options: Options) -> Trial:
    quality = QualityCheck(safety="int4", verdict="fail", tokens=0, documents=0) if judged else None
    change = Change(rule="int4-weights", options=options)
    return Trial(
        rule="int4-weights",
        title="t",
        safety="int4",
        status=status,  # type: ignore[arg-type]
        why="",
        change=change,
        quality=quality,
    )


MILD: Options = {"algorithm": "measured"}
HARSH: Options = {"algorithm": "plain"}


def test_a_harsher_step_waits_for_the_milder_one() -> None:
    other = entry({}, "unmerged-adapter")
    entries = [entry(MILD), entry(HARSH), other]
    assert next_rungs(entries, set(), []) == [entry(MILD), other]
    assert next_rungs(entries, {entry(MILD).key}, [trial("kept", judged=True, options=MILD)]) == entries


def test_a_ladder_ends_where_the_gate_sent_a_step_back_but_not_where_it_was_only_slow() -> None:
    entries = [entry(MILD), entry(HARSH)]
    tried = {entry(MILD).key}
    assert next_rungs(entries, tried, [trial("reverted", judged=True, options=MILD)]) == []
    assert next_rungs(entries, tried, [trial("reverted", judged=False, options=MILD)]) == entries
