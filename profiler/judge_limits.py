"""How far outputs may move before a change counts as damage, by class of fix.

Method: Outputs (docs/method.md).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ftprof.profiler.quality import Safety

Row = Literal["exact", "equivalent", "half", "int8", "int4"]


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """The baseline against itself under harmless changes (batch size, threads): mean KL in nats, top-1 agreement and
    perplexity ratio. No candidate can be held to less than this."""

    kl: float
    top1: float = 1.0
    perplexity_ratio: float = 1.0


class TokenLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Causal models: most mean KL (nats), least top-1 agreement, and the perplexity ratio allowed up or down."""

    kl: float
    top1: float
    perplexity_ratio: float


class RowLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Classifiers and embedders: least label agreement, mean cosine and top-10 neighbour overlap."""

    agreement: float
    cosine: float
    overlap: float


# Rows of the gate. "equivalent" is for fp32, where harmless changes (a merge, SDPA, threads, another runtime) moved a
# 135M fine-tune by KL 2e-10 to 4e-8, and the least damage planted in it (noise of 5 % in one of 210 matrices) by 4e-6:
# the 1e-4 that 16-bit rounding would need lets single damaged matrices pass (`make bench-truth`). 4-bit Llama-2-7B loses 2.9 % of perplexity, llama.cpp's Q5 to Q6 0.2 to 0.4 %; bf16 of a
# 135M fine-tune stayed within KL 1e-5 on completion tokens.
TOKENS: dict[Row, TokenLimits] = {
    "exact": TokenLimits(kl=1e-5, top1=0.998, perplexity_ratio=1.0005),
    "equivalent": TokenLimits(kl=1e-6, top1=0.995, perplexity_ratio=1.001),
    "half": TokenLimits(kl=2e-3, top1=0.985, perplexity_ratio=1.005),
    "int8": TokenLimits(kl=1e-2, top1=0.97, perplexity_ratio=1.01),
    "int4": TokenLimits(kl=5e-2, top1=0.93, perplexity_ratio=1.03),
}
# int4 continues the step from rounding to int8; nothing public says where it should lie.
ROWS: dict[Safety, RowLimits] = {
    "exact": RowLimits(agreement=0.998, cosine=0.99999, overlap=0.998),
    "rounding": RowLimits(agreement=0.99, cosine=0.999, overlap=0.98),
    "int8": RowLimits(agreement=0.97, cosine=0.97, overlap=0.90),
    "int4": RowLimits(agreement=0.93, cosine=0.95, overlap=0.85),
}
ROW_OF: dict[Safety, Row] = {"exact": "exact", "rounding": "half", "int8": "int8", "int4": "int4"}
"""`rounding` holds merging and SDPA, but bf16 too, so it is held to the bf16 row."""
FLOOR_MULTIPLE: dict[Row, float] = {"exact": 3.0, "equivalent": 10.0, "half": 3.0, "int8": 3.0, "int4": 3.0}


def token_limits(row: Row, floor: Floor | None) -> TokenLimits:
    """The row's limits, raised to a multiple of the noise floor, but never beyond the loosest row: a baseline that
    does not agree with itself must not wave everything through."""
    limits = TOKENS[row]
    if floor is None:
        return limits
    times, loosest = FLOOR_MULTIPLE[row], TOKENS["int4"]
    drift = max(floor.perplexity_ratio, 1 / floor.perplexity_ratio)
    return TokenLimits(
        kl=max(limits.kl, min(times * floor.kl, loosest.kl)),
        top1=min(limits.top1, max(1 - times * (1 - floor.top1), loosest.top1)),
        perplexity_ratio=max(limits.perplexity_ratio, min(drift**times, loosest.perplexity_ratio)),
    )
