"""Matrix products whose operands are not aligned run on slower kernels.

## What it detects
Product kernels named `align1` or `align2` (the library reads one or two elements at a time) that take 2 % of the step
or more. Where the trace has shapes, the sizes that force them are named.

## Why it is slow
A tensor core is fed fastest by loads of 16 bytes: eight 16-bit or four 32-bit elements. A row length that is no
multiple of that makes every second row start off the grid, and the library falls back to narrow loads. In public
H100 traces of Hugging Face models such kernels took 13 to 42 % of the kernel time.

## Fix
Pad the odd size to a multiple of 8 (64 for a vocabulary): `resize_token_embeddings(n, pad_to_multiple_of=64)` for the
head, a padded or dropped token for a sequence, one more zero column for a projection. Unfused attention over an odd
length goes away with fused attention.

## When it backfires
- Added vocabulary rows can be sampled: mask their logits.
- A draft model and its target must agree on the vocabulary.
- Newer libraries often find an aligned kernel by themselves; measure, two users in public threads saw no gain.

## Sources
- NVIDIA, matrix multiplication background: alignment of dimensions (docs.nvidia.com/deeplearning/performance).
- huggingface/transformers#25088 (padding the vocabulary), NVIDIA/DeepLearningExamples#534.
"""

from __future__ import annotations

import json
import math
import re

from ftprof.advisors.trace_evidence import percent, places, share_of_window, span
from ftprof.advisors.trace_rule import TraceFinding, TraceRule
from ftprof.profiler.traces.model import FileAnalysis
from ftprof.profiler.traces.tables import Place

FIRES = 0.02  # of the step: below that, padding is not worth the trouble
_ALIGNED = re.compile(r"align([12])(?!\d)")
_FULL = 8  # elements of 16 bits in the widest load


def detect(file: FileAnalysis) -> TraceFinding | None:
    if file.device is None:
        return None
    share = share_of_window(file, sum(row.total_s for row in file.device.kernels if row.misaligned))
    rows = places(file, lambda place: place.misaligned)
    if share < FIRES or not rows:
        return None
    sizes = _odd_sizes(file.device.places)
    named = f"; sizes that force them: {', '.join(map(str, sizes))}" if sizes else ""
    return TraceFinding(
        rule="misaligned-gemm",
        severity=share,
        summary=f"matrix products on unaligned operands take {percent(share)} of {span(file)}{named}",
        evidence=rows,
        advice="pad the odd sizes to a multiple of 8 (a vocabulary to 64, with the added logits masked); "
        "where they belong to unfused attention, use fused attention",
    )


def _odd_sizes(found: tuple[Place, ...]) -> list[int]:
    """The last two sizes of each operand whose largest power of two is what the kernel's name says."""
    spent: dict[int, float] = {}
    for place in found:
        marked = _ALIGNED.search(place.kernel) if place.misaligned else None
        for size in _sizes(place.shapes) if marked else ():
            if marked and size >= _FULL and math.gcd(size, _FULL) == int(marked[1]):
                spent[size] = spent.get(size, 0.0) + place.total_s
    return sorted(spent, key=lambda size: -spent[size])[:3]


def _sizes(shapes: str | None) -> set[int]:
    try:
        dims = json.loads(shapes or "[]")
    except ValueError:
        return set()
    operands = [dim for dim in dims if isinstance(dim, list) and len(dim) >= 2] if isinstance(dims, list) else []
    return {size for dim in operands for size in dim[-2:] if isinstance(size, int)}


RULE = TraceRule(name="misaligned-gemm", title="Pad odd sizes so that matrix products are aligned", detect=detect)
