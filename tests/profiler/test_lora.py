"""The adapter's share, two ways."""

from __future__ import annotations

import msgspec
import pytest

from ftprof.profiler.lora import ablation, attributed, lora_summary, time_weights
from ftprof.profiler.record import AblationPair, LoraKind, ModuleTrace, RunRecord
from ftprof.profiler.workload import Workload
from tests.advisors.records import SMOLLM2
from tests.profiler.test_ledger import record


def modules(
    phase: str, share: float, scenario: str = "single", displaced: float | None = None, wrapper: float | None = None
) -> ModuleTrace:
    return ModuleTrace(
        scenario=scenario,
        phase=phase,  # type: ignore[arg-type]
        modules=(),
        wrapped_s=1.0,
        untraced_s=1.0,
        lora_kinds=(LoraKind(target="q_proj", base_s=0.5, a_s=0.1, b_s=0.1, rest_s=0.2),),
        lora_shares=tuple(share + wobble for wobble in (-0.01, 0.0, 0.01) * 4),
        displaced_shares=() if displaced is None else (displaced,) * 3,
        wrapper_shares=() if wrapper is None else (wrapper,) * 3,
    )


def pair(phase: str, how: str, share: float) -> AblationPair:
    on = tuple(1.0 + wobble for wobble in (-0.02, -0.01, 0.0, 0.01, 0.02) * 3)
    return AblationPair(
        scenario="single",
        phase=phase,  # type: ignore[arg-type]
        how=how,  # type: ignore[arg-type]
        on_s=on,
        off_s=tuple((1 - share) * sample for sample in on),
    )


def test_without_an_adapter_there_is_nothing_to_say() -> None:
    assert lora_summary(RunRecord()) is None
    assert lora_summary(record(), "single", "decode") is None


def test_both_ways_side_by_side() -> None:
    both = record(
        modules=(modules("decode", 0.26),),
        ablation=(pair("decode", "disabled", 0.20), pair("decode", "unloaded", 0.25)),
    )
    lora = lora_summary(both, "single", "decode")
    assert lora is not None and lora.attributed and lora.ablation and lora.disabled
    assert lora.attributed.share == pytest.approx(0.26)
    assert lora.ablation.share == pytest.approx(0.25)
    assert lora.disabled.share == pytest.approx(0.20)
    assert (lora.agree, lora.advice) == (True, "merge")
    assert "Of it 20% is the adapter's mathematics, 5% PEFT's wrapper." in lora.explanation
    assert [target.target for target in lora.targets] == ["q_proj"]


def test_what_falls_to_others_is_said() -> None:
    lora = lora_summary(record(modules=(modules("decode", 0.21, displaced=0.05),)), "single", "decode")
    assert lora is not None and lora.attributed
    assert lora.attributed.share == pytest.approx(0.21)
    assert "Another 5% that they take falls to the layers after them" in lora.explanation
    assert "less what falls to the layers after it" in lora.attributed.how


@pytest.mark.parametrize(("wrapper", "agree"), [(0.04, True), (0.0, False), (None, None)])
def test_an_adapter_that_is_only_off_keeps_its_wrappers(wrapper: float | None, agree: bool | None) -> None:
    """Timed modules hold the wrappers' time, a disabled adapter does not show it."""
    away = (pair("decode", "disabled", 0.20),)
    lora = lora_summary(record(modules=(modules("decode", 0.24, wrapper=wrapper),), ablation=away), "single", "decode")
    assert lora is not None
    assert lora.agree is agree


def test_two_ways_that_differ_are_said_to() -> None:
    lora = lora_summary(
        record(modules=(modules("decode", 0.5),), ablation=(pair("decode", "unloaded", 0.1),)), "single", "decode"
    )
    assert lora is not None
    assert lora.agree is False
    assert "do not agree" in lora.explanation


def test_unloaded_counts_before_disabled_which_stands_in() -> None:
    only = record(ablation=(pair("decode", "disabled", 0.2),))
    share = ablation(only, "single", "decode")
    assert share is not None and share.share == pytest.approx(0.2)
    both = record(ablation=(pair("decode", "disabled", 0.2), pair("decode", "unloaded", 0.3)))
    share = ablation(both, "single", "decode")
    assert share is not None and share.share == pytest.approx(0.3)


def test_what_merging_gains_by_the_head_is_not_the_adapters() -> None:
    away = (pair("prefill", "unloaded", 0.48), pair("prefill", "disabled", 0.10))
    plain = record(ablation=away)
    frozen = msgspec.structs.replace(
        plain,
        workload=Workload(model="m", task="causal-lm", rows="", rows_digest=""),
        model=msgspec.structs.replace(SMOLLM2, dtype="bfloat16", frozen_head=True),
    )
    shares = [lora_summary(seen, "single", "prefill") for seen in (plain, frozen)]
    assert [round(found.ablation.share, 2) for found in shares if found and found.ablation] == [0.48, 0.10]
    assert shares[1] and "no frozen head" in shares[1].explanation
    assert shares[0] and "no frozen head" not in shares[0].explanation


def test_one_way_alone_agrees_with_nothing() -> None:
    lora = lora_summary(record(modules=(modules("decode", 0.26),)), "single", "decode")
    assert lora is not None
    assert lora.agree is None
    assert lora.advice == "merge"


def test_end_to_end_weights_the_phases_by_their_time() -> None:
    both = record(modules=(modules("decode", 0.2), modules("prefill", 0.4)))
    # Prefill is 1.5 of 8 s, decode 4 times 1.5 of 8 s.
    assert time_weights(both, "single") == pytest.approx({"prefill": 1.5 / 8, "decode": 6 / 8})
    share = attributed(both, "single", "e2e")
    assert share is not None
    assert share.share == pytest.approx(0.2 * 6 / 8 + 0.4 * 1.5 / 8)
    assert share.low < share.share < share.high
    assert attributed(record(modules=(modules("decode", 0.2),)), "single", "e2e") is None


def test_end_to_end_has_its_own_pairs_first() -> None:
    share = ablation(record(ablation=(pair("e2e", "unloaded", 0.15),)), "single", "e2e")
    assert share is not None and share.share == pytest.approx(0.15)


def test_pairs_that_do_not_match_are_left_out() -> None:
    broken = AblationPair(scenario="single", phase="decode", how="unloaded", on_s=(1.0, 2.0), off_s=(1.0,))
    assert lora_summary(record(ablation=(broken,)), "single", "decode") is None
