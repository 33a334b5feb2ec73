"""Kernels that only convert element types take a visible part of the step.

## What it detects
Cast kernels (copies from one element type to another) that take 5 % of the step or more.

## Why it is slow
A cast computes nothing: it reads a whole tensor and writes it again, in decode often once for each weight or each
layer. It shows that two parts of the model keep different types: an fp32 adapter on a 16-bit base, weights under
autocast whose cache does not hold, norms or a head left in fp32 by a preparation for quantised training.

## Fix
Bring both sides to one type once, at load time: `torch_dtype` of the base for everything, adapters loaded with
`autocast_adapter_dtype=False`, no autocast around a model that is 16-bit already. Fused norm kernels take the casts of
a norm in with them.

## When it backfires
- Norms and softmax in fp32 keep accuracy; convert their surroundings, or fuse, rather than drop them to 16 bits.
- fp16 has a short range: a model trained in bf16 can overflow in it.

## Sources
- PEFT, `autocast_adapter_dtype` (huggingface.co/docs/peft); unslothai/unsloth PR#1186 (head and embeddings in fp32).
- pytorch/pytorch#118499 (autocast that casts weights at each call).
"""

from __future__ import annotations

from ftprof.advisors.trace_evidence import percent, places, share_of_window, span
from ftprof.advisors.trace_rule import TraceFinding, TraceRule
from ftprof.profiler.traces.model import FileAnalysis

FIRES = 0.05  # some casts are part of every norm in fp32


def detect(file: FileAnalysis) -> TraceFinding | None:
    casts = file.device.casts if file.device else None
    if casts is None:
        return None
    share = share_of_window(file, casts.total_s)
    rows = places(file, lambda place: place.kind == "cast")
    if share < FIRES or not rows:
        return None
    return TraceFinding(
        rule="redundant-casts",
        severity=share,
        summary=f"{casts.kernels} kernels that only convert element types take {percent(share)} of {span(file)}",
        evidence=rows,
        advice="bring adapter, norms and head to the base's type once at load time, and drop autocast around a model "
        "that is 16-bit already; fuse the norms that must stay in fp32",
    )


RULE = TraceRule(name="redundant-casts", title="Convert element types once, at load time", detect=detect)
