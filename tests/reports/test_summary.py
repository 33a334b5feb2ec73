from __future__ import annotations

import pytest
from msgspec.structs import replace

from ftprof.profiler.comparison import Verdict
from ftprof.profiler.diagnosis import Share
from ftprof.reports import wording
from ftprof.reports.summary import Verdict as Word
from ftprof.reports.summary import summarise
from tests.reports import example, parts


@pytest.mark.parametrize(
    ("variant", "word"),
    [
        ("full", "Faster"),
        ("encoder", "Faster"),
        ("bare", "Interrupted"),
        ("interrupted", "Interrupted"),
        ("no_fix", "Diagnosed"),
        ("nothing_helped", "Unchanged"),
        ("damaged", "Failed"),
    ],
)
def test_verdict(variant: str, word: Word) -> None:
    assert summarise(example.VARIANTS[variant]()).verdict == word


@pytest.mark.parametrize(
    ("speed", "word"), [("slower", "Slower"), ("equivalent", "Unchanged"), ("inconclusive", "Inconclusive")]
)
def test_verdict_follows_the_direct_comparison(speed: Verdict, word: Word) -> None:
    final = replace(example.final(), objective=parts.ratio(0.9, speed))
    summary = summarise(replace(example.full(), final=final))
    assert summary.verdict == word
    assert "faster model" not in summary.where


def test_speed_without_checked_outputs_is_not_a_success() -> None:
    for check in (None, parts.quality("inconclusive")):
        final = replace(example.final(), quality=check)
        assert summarise(replace(example.full(), final=final)).verdict == "Inconclusive"


def test_a_kept_fix_reads_like_a_finished_sentence() -> None:
    kept = summarise(example.full()).fixes[0].sentence
    expected = "Merge the adapter into the weights: 1.58x faster (1.50 to 1.66), outputs unchanged"
    assert kept == f"{expected} (16 of 16 replies identical)."


def test_outputs_are_called_unchanged_only_where_every_one_was_seen_to_be() -> None:
    assert "unchanged" in wording.outputs(parts.quality(identical=16))
    assert "unchanged" not in wording.outputs(parts.quality(identical=15))
    assert "unchanged" not in wording.outputs(replace(parts.quality(), generation=None))
    assert wording.outputs(None) == "outputs not checked"


def test_slower_is_stated_as_a_factor_above_one() -> None:
    slower = parts.ratio(0.5, "slower", 0.2)
    assert wording.measured(slower) == "2.00x slower (1.67 to 2.50)"
    assert wording.measured(parts.ratio(1.02, "inconclusive")).startswith("speed inconclusive, 1.02x")


def test_what_was_not_measured_is_not_claimed() -> None:
    sentences = " ".join(summarise(example.bare()).sentences())
    assert "faster" not in sentences and "%" not in sentences
    assert "not measured" in sentences


def test_an_untried_fix_has_a_labelled_prediction() -> None:
    line = next(line for line in summarise(example.full()).fixes if line.status == "not_tried")
    assert "predicted 3.40x" in line.sentence and "faster" not in line.sentence


def test_a_suspected_bound_is_called_so() -> None:
    found = parts.diagnosis()
    doubtful = tuple(replace(entry, confirmed=False) for entry in found.phases)
    audit = replace(example.full(), diagnosis=replace(found, phases=doubtful))
    assert "suspected, not confirmed" in summarise(audit).limit
    assert "(confirmed)" in summarise(example.full()).limit


def test_both_lora_figures_and_their_agreement_are_stated() -> None:
    cost = parts.lora()
    both = summarise(example.full()).lora
    assert "22% (20% to 24%) by ablation" in both and "21% (19% to 23%) by attribution" in both and "agree" in both
    apart = summarise(replace(example.full(), lora=replace(cost, agree=False))).lora
    assert "do not agree" in apart
    one = summarise(replace(example.full(), lora=replace(cost, attributed=None, agree=None))).lora
    assert "attribution was not measured" in one
    none = summarise(replace(example.full(), lora=None, diagnosis=None)).lora
    assert none == "LoRA cost: not measured."


def test_every_trial_and_every_finding_has_a_line() -> None:
    audit = example.full()
    rules = [line.rule for line in summarise(audit).fixes]
    assert sorted(rules) == sorted([trial.rule for trial in audit.trials] + ["slow-weight-load", "broken-rule"])
    statuses = {line.status for line in summarise(audit).fixes}
    assert statuses == {"kept", "reverted", "failed", "refused", "not_tried", "advice"}


def test_a_trade_is_on_the_first_screen() -> None:
    assert summarise(example.full()).trades == (
        "Trade: first token (batch of 8) was made 1.14x slower (1.10 to 1.17).",
    )


def test_a_model_that_does_not_reload_is_not_offered() -> None:
    summary = summarise(example.damaged())
    assert "do not use it" in summary.where and summary.load == ""


def test_an_adapter_that_was_only_switched_off_keeps_its_wrappers() -> None:
    audit = example.full()
    assert audit.lora is not None and audit.lora.disabled is not None
    wrapper = Share(share=0.03, low=0.02, high=0.04, n=3, how="timed modules")
    cost = replace(audit.lora, ablation=audit.lora.disabled, wrapper=wrapper)
    said = summarise(replace(audit, lora=cost)).lora
    assert "19% (17% to 21%) by switching it off, which leaves its wrappers' 3.0%, and 21%" in said
