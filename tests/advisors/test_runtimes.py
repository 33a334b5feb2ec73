"""Moving to another runtime: what two shallow copies predict for the whole, and where it is refused."""

from __future__ import annotations

import msgspec
import pytest

from ftprof.advisors import runtimes
from ftprof.profiler.built import Recipe
from ftprof.profiler.record import ProbeCase, ProbeResult, RunRecord
from tests.advisors.records import ADAPTER, MACHINE, MINILM, causal, encoder, probed, samples, with_adapter

INT8 = Recipe(runtime="genai", precision="int8")
ENCODER_INT8 = Recipe(runtime="ort", precision="int8")


def with_probes(record: RunRecord, recipe: Recipe) -> RunRecord:
    return msgspec.structs.replace(record, probes=probed(runtimes.probes(record, recipe)))


def test_two_depths_give_the_whole_by_a_straight_line() -> None:
    prediction = runtimes.predict(with_probes(causal(), INT8), INT8)
    single = prediction.ratios["single"]
    assert single["decode"].speedup == pytest.approx(0.0408 / 0.0119, rel=0.02)
    assert single["prefill"].speedup == pytest.approx(0.156 / 0.139, rel=0.02)
    assert single["prefill"].speedup < single["e2e"].speedup < single["decode"].speedup
    assert "2 and 11 layers" in prediction.basis


def test_the_adapter_that_a_conversion_merges_counts_on_top() -> None:
    alone = runtimes.predict(with_probes(causal(), INT8), INT8).ratios["single"]["decode"]
    attached = runtimes.predict(with_probes(with_adapter(causal(), "float32"), INT8), INT8).ratios["single"]["decode"]
    assert attached.speedup / alone.speedup == pytest.approx(0.0446 / 0.0354, rel=0.05)


def test_a_burst_on_the_shallow_copy_does_not_turn_time_negative() -> None:
    record = causal()
    cases = runtimes.probes(record, INT8)
    slow = {case: samples(1.0 if case.shape[0] == runtimes.SHALLOW else 0.1) for case in cases}
    probes = tuple(ProbeResult(case=case, samples_s=taken) for case, taken in slow.items())
    ratio = runtimes.predict(msgspec.structs.replace(record, probes=probes), INT8).ratios["single"]["decode"]
    assert 0 < ratio.low <= ratio.speedup <= ratio.high


def test_nothing_is_predicted_without_probes() -> None:
    assert runtimes.predict(causal(), INT8).ratios == {}


def test_the_deep_copy_is_the_model_itself_where_it_has_few_layers() -> None:
    model = causal().model
    assert model is not None
    for layers, parameters, wanted in [
        (30, 135_000_000, (2, 11)),  # the deep copy has 200 MB
        (32, 7_000_000_000, (2, 6)),
        (8, 40_000_000, (2, 8)),
        (4, 1_000_000, (1, 4)),
        (1, 1_000_000, None),
    ]:
        assert runtimes.depths(msgspec.structs.replace(model, layers=layers, parameters=parameters)) == wanted


def test_a_model_that_fits_is_timed_whole_and_a_large_one_at_two_depths() -> None:
    def layers_of(record: RunRecord) -> set[int]:
        return {case.shape[0] for case in runtimes.probes(record, INT8) if case.variant.startswith("torch:")}

    record = causal()
    assert record.model is not None
    assert layers_of(record) == {record.model.layers}
    large = msgspec.structs.replace(record.model, parameters=7_000_000_000)
    assert layers_of(msgspec.structs.replace(record, model=large)) == {2, 6}


def test_the_model_as_it_runs_is_the_reference() -> None:
    model = causal().model
    assert model is not None
    assert runtimes.current(model) == "torch:float32"
    faulty = msgspec.structs.replace(model, attention="eager", use_cache=False, use_cache_source="call")
    assert runtimes.current(faulty) == "torch:float32+eager+no-cache"
    frozen = msgspec.structs.replace(model, dtype="bfloat16", frozen_head=True)
    assert runtimes.current(frozen) == "torch:bfloat16+frozen"
    assert runtimes.current(msgspec.structs.replace(frozen, dtype="float32")) == "torch:float32", "fp32 does not mind"
    assert runtimes.current(msgspec.structs.replace(faulty, use_cache_source="config")) == "torch:float32+eager"
    assert runtimes.current(msgspec.structs.replace(model, engine="genai")) == "genai:fp32"
    assert runtimes.current(msgspec.structs.replace(model, engine="genai", dtype="int8")) == "genai:int8"


@pytest.mark.parametrize(("isa", "refused"), [(("avx2", "avx512f"), True), (("avx512_vnni",), False), ((), False)])
def test_int8_encoders_need_8_bit_dot_products(isa: tuple[str, ...], refused: bool) -> None:
    record = msgspec.structs.replace(encoder(), machine=msgspec.structs.replace(MACHINE, isa=isa))
    assert (runtimes.refuse(record, ENCODER_INT8) is not None) == refused
    assert runtimes.refuse(record, Recipe(runtime="ort", precision="fp32")) is None


def test_an_adapter_that_must_stay_apart_keeps_the_model_on_pytorch() -> None:
    record = with_adapter(causal(), "float32")
    assert record.workload is not None
    kept = msgspec.structs.replace(record.workload.call, keep_adapter=True)
    held = msgspec.structs.replace(record, workload=msgspec.structs.replace(record.workload, call=kept))
    assert "keep_adapter" in (runtimes.refuse(held, INT8) or "")
    blocked = msgspec.structs.replace(record, adapter=msgspec.structs.replace(ADAPTER, blockers=("it is a prompt",)))
    assert "it is a prompt" in (runtimes.refuse(blocked, INT8) or "")
    assert runtimes.refuse(record, INT8) is None


def test_what_the_builder_said_of_the_shallow_copy_is_the_reason() -> None:
    case = ProbeCase(rule="depth", kind="depth", shape=(2, 1, 64, 0), variant="genai:int8")
    record = msgspec.structs.replace(causal(), probes=(ProbeResult(case=case, samples_s=(), error="no Mamba here"),))
    assert runtimes.refuse(record, INT8) == "no Mamba here"
    assert runtimes.refuse(record, Recipe(runtime="genai", precision="fp32")) is None


def test_a_model_of_one_layer_is_not_probed() -> None:
    record = encoder(model=msgspec.structs.replace(MINILM, layers=1))
    assert runtimes.probes(record, ENCODER_INT8) == ()
    assert "few layers" in (runtimes.refuse(record, ENCODER_INT8) or "")
