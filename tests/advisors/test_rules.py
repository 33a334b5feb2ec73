"""Each rule against the records that decide it: where it must fire, where it must not, and how near its figures are."""

from __future__ import annotations

import msgspec
import pytest

from ftprof.advisors.advise import Advised, advise, wanted_probes
from ftprof.advisors.rule import PredictedRatio
from ftprof.advisors.rules import get_rule
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.record import LoadSplit, ProbeCase, RunRecord
from ftprof.profiler.workload import Call
from tests.advisors.records import (
    ADAPTER,
    CAST_SLOWER,
    DEFECTIVE,
    SMOLLM2,
    causal,
    diagnosis,
    encoder,
    objective,
    probe_seconds,
    probed,
    with_adapter,
)


def advised(name: str, record: RunRecord, seen: Diagnosis | None = None, **options: object) -> Advised:
    """One rule's advice, its probes answered."""
    rule, seen = get_rule(name), seen or diagnosis(record)
    cases = wanted_probes(record, seen, [rule])
    record = msgspec.structs.replace(record, probes=probed(cases, **options))  # type: ignore[arg-type]
    return advise(record, seen, [rule], objective(record), now="now")


def predicted(name: str, record: RunRecord, scenario: str, phase: str, seen: Diagnosis | None = None) -> PredictedRatio:
    entry = advised(name, record, seen).entries[0]
    assert entry.predicted
    return entry.predicted.ratios[scenario][phase]


def test_merge_predicts_more_than_disabling_the_adapter_shows() -> None:
    record, seen = DEFECTIVE["unmerged-adapter"]()
    decode = predicted("unmerged-adapter", record, "single", "decode", seen)
    assert 0.0446 / 0.0354 < decode.speedup < 1.35  # 1.28 to 1.37 was measured against the unloaded model
    prefill = predicted("unmerged-adapter", record, "single", "prefill", seen)
    whole = predicted("unmerged-adapter", record, "single", "e2e", seen)
    assert prefill.speedup < whole.speedup < decode.speedup


def test_merge_prefers_the_unloaded_model_over_the_disabled_adapter() -> None:
    record, seen = DEFECTIVE["unmerged-adapter"]()
    assert record.ablation
    unloaded = msgspec.structs.replace(
        record.ablation[0], how="unloaded", off_s=tuple(s / 1.5 for s in record.ablation[0].on_s)
    )
    record = msgspec.structs.replace(record, ablation=(unloaded, *record.ablation))
    assert predicted("unmerged-adapter", record, "single", "decode", seen).speedup == pytest.approx(1.5)


def test_merge_also_frees_the_head_that_peft_froze() -> None:
    record = with_adapter(causal(), "bfloat16")
    assert record.model
    frozen = msgspec.structs.replace(record, model=msgspec.structs.replace(record.model, frozen_head=True))
    found = {
        (held is frozen, phase): predicted("unmerged-adapter", held, "single", phase, diagnosis(held, 0.2)).speedup
        for held in (record, frozen)
        for phase in ("prefill", "decode", "e2e")
    }
    thawed = predicted("frozen-head", frozen, "single", "prefill")
    assert found[True, "prefill"] == pytest.approx(found[False, "prefill"] * thawed.speedup)
    assert found[True, "decode"] == pytest.approx(found[False, "decode"], rel=0.03)
    assert found[True, "e2e"] > found[False, "e2e"]


@pytest.mark.parametrize(("share", "fires"), [(0.24, True), (0.06, True), (0.049, False), (0.0, False)])
def test_merge_fires_from_five_per_cent(share: float, fires: bool) -> None:
    record = with_adapter(causal(), "float32")
    assert bool(advised("unmerged-adapter", record, diagnosis(record, share)).entries) is fires


