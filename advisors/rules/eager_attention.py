"""Attention runs as separate operations instead of one fused kernel.

## What it detects
A model whose attention implementation is `eager`. Whether that costs anything at the workload's lengths is decided by
timing both implementations on the real shapes; short prompts often gain nothing, and then the rule is silent.

## Why it is slow
Eager attention writes the whole query-by-key score matrix to memory, once for the product, again for the scale, the
mask, the softmax (in fp32) and the cast, and reads it back for the second product; key and value heads are copied
first where they are shared. The traffic grows with the square of the length. A fused kernel keeps scores in cache.

## Fix
Load with `attn_implementation="sdpa"`, which is what transformers does by itself where nobody asked for eager. On
CUDA, SDPA picks its own flash kernel; `flash_attention_2` is worth a try there for long, padded batches in half
precision.

## When it backfires
- Code that reads attention maps (`output_attentions=True`) needs eager.
- Soft-capped scores and some biases are not supported by SDPA; transformers then raises.
- An explicit padding mask, heads wider than 256 or fp32 on a GPU can leave SDPA on its slow mathematical path.

## Sources
- transformers, attention interfaces (huggingface.co/docs/transformers/attention_interface).
- Dao et al., FlashAttention, arXiv:2205.14135.
- huggingface/transformers#38750 and PR #46960: attention maps, and SDPA's fallback.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ftprof.advisors.predict import KERNEL_ERROR, Pair, by_steps, cases_of, stake, swap
from ftprof.advisors.rule import ALL_TASKS, Evidence, Finding, Prediction, Rule
from ftprof.advisors.shapes import CAUSAL, Step, main_phase, steps
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.record import ModelFacts, ProbeCase, RunRecord

NAME = "eager-attention"


def detect(record: RunRecord, diagnosis: Diagnosis) -> Finding | None:
    model = record.model
    if model is None or model.attention != "eager" or not model.heads or not model.head_dim:
        return None
    here = main_phase(record)[0]
    shares = {step.phase: _share(diagnosis, here, step.phase) for step in steps(record) if step.scenario == here}
    scenario, phase, seconds = stake(record, shares)
    return Finding(
        summary=f"{model.layers} layers of eager attention",
        scenario=scenario,
        phase=phase,
        at_stake_s=seconds,
        evidence=(Evidence(name="attention", value=model.attention, condition="SDPA probed on the real lengths"),),
    )


def _share(diagnosis: Diagnosis, scenario: str, name: str) -> float:
    """At most the attention modules' share of the phase; all of it where modules were not timed."""
    phase = diagnosis.phase(scenario, name)
    if phase is None or "attention" not in phase.modules or phase.time_s.median <= 0:
        return 1.0
    return min(1.0, phase.modules["attention"] / phase.time_s.median)


def _pairs(record: RunRecord, step: Step, model: ModelFacts) -> Iterator[Pair]:
    assert model.heads and model.head_dim and record.workload
    shape = (step.rows, model.heads, model.kv_heads or model.heads, step.query, step.keys, model.head_dim)
    mask = "-causal" if record.workload.task == CAUSAL else ""
    eager = ProbeCase(rule=NAME, kind="attention", shape=shape, variant="eager" + mask)
    yield float(model.layers * step.passes), eager, msgspec.structs.replace(eager, variant="sdpa" + mask)


def probes(record: RunRecord, finding: Finding) -> tuple[ProbeCase, ...]:
    assert record.model
    return cases_of(pair for step in steps(record) for pair in _pairs(record, step, record.model))


def predict(record: RunRecord, finding: Finding) -> Prediction:
    model = record.model
    assert model

    def saving(step: Step, total_s: float) -> tuple[float, float] | None:
        probed = swap(record, _pairs(record, step, model))
        if probed is None:
            return None
        # What is replaced cannot have taken longer than the whole phase.
        scale = min(1.0, total_s / probed.old_s)
        return (probed.old_s - probed.new_s) * scale, probed.sd_s + KERNEL_ERROR * probed.new_s * scale

    return Prediction(ratios=by_steps(record, saving), basis="eager against SDPA on the workload's attention shapes")


RULE = Rule(
    name=NAME,
    title="Use fused attention (SDPA)",
    safety="rounding",
    tasks=ALL_TASKS,
    needs=("workload", "model"),
    detect=detect,
    probes=probes,
    predict=predict,
    rewrite=lambda call: msgspec.structs.replace(call, attention="sdpa"),
    steps='model = AutoModel....from_pretrained(directory, attn_implementation="sdpa")',
)
