"""Records as a 2-core machine with AMX leaves them, healthy and with one fault each. Rates and times were measured
there on SmolLM2-135M and MiniLM; probes answer from those rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from ftprof.profiler.batching import padding_facts
from ftprof.profiler.diagnosis import Diagnosis, Interval, Lora, PhaseDiagnosis, Share
from ftprof.profiler.record import (
    AblationPair,
    AdapterFacts,
    Bandwidth,
    LoadSplit,
    Machine,
    Measurement,
    ModelFacts,
    OpTotal,
    OpTrace,
    PhaseTiming,
    ProbeCase,
    ProbeResult,
    RunRecord,
)
from ftprof.profiler.workload import Call, Scenario, Workload

FLOPS = {"float32": 268e9, "bfloat16": 695e9}
STREAM = {"float32": 20e9, "bfloat16": 13.8e9}
HALF_SLOWER = 10.0  # fp16 is emulated
# Seconds of (prompt of 64 tokens, decode step), whole model; a tenth of each is not in the layers.
WHOLE = {
    "torch:float32": (0.156, 0.0408),
    "torch:bfloat16": (0.071, 0.0504),
    "genai:fp32": (0.128, 0.0284),
    "genai:int8": (0.139, 0.0119),
    "genai:int4": (0.172, 0.0083),
    "ort:fp32": (0.039, 0.0),
    "ort:int8": (0.021, 0.0),
}
WOBBLE = (1.0, 1.02, 0.99, 1.01, 0.98, 1.0, 1.03, 0.97)

MACHINE = Machine(
    device="cpu",
    cpu="Sapphire Rapids class",
    cores=2,
    threads=2,
    memory_bytes=23 << 30,
    flops_per_s=FLOPS,
    bandwidth=tuple(
        Bandwidth(working_set_bytes=256 << 20, dtype=dtype, bytes_per_s=rate) for dtype, rate in STREAM.items()
    ),
    dispatch_s=1e-6,
)

SMOLLM2 = ModelFacts(
    architecture="LlamaForCausalLM",
    model_type="llama",
    layers=30,
    hidden_size=576,
    intermediate_size=1536,
    heads=9,
    kv_heads=3,
    head_dim=64,
    vocabulary=49152,
    parameters=134_515_008,
    weight_bytes=538_060_032,
    dtype="float32",
    attention="sdpa",
    use_cache=True,
    use_cache_source=None,
    max_context=8192,
    tied=True,
    linears=((576, 1536, 60), (1536, 576, 30), (576, 49152, 1), (576, 576, 60), (576, 192, 60)),
)

MINILM = ModelFacts(
    architecture="BertForSequenceClassification",
    model_type="bert",
    layers=6,
    hidden_size=384,
    intermediate_size=1536,
    heads=12,
    kv_heads=12,
    head_dim=32,
    vocabulary=30522,
    parameters=22_700_000,
    weight_bytes=90_800_000,
    dtype="float32",
    attention="sdpa",
    use_cache=None,
    use_cache_source=None,
    max_context=512,
    tied=False,
    linears=((384, 1536, 6), (1536, 384, 6), (384, 384, 25), (384, 6, 1)),
)

ADAPTER = AdapterFacts(
    kind="LORA",
    rank=8,
    alpha=16.0,
    targets=("down_proj", "q_proj"),
    modules=210,
    parameters=2_442_240,
    file_bytes=4_939_072,
    file_dtype="bfloat16",
    loaded_dtype="float32",
)


CAST_SLOWER = 1.08
"""A pass with the adapter in fp32 over one with it in the base's bf16."""


def samples(seconds: float) -> tuple[float, ...]:
    return tuple(seconds * factor for factor in WOBBLE)


def probe_seconds(case: ProbeCase) -> float:
    """What a probe takes on that machine."""
    if case.kind == "depth":
        layers, rows, length, decode = case.shape
        whole = WHOLE[case.variant][decode] * (1.0 if decode else rows * length / 64)
        return whole * (0.1 + 0.9 * layers / SMOLLM2.layers)
    # bf16 computes faster there, and streams one row slower; the adapter in the base's type saves its casts.
    compute, stream = {
        "weights:bfloat16": (0.6, 1.2),
        "head:thawed": (0.5, 1.0),
        "weights:float32": (1 / HALF_SLOWER, 1 / HALF_SLOWER),
        "adapter:bfloat16": (1 / CAST_SLOWER, 1 / CAST_SLOWER),
    }.get(case.variant, (1.0, 1.0))
    if case.kind in ("prefill", "decode"):
        rows, length, _ = case.shape
        prefill = 0.02 + rows * length * 0.0015
        step = prefill if case.variant == "no-cache" else 0.0408
        return compute * prefill if case.kind == "prefill" else stream * step
    rows, length = case.shape
    fused = 3e-9 * 72 * rows * length**2 if case.variant == "attention:sdpa" else 0.0
    return compute * (0.004 + rows * length * 0.00025) - fused


