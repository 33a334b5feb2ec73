"""The measured parts of the example audits: times, ledgers, adapter, machine, model, quality."""

from __future__ import annotations

from msgspec.structs import replace

from ftprof.advisors.audit import (
    ModelEntry,
)
from ftprof.profiler.comparison import Ratio, Verdict
from ftprof.profiler.diagnosis import (
    Bound,
    Diagnosis,
    Interval,
    Ledger,
    Lora,
    LoraPhase,
    LoraTarget,
    PhaseDiagnosis,
    Share,
)
from ftprof.profiler.quality import Bounded, GenerationCheck, QualityCheck, QualityVerdict
from ftprof.profiler.record import (
    AdapterFacts,
    Bandwidth,
    LoadSplit,
    Machine,
    Memory,
    ModelFacts,
    PaddingFacts,
)


def interval(median: float, n: int = 20) -> Interval:
    """A median with an interval of 2 % to either side."""
    return Interval(median=median, low=median * 0.98, high=median * 1.02, n=n)


def ratio(speedup: float, verdict: Verdict = "faster", width: float = 0.05, pairs: int = 12) -> Ratio:
    """A ratio with an interval of `width` to either side."""
    return Ratio(
        speedup=speedup,
        low=speedup * (1 - width),
        high=speedup * (1 + width),
        pairs=pairs,
        verdict=verdict,
        aa_low=0.98,
        aa_high=1.02,
        detectable=0.03,
    )


def ledger(total: float, bound: Bound) -> Ledger:
    """A ledger that sums to `total`, mostly of `bound`."""
    shares = {
        "compute": (0.46, 0.12, 0.08, 0.04, 0.06, 0.18, 0.0, 0.0, 0.06),
        "memory": (0.04, 0.02, 0.46, 0.15, 0.07, 0.2, 0.0, 0.0, 0.06),
        "host": (0.05, 0.05, 0.1, 0.05, 0.1, 0.55, 0.0, 0.0, 0.1),
        "io": (0.05, 0.0, 0.0, 0.0, 0.0, 0.25, 0.6, 0.0, 0.1),
    }[bound]
    return Ledger(**{name: total * share for name, share in zip(Ledger.__struct_fields__, shares, strict=True)})


def phase(
    scenario: str,
    name: str,
    seconds: float,
    bound: Bound,
    *,
    sure: bool = True,
    work: tuple[float, float] | None = None,
) -> PhaseDiagnosis:
    """One diagnosed phase; `work` is FLOPs and bytes."""
    kinds = {"matmul": 0.62, "attention": 0.08, "norm": 0.06, "elementwise": 0.05, "copy": 0.03}
    modules = {"mlp": 0.38, "attention": 0.22, "LoRA A": 0.08, "LoRA B": 0.09, "head": 0.12, "outside modules": 0.11}
    flops, moved = work or (None, None)
    return PhaseDiagnosis(
        scenario=scenario,
        name=name,
        time_s=interval(seconds),
        ledger=ledger(seconds, bound),
        bound=bound,
        bound_share=0.61,
        second="host",
        confirmed=sure,
        confidence=0.9,
        headroom=0.46,
        traced_ratio=1.3,
        flops=flops,
        bytes=moved,
        kinds={kind: share * seconds for kind, share in kinds.items()},
        modules={kind: share * seconds for kind, share in modules.items()},
        evidence=(
            "Weights of 538 MB read per token take 27.2 ms at 19.8 GB/s, measured here.",
            "Doubling the batch raised the time by 6%: the weights, not the arithmetic, cost the time.",
        ),
    )


def quality(verdict: QualityVerdict = "pass", identical: int = 16) -> QualityCheck:
    """A check of a causal LM."""
    passed = verdict == "pass"
    return QualityCheck(
        verdict=verdict,
        safety="rounding",
        figures={
            "kl": Bounded(value=0.0009, low=0.0006, high=0.0013, limit=0.005, passed=passed),
            "top1": Bounded(value=0.9972, low=0.995, high=0.999, limit=0.99, passed=passed),
            "perplexity_ratio": Bounded(value=1.0003, low=0.9991, high=1.0014, limit=1.01, passed=passed),
            "prompt_kl": Bounded(value=0.0011, low=0.0008, high=0.0015),
        },
        documents=160,
        tokens=2312,
        flips=3,
        flips_lost=1,
        generation=GenerationCheck(
            prompts=16,
            identical=identical,
            first_divergence=(None,) * 16,
            length_ratio=1.0,
            eos_baseline=14,
            eos_candidate=14,
            batch_identical=16,
        ),
        floor_kl=0.0,
        not_excluded="A loss of up to 1.9 points of the task score cannot be excluded.",
    )