def test_a_share_that_may_be_noise_does_not_fire() -> None:
    record = with_adapter(causal(), "float32")
    seen = diagnosis(record, 0.08)
    assert seen.lora and seen.lora.disabled
    lora = msgspec.structs.replace(seen.lora, disabled=msgspec.structs.replace(seen.lora.disabled, low=0.01))
    assert advised("unmerged-adapter", record, msgspec.structs.replace(seen, lora=lora)).entries == ()


def test_a_quantised_base_is_refused_with_its_reason() -> None:
    record, seen = DEFECTIVE["unmerged-adapter"]()
    record = msgspec.structs.replace(
        record, adapter=msgspec.structs.replace(ADAPTER, blockers=("the base is quantised",))
    )
    assert advised("unmerged-adapter", record, seen).entries[0].refused == "the base is quantised"


def test_an_adapter_in_the_bases_dtype_is_left_alone() -> None:
    record = with_adapter(causal(), "float32")
    assert advised("fp32-adapter", record, diagnosis(record, 0.2)) == Advised()


def test_an_adapter_in_another_dtype_costs_what_passes_both_ways_differ_by() -> None:
    record, seen = DEFECTIVE["fp32-adapter"]()
    for phase in ("prefill", "decode", "e2e"):
        ratio = predicted("fp32-adapter", record, "single", phase, seen)
        assert ratio.low < CAST_SLOWER < ratio.high
        assert ratio.speedup == pytest.approx(CAST_SLOWER, rel=1e-3)


@pytest.mark.parametrize(
    ("frozen", "dtype", "fires"), [(True, "float32", False), (False, "bfloat16", False), (True, "bfloat16", True)]
)
def test_a_frozen_head_matters_in_16_bit_only(frozen: bool, dtype: str, fires: bool) -> None:
    record, seen = DEFECTIVE["frozen-head"]()
    assert record.model
    record = msgspec.structs.replace(
        record, model=msgspec.structs.replace(record.model, frozen_head=frozen, dtype=dtype)
    )
    assert bool(advised("frozen-head", record, seen).entries) is fires


def test_a_thawed_head_is_predicted_to_help_the_prompt_alone() -> None:
    record, seen = DEFECTIVE["frozen-head"]()
    assert predicted("frozen-head", record, "single", "prefill", seen).low > 1.5
    assert predicted("frozen-head", record, "single", "decode", seen).speedup == pytest.approx(1.0, abs=0.02)


def test_bf16_is_left_alone_where_decode_would_lose_more_than_prefill_gains() -> None:
    outcome = advised("fp32-weights", causal())
    assert outcome.entries == ()
    assert len(outcome.checked) == 1
    assert outcome.checked[0].startswith("fp32-weights: predicted 0.8")
    assert "left alone" in outcome.checked[0]
    assert "single prefill alone would gain" in outcome.checked[0]


def test_bf16_is_advised_for_an_encoder_with_full_batches() -> None:
    record, seen = DEFECTIVE["fp32-weights"]()
    assert predicted("fp32-weights", record, "batch", "forward", seen).low > 1.3


def test_bf16_is_never_predicted_without_probes() -> None:
    record, seen = DEFECTIVE["fp32-weights"]()
    outcome = advise(record, seen, [get_rule("fp32-weights")], objective(record), now="now")
    assert outcome.entries == ()
    assert "probes were not run" in outcome.checked[0]


def test_emulated_bf16_is_left_alone() -> None:
    def emulated(case: ProbeCase) -> float:
        return probe_seconds(msgspec.structs.replace(case, variant="")) * (2 if case.variant else 1)

    record, seen = DEFECTIVE["fp32-weights"]()
    assert advised("fp32-weights", record, seen, seconds=emulated).entries == ()


def test_rules_share_the_passes_of_the_model_as_loaded() -> None:
    record, seen = DEFECTIVE["eager-attention"]()
    cases = wanted_probes(record, seen, [get_rule("fp32-weights"), get_rule("eager-attention")])
    shapes = {case.shape for case in cases}
    assert {case.variant for case in cases} == {"", "weights:bfloat16", "attention:sdpa"}
    assert len(cases) == 3 * len(shapes)