def probed(
    cases: Iterable[ProbeCase], seconds: Callable[[ProbeCase], float] = probe_seconds
) -> tuple[ProbeResult, ...]:
    return tuple(ProbeResult(case=case, samples_s=samples(seconds(case))) for case in cases)


def timing(times: dict[str, dict[str, float]]) -> tuple[PhaseTiming, ...]:
    return tuple(
        PhaseTiming(scenario=scenario, phase=phase, time_s=Measurement(samples=samples(seconds)))  # type: ignore[arg-type]
        for scenario, phases in times.items()
        for phase, seconds in phases.items()
    )


def workload(task: str, lengths: tuple[int, ...], call: Call, new_tokens: int, batch: int) -> Workload:
    return Workload(
        model="merged",
        task=task,  # type: ignore[arg-type]
        rows="rows.jsonl",
        rows_digest="0" * 8,
        prompt_tokens=lengths,
        scenarios=(
            Scenario(name="single", units=((0,), (1,))),
            Scenario(name="batch", units=(tuple(range(batch)),)),
        ),
        new_tokens=new_tokens,
        call=call,
    )


LLM_TIMES = {
    "single": {"tokenise": 0.001, "prefill": 0.156, "decode": 0.0408, "e2e": 1.43},
    "batch": {"tokenise": 0.002, "prefill": 0.62, "decode": 0.075, "e2e": 2.97},
}
ORDERED = Call(order="length")


def causal(call: Call = ORDERED, lengths: tuple[int, ...] = (60, 64, 62, 66, 61, 63, 65, 67)) -> RunRecord:
    """A merged SmolLM2 in fp32: nothing that ftprof could improve end to end on that machine."""
    work = workload("causal-lm", lengths, call, 32, len(lengths))
    return RunRecord(
        workload=work,
        machine=MACHINE,
        model=SMOLLM2,
        timing=timing(LLM_TIMES),
        padding=padding_facts("batch", lengths, call),
        load=LoadSplit(import_s=5.0, build_s=0.3, adapter_s=0.0, first_use_s=0.4, file_bytes=538_060_032, evicted=True),
    )


def encoder(
    call: Call = ORDERED, model: ModelFacts = MINILM, lengths: tuple[int, ...] = (16, 17, 17, 18, 18, 19, 20, 21) * 8
) -> RunRecord:
    """A merged MiniLM classifier; 64 short tickets in batches of eight."""
    times = {"single": {"forward": 0.0085, "e2e": 0.009}, "batch": {"forward": 0.26, "e2e": 0.27}}
    return RunRecord(
        workload=workload("sequence-classification", lengths, call, 0, len(lengths)),
        machine=MACHINE,
        model=model,
        timing=timing(times),
        padding=padding_facts("batch", lengths, call),
    )


def with_adapter(record: RunRecord, dtype: str) -> RunRecord:
    """The same with the adapter attached and measured: 44.6 ms on, 35.4 disabled."""
    assert record.model
    pair = AblationPair(scenario="single", phase="decode", how="disabled", on_s=samples(0.0446), off_s=samples(0.0354))
    prefill = AblationPair(scenario="single", phase="prefill", how="disabled", on_s=samples(0.17), off_s=samples(0.156))
    times = {"single": {"tokenise": 0.001, "prefill": 0.17, "decode": 0.0446, "e2e": 1.56}}
    return msgspec.structs.replace(
        record,
        adapter=ADAPTER,
        model=msgspec.structs.replace(record.model, dtype=dtype),
        ablation=(pair, prefill),
        timing=timing(times),
        ops=(cast_trace(),),
    )


def cast_trace() -> OpTrace:
    """A decode step in which 420 of 600 casts are the adapter's."""
    cast = OpTotal(name="aten::_to_copy", kind="cast", shapes="[1, 1, 576]", dtype="bfloat16", calls=600, self_s=0.003)
    return OpTrace(
        scenario="single",
        phase="decode",
        ops=(cast,),
        host_s=0.01,
        traced_s=0.05,
        untraced_s=0.0446,
        events=12_433,
    )


def diagnosis(record: RunRecord, share: float | None = None) -> Diagnosis:
    """What the ledger would say, as far as rules read it."""
    phases = tuple(
        PhaseDiagnosis(
            scenario=timing.scenario,
            name=timing.phase,
            time_s=Interval(median=timing.time_s.samples[0], low=0.0, high=1.0, n=len(timing.time_s.samples)),
        )
        for timing in record.timing or ()
    )
    if share is None:
        return Diagnosis(phases=phases)
    taken = Share(share=share, low=share - 0.02, high=share + 0.02, n=20, how="ablation, adapter disabled")
    lora = Lora(scenario="single", phase="e2e", attributed=None, ablation=None, agree=None, disabled=taken)
    return Diagnosis(phases=phases, lora=lora)


def healthy() -> tuple[tuple[RunRecord, Diagnosis], ...]:
    """Records on which no exact or rounding fix may be advised."""
    half = msgspec.structs.replace(MINILM, dtype="bfloat16")
    records = (causal(), encoder(model=half))
    return tuple((record, diagnosis(record)) for record in records)