def lora() -> Lora:
    """LoRA's cost by both ways, in agreement."""
    ablation = Share(share=0.221, low=0.203, high=0.241, n=24, how="unloaded")
    attributed = Share(share=0.208, low=0.19, high=0.226, n=10, how="module times, corrected")
    targets = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    return Lora(
        scenario="single",
        phase="decode",
        attributed=attributed,
        ablation=ablation,
        agree=True,
        disabled=Share(share=0.19, low=0.17, high=0.21, n=24, how="disabled"),
        advice="merge",
        phases=(
            LoraPhase(scenario="single", phase="decode", attributed=attributed, ablation=ablation),
            LoraPhase(
                scenario="single",
                phase="prefill",
                attributed=None,
                ablation=replace(ablation, share=0.1, low=0.08, high=0.12),
            ),
        ),
        targets=tuple(
            LoraTarget(
                phase="decode",
                target=target,
                base_s=0.0011 * (3 if "proj" in target and target[0] in "gud" else 1),
                a_s=0.0004,
                b_s=0.0005,
                rest_s=0.0002 + 0.00005 * position,
            )
            for position, target in enumerate(targets)
        ),
        explanation="Of the 22%, 19% is arithmetic and 3% the wrapper around each layer.",
    )


def machine() -> Machine:
    """A two-core virtual machine."""
    return Machine(
        device="cpu",
        cpu="Intel(R) Xeon(R) Processor @ 2.70GHz",
        cores=2,
        threads=2,
        memory_bytes=24 * 2**30,
        flops_per_s={"float32": 2.68e11, "bfloat16": 6.95e11},
        bandwidth=(
            Bandwidth(working_set_bytes=2**20, dtype="float32", bytes_per_s=6.1e10),
            Bandwidth(working_set_bytes=2**28, dtype="float32", bytes_per_s=2.0e10),
        ),
        dispatch_s=2.1e-6,
        isa=("avx2", "avx512f", "amx_bf16"),
        measured_in_s=4.0,
        fingerprint="c2a9",
    )


def model() -> ModelEntry:
    """The causal sample."""
    return ModelEntry(
        name="smollm2-tickets",
        path="samples/smollm2-tickets",
        base="HuggingFaceTB/SmolLM2-135M-Instruct",
        task="causal-lm",
        sha256="ab12" * 16,
        facts=ModelFacts(
            architecture="LlamaForCausalLM",
            model_type="llama",
            layers=30,
            hidden_size=576,
            intermediate_size=1536,
            heads=9,
            kv_heads=3,
            head_dim=64,
            vocabulary=49152,
            parameters=134515008,
            weight_bytes=538060032,
            dtype="float32",
            attention="sdpa",
            use_cache=True,
            use_cache_source="generation_config.json",
            max_context=8192,
            tied=True,
        ),
        adapter=AdapterFacts(
            kind="LORA",
            rank=8,
            alpha=16.0,
            targets=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
            modules=210,
            parameters=2442240,
            file_bytes=4916968,
            file_dtype="bfloat16",
            loaded_dtype="float32",
        ),
        load=LoadSplit(
            import_s=4.9,
            build_s=1.1,
            adapter_s=0.6,
            first_use_s=0.31,
            file_bytes=542976000,
            evicted=False,
            read_bytes=None,
            disk_bytes_per_s=1.2e9,
        ),
        memory=Memory(
            peak_bytes=1_480_000_000, weight_bytes=538060032, adapter_bytes=9768960, before_load_bytes=420_000_000
        ),
        padding=PaddingFacts(
            scenario="batch",
            real_tokens=3072,
            padded_tokens=5120,
            bucketed_tokens=3200,
            batches=((8, 128), (8, 128)),
            bucketed_batches=((8, 64), (8, 128)),
        ),
    )


def diagnosis() -> Diagnosis:
    """All phases of the causal sample."""
    return Diagnosis(
        phases=(
            phase("single", "load", 6.9, "io", sure=False),
            phase("single", "tokenise", 0.0011, "host"),
            phase("single", "prefill", 0.187, "compute", work=(1.7e10, 7.1e8)),
            phase("single", "decode", 0.0446, "memory", work=(2.9e8, 5.6e8)),
            phase("single", "e2e", 1.56, "memory"),
            phase("batch", "prefill", 0.9, "compute", work=(1.4e11, 1.6e9)),
            phase("batch", "decode", 0.071, "memory", sure=False, work=(2.3e9, 6.4e8)),
            phase("batch", "e2e", 3.2, "compute"),
        ),
        lora=lora(),
        abstained=("Sync: this device runs in step with the host, so there is nothing to wait for.",),
        headline="Decode is limited by memory bandwidth.",
    )