def test_eager_attention_on_short_prompts_is_left_alone() -> None:
    model = msgspec.structs.replace(SMOLLM2, attention="eager")
    outcome = advised("eager-attention", msgspec.structs.replace(causal(), model=model))
    assert outcome.entries == ()
    assert outcome.checked[0].startswith("eager-attention: predicted 1.0")


def test_eager_attention_on_long_texts_is_advised() -> None:
    record, seen = DEFECTIVE["eager-attention"]()
    assert predicted("eager-attention", record, "batch", "forward", seen).speedup > 1.1


@pytest.mark.parametrize(
    ("source", "fires"), [("generation_config", True), ("call", True), ("config", False), (None, False)]
)
def test_the_cache_flag_counts_only_where_it_acts(source: str | None, fires: bool) -> None:
    record, seen = DEFECTIVE["disabled-kv-cache"]()
    model = msgspec.structs.replace(SMOLLM2, use_cache=False, use_cache_source=source)
    assert bool(advised("disabled-kv-cache", msgspec.structs.replace(record, model=model), seen).entries) is fires


def test_the_cache_gain_is_that_of_a_step_over_a_prefill() -> None:
    record, seen = DEFECTIVE["disabled-kv-cache"]()
    decode = predicted("disabled-kv-cache", record, "single", "decode", seen)
    assert decode.low < (0.02 + 64 * 0.0015) / 0.0408 < decode.high
    assert 1.0 < predicted("disabled-kv-cache", record, "single", "e2e", seen).speedup < decode.speedup


def test_fixed_padding_is_advised_for_single_and_batch() -> None:
    record, seen = DEFECTIVE["padded-batches"]()
    assert predicted("padded-batches", record, "batch", "forward", seen).low > 5.0  # 9 to 12 was measured
    assert predicted("padded-batches", record, "single", "forward", seen).low > 2.0


def test_order_alone_does_not_touch_single_requests() -> None:
    mixed = (10, 120, 12, 110, 11, 115, 14, 118) * 8
    call = Call(batch_size=4)
    record = causal(call, mixed)
    outcome = advised("padded-batches", record)
    assert outcome.entries == ()
    assert "does not touch single e2e" in outcome.checked[0]
    assert "batch prefill alone would gain" in outcome.checked[0]


def test_ordered_batches_of_like_length_are_silent() -> None:
    assert advised("padded-batches", encoder()) == Advised()


@pytest.mark.parametrize(
    ("first_use_s", "disk", "fires"),
    [
        (0.4, 400e6, False),  # healthy
        (6.0, 400e6, True),  # 90 MB/s on a disk of 400
        (6.0, 120e6, False),  # as fast as the disk
        (6.0, None, False),  # slow, but against what?
        (12.0, None, True),  # long in any case
    ],
)
def test_a_load_is_slow_by_the_clock_or_against_the_disk(first_use_s: float, disk: float | None, fires: bool) -> None:
    load = LoadSplit(
        import_s=4.0,
        build_s=0.1,
        adapter_s=0.0,
        first_use_s=first_use_s,
        file_bytes=538_000_000,
        evicted=True,
        disk_bytes_per_s=disk,
    )
    outcome = advised("slow-weight-load", msgspec.structs.replace(causal(), load=load))
    assert bool(outcome.entries) is fires
    assert all(not entry.fixable for entry in outcome.entries)


def test_a_file_stored_wider_than_it_is_run_is_named() -> None:
    record, seen = DEFECTIVE["slow-weight-load"]()
    model = msgspec.structs.replace(SMOLLM2, dtype="bfloat16", weight_bytes=SMOLLM2.weight_bytes // 2)
    entry = advised("slow-weight-load", msgspec.structs.replace(record, model=model), seen).entries[0]
    assert entry.finding
    assert "stored wider than it is run" in entry.finding.summary
