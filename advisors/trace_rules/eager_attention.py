"""Attention runs as separate kernels, as the trace shows.

## What it detects
Softmax kernels and the batched products beside them, that is unfused attention, taking 5 % of the step or more.

## Why it is slow
The scores of every query with every key are written to memory and read back by each piece: product, scale, mask,
softmax, cast, second product. The traffic grows with the square of the length. A fused kernel keeps them on chip. On an
H100 a video model spent 73 % of its kernel time so.

## Fix
`attn_implementation="sdpa"` (or `flash_attention_2`) when loading with transformers; in own code
`torch.nn.functional.scaled_dot_product_attention`.

## When it backfires
- Attention maps (`output_attentions=True`) need the eager form.
- SDPA can itself fall back to separate kernels: a dense mask, a head wider than 256, or fp32 on some parts.
- Soft-capped scores are not in SDPA.

## Sources
- transformers, attention interfaces (huggingface.co/docs/transformers/attention_interface).
- Dao et al., FlashAttention, arXiv:2205.14135.
"""

from __future__ import annotations

from ftprof.advisors.trace_evidence import percent, places, share_of_window, span
from ftprof.advisors.trace_rule import TraceFinding, TraceRule
from ftprof.profiler.traces.model import FileAnalysis
from ftprof.profiler.traces.tables import Place

FIRES = 0.05
_PRODUCTS = frozenset({"aten::bmm", "aten::baddbmm"})


def detect(file: FileAnalysis) -> TraceFinding | None:
    attention = file.device.attention if file.device else None
    if attention is None or not attention.softmax_s:
        return None
    share, rows = share_of_window(file, attention.eager_s), places(file, _piece)
    if share < FIRES or not rows:
        return None
    return TraceFinding(
        rule="eager-attention",
        severity=share,
        summary=f"unfused attention takes {percent(share)} of {span(file)}, "
        f"its softmax alone {percent(share_of_window(file, attention.softmax_s))}",
        evidence=rows,
        advice='load with attn_implementation="sdpa" or call scaled_dot_product_attention',
    )


def _piece(place: Place) -> bool:
    return place.kind == "softmax" or place.op in _PRODUCTS


RULE = TraceRule(name="eager-attention", title="Use fused attention", detect=detect)
