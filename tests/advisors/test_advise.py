"""Advice as a whole: faults of rules, what is left alone, the order of trials and what blocks one."""

from __future__ import annotations

import msgspec
import pytest

from ftprof.advisors.advise import advise, applicable, blocked, rank, wanted_probes
from ftprof.advisors.audit import AdviceEntry, Predicted
from ftprof.advisors.rule import Finding, PredictedRatio, Prediction, Rule
from ftprof.advisors.rules import load_rules
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.quality import Safety
from ftprof.profiler.record import ProbeCase, RunRecord
from ftprof.profiler.workload import Change
from tests.advisors.records import causal, diagnosis

OBJECTIVE = ("single", "e2e")
FINDING = Finding(summary="seen", scenario="single", phase="e2e", at_stake_s=0.5)
CASE = ProbeCase(rule="made-up", kind="forward", shape=(1, 8))


def ratio(speedup: float, spread: float = 1.02) -> PredictedRatio:
    return PredictedRatio(speedup=speedup, low=speedup / spread, high=speedup * spread)


def rule(ratios: dict[str, dict[str, PredictedRatio]] | None = None, /, **changes: object) -> Rule:
    made = Rule(
        name="made-up",
        title="Do",
        safety="rounding",
        tasks=frozenset({"causal-lm"}),
        needs=("model",),
        detect=lambda record, seen: FINDING,
        predict=lambda record, finding: Prediction(ratios=ratios or {}, basis="a guess"),
        rewrite=lambda call: call,
    )
    return msgspec.structs.replace(made, **changes)


def entry(name: str, speedup: float = 1.5, safety: Safety = "rounding", **changes: object) -> AdviceEntry:
    written = Predicted(ratios={"single": {"e2e": ratio(speedup)}}, basis="a guess", at="now")
    made = AdviceEntry(rule=name, title="Do", safety=safety, finding=FINDING, predicted=written)
    return msgspec.structs.replace(made, **changes)


def failing(record: RunRecord, seen: Diagnosis) -> Finding | None:
    raise KeyError("q_proj")


@pytest.mark.parametrize("part", ["detect", "probes", "predict", "refuse"])
def test_a_rule_that_raises_becomes_an_entry_and_the_others_go_on(part: str) -> None:
    good = rule({"single": {"e2e": ratio(1.4)}}, name="good")
    record = causal()
    outcome = advise(record, diagnosis(record), [rule(**{part: failing}), good], OBJECTIVE, now="now")
    assert [(entry.rule, entry.error) for entry in outcome.entries] == [
        ("made-up", "KeyError: 'q_proj'"),
        ("good", None),
    ]
    assert wanted_probes(record, diagnosis(record), [rule(**{part: failing}), good]) == ()


def test_predictions_are_stamped_before_anything_is_applied() -> None:
    record = causal()
    outcome = advise(
        record, diagnosis(record), [rule({"single": {"e2e": ratio(1.4)}})], OBJECTIVE, now="2026-01-01T00:00:00Z"
    )
    assert outcome.entries[0].predicted
    assert outcome.entries[0].predicted.at == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(("speedup", "kept"), [(1.031, True), (1.029, False), (0.8, False)])
def test_a_gain_below_three_per_cent_is_checked_and_left_alone(speedup: float, kept: bool) -> None:
    record = causal()
    outcome = advise(record, diagnosis(record), [rule({"single": {"e2e": ratio(speedup)}})], OBJECTIVE, now="now")
    assert (len(outcome.entries), len(outcome.checked)) == ((1, 0) if kept else (0, 1))


def test_a_gain_that_may_as_well_be_a_loss_is_left_alone() -> None:
    record = causal()
    outcome = advise(record, diagnosis(record), [rule({"single": {"e2e": ratio(1.1, 1.15)}})], OBJECTIVE, now="now")
    assert outcome.entries == ()
    assert outcome.checked[0].startswith("made-up: predicted 1.10x (0.96 to 1.26) on single e2e")


def test_a_refused_fix_stays_visible_whatever_it_would_gain() -> None:
    record = causal()
    refusing = rule({"single": {"e2e": ratio(1.0)}}, refuse=lambda record, finding: "several adapters")
    outcome = advise(record, diagnosis(record), [refusing], OBJECTIVE, now="now")
    assert outcome.entries[0].refused == "several adapters"


def test_rules_for_other_tasks_or_without_their_parts_are_silent() -> None:
    record = causal()
    others = [rule(tasks=frozenset({"embedding"})), rule(needs=("adapter",))]
    assert advise(record, diagnosis(record), others, OBJECTIVE, now="now") == advise(
        record, diagnosis(record), [], OBJECTIVE, now="now"
    )


def test_probes_are_wanted_once_and_not_for_what_is_refused() -> None:
    record = causal()
    twice = rule(probes=lambda record, finding: (CASE, CASE))
    refused = rule(
        refuse=lambda record, finding: "no",
        probes=lambda record, finding: (msgspec.structs.replace(CASE, shape=(2, 8)),),
    )
    assert wanted_probes(record, diagnosis(record), [twice, twice, refused]) == (CASE,)


def test_trials_go_by_class_then_gain_per_second() -> None:
    entries = [
        entry("lossy", 3.0, "int8"),
        entry("slow", 2.0),
        entry("quick", 1.5),
        entry("exact", 1.1, "exact"),
        entry("advice", 9.0, "exact", fixable=False),
        entry("refused", 9.0, "exact", refused="no"),
    ]
    seconds = {"lossy": 10.0, "slow": 40.0, "quick": 10.0, "exact": 10.0, "advice": 1.0, "refused": 1.0}
    order = [entry.rule for entry in rank(entries, seconds, OBJECTIVE)]
    assert order == ["exact", "quick", "slow", "lossy", "advice", "refused"]
    assert [entry.rule for entry in rank(entries, 10.0)][:3] == ["exact", "slow", "quick"]


def test_what_blocks_a_trial_is_said() -> None:
    rules = (rule(name="a"), rule(name="b", conflicts=("a",)), rule(name="c", requires=("a",)))
    kept = (Change(rule="a"),)
    assert blocked(entry("a"), kept, "int8", rules) == "it is applied already"
    assert blocked(entry("b"), kept, "int8", rules) == "void after a"
    assert blocked(entry("b"), (), "int8", rules) is None
    assert blocked(entry("c"), (), "int8", rules) == "needs a first"
    assert blocked(entry("c"), kept, "int8", rules) is None
    assert blocked(entry("a", safety="int4"), (), "int8", rules) == "its class is int4, and --max-loss allows int8"
    assert blocked(entry("a", refused="quantised"), (), "int8", rules) == "quantised"


def test_a_merged_adapter_has_no_dtype_left_to_fix() -> None:
    fix = entry("fp32-adapter")
    assert applicable(fix, ())
    assert not applicable(fix, (Change(rule="unmerged-adapter"),))
    assert applicable(entry("unmerged-adapter"), (Change(rule="fp32-adapter"),))
    assert {rule.name for rule in load_rules()} >= {"fp32-adapter", "unmerged-adapter"}
