"""Attention runs as separate operations instead of one fused kernel.

## What it detects
A model whose attention implementation is `eager`. Whether that costs anything at the workload's lengths is decided by
timing whole passes with both implementations; short prompts often gain nothing, and then the rule is silent.

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

import msgspec

from ftprof.advisors.predict import stake
from ftprof.advisors.rule import ALL_TASKS, Evidence, Finding, Prediction, Rule
from ftprof.advisors.shapes import main_phase, steps
from ftprof.advisors.toggles import toggle_prediction, toggle_probes
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.record import ProbeCase, RunRecord

NAME = "eager-attention"
FUSED = "attention:sdpa"


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
        evidence=(Evidence(name="attention", value=model.attention, condition="whole passes probed with SDPA"),),
    )


def _share(diagnosis: Diagnosis, scenario: str, name: str) -> float:
    """At most the attention modules' share of the phase; all of it where modules were not timed."""
    phase = diagnosis.phase(scenario, name)
    if phase is None or "attention" not in phase.modules or phase.time_s.median <= 0:
        return 1.0
    return min(1.0, phase.modules["attention"] / phase.time_s.median)


def probes(record: RunRecord, finding: Finding) -> tuple[ProbeCase, ...]:
    return toggle_probes(record, FUSED)


def predict(record: RunRecord, finding: Finding) -> Prediction:
    return toggle_prediction(record, FUSED)


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