def _unmerged() -> tuple[RunRecord, Diagnosis]:
    record = with_adapter(causal(), "float32")
    return record, diagnosis(record, 0.20)


def _fp32_adapter() -> tuple[RunRecord, Diagnosis]:
    record = with_adapter(causal(), "bfloat16")
    return record, diagnosis(record, 0.20)


def _frozen_head() -> tuple[RunRecord, Diagnosis]:
    record = with_adapter(causal(), "bfloat16")
    assert record.model
    return msgspec.structs.replace(record, model=msgspec.structs.replace(record.model, frozen_head=True)), diagnosis(
        record
    )


def _fp32_weights() -> tuple[RunRecord, Diagnosis]:
    record = encoder(lengths=(128,) * 64)
    record = msgspec.structs.replace(
        record, timing=timing({"single": {"forward": 0.03, "e2e": 0.031}, "batch": {"forward": 1.3, "e2e": 1.31}})
    )
    return record, diagnosis(record)


def _eager() -> tuple[RunRecord, Diagnosis]:
    model = msgspec.structs.replace(MINILM, attention="eager")
    record = encoder(Call(attention="eager", order="length"), model, (480,) * 64)
    record = msgspec.structs.replace(record, timing=timing({"batch": {"forward": 17.0, "e2e": 17.1}}))
    return record, diagnosis(record)


def _no_cache() -> tuple[RunRecord, Diagnosis]:
    model = msgspec.structs.replace(SMOLLM2, use_cache=False, use_cache_source="generation_config")
    times = {
        "single": {"prefill": 0.12, "decode": 0.14, "e2e": 4.47},
        "batch": {"prefill": 0.8, "decode": 0.95, "e2e": 30.3},
    }
    record = msgspec.structs.replace(causal(), model=model, timing=timing(times))
    return record, diagnosis(record)


def _padded() -> tuple[RunRecord, Diagnosis]:
    half = msgspec.structs.replace(MINILM, dtype="bfloat16")
    record = encoder(Call(padding="max_length", pad_to=256), half)
    record = msgspec.structs.replace(record, timing=timing({"single": {"forward": 0.042}, "batch": {"forward": 2.5}}))
    return record, diagnosis(record)


def _slow_load() -> tuple[RunRecord, Diagnosis]:
    load = LoadSplit(
        import_s=5.0,
        build_s=2.0,
        adapter_s=0.0,
        first_use_s=38.0,
        file_bytes=538_060_032,
        evicted=True,
        disk_bytes_per_s=400e6,
    )
    record = msgspec.structs.replace(causal(), load=load)
    return record, diagnosis(record)


def _fixed_shape() -> tuple[RunRecord, Diagnosis]:
    model = msgspec.structs.replace(MINILM, engine="ort", attention="graph", fixed_shape=(8, 256))
    record = encoder(Call(), model)
    record = msgspec.structs.replace(record, timing=timing({"single": {"forward": 0.055}, "batch": {"forward": 3.6}}))
    return record, diagnosis(record)


def _half_on_cpu() -> tuple[RunRecord, Diagnosis]:
    record = causal()
    record = msgspec.structs.replace(record, model=msgspec.structs.replace(SMOLLM2, dtype="float16"))
    times = {
        "single": {"prefill": 1.5, "decode": 0.4, "e2e": 14.0},
        "batch": {"prefill": 6.0, "decode": 0.7, "e2e": 28.0},
    }
    record = msgspec.structs.replace(record, timing=timing(times))
    return record, diagnosis(record)


def _on_torch() -> tuple[RunRecord, Diagnosis]:
    record = causal()
    return record, diagnosis(record)


def _in_int8() -> tuple[RunRecord, Diagnosis]:
    record = causal()
    times = {
        "single": {"prefill": 0.139, "decode": 0.0119, "e2e": 0.51},
        "batch": {"prefill": 0.7, "decode": 0.03, "e2e": 1.63},
    }
    model = msgspec.structs.replace(SMOLLM2, engine="genai", dtype="int8")
    record = msgspec.structs.replace(record, model=model, timing=timing(times))
    return record, diagnosis(record)


DEFECTIVE: dict[str, Callable[[], tuple[RunRecord, Diagnosis]]] = {
    "unmerged-adapter": _unmerged,
    "frozen-head": _frozen_head,
    "fp32-adapter": _fp32_adapter,
    "fp32-weights": _fp32_weights,
    "eager-attention": _eager,
    "disabled-kv-cache": _no_cache,
    "padded-batches": _padded,
    "slow-weight-load": _slow_load,
    "fp16-on-cpu": _half_on_cpu,
    "fixed-shape-export": _fixed_shape,
    "eager-runtime": _on_torch,
    "unquantised-weights": _on_torch,
    "int4-weights": _in_int8,
}

OBJECTIVES = {"causal-lm": ("single", "e2e"), "sequence-classification": ("batch", "forward")}


def objective(record: RunRecord) -> tuple[str, str]:
    assert record.workload
    return OBJECTIVES[record.workload.task]
