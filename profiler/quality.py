"""Types of the quality check: did the outputs stay the same, and how sure is that.

Method: Outputs (docs/method.md).
"""

from __future__ import annotations

from typing import Literal

import msgspec

Safety = Literal["exact", "rounding", "int8", "int4"]
QualityVerdict = Literal["pass", "fail", "inconclusive"]


class Bounded(msgspec.Struct, frozen=True, kw_only=True):
    """A figure with its one-sided 95 % bounds, and the limit that it was held against (None: shown only)."""

    value: float
    low: float
    high: float
    limit: float | None = None
    passed: bool | None = None


class GenerationCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Greedy continuations of the baseline and the candidate on the same prompts."""

    prompts: int
    identical: int
    first_divergence: tuple[int | None, ...]
    length_ratio: float
    eos_baseline: int
    eos_candidate: int
    batch_identical: int | None = None
    passed: bool = True


class QualityCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Quality of a candidate against the model as loaded; `figures` by name, each with bounds and limit.

    Names: kl, top1, perplexity_ratio (causal LM, over completion positions), prompt_kl, prompt_top1 (shown only),
    label_agreement, accuracy_change (classifier), cosine, neighbour_overlap (embedder), task_score_change.
    """

    verdict: QualityVerdict
    safety: Safety
    figures: dict[str, Bounded] = {}
    documents: int = 0
    tokens: int = 0
    flips: int | None = None
    flips_lost: int | None = None
    generation: GenerationCheck | None = None
    floor_kl: float | None = None
    not_excluded: str = ""
    """The loss that this much data cannot exclude, as a sentence."""
    why: str = ""
