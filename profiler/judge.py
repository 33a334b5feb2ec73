"""Did the outputs of a causal model stay the same: the verdict of the quality gate.

Three answers. "pass" needs the 95 % bound inside the limit, "fail" a figure beyond it or proven harm, everything
between is "inconclusive"; a fix is kept on "pass" alone. Outputs that cannot be compared fail.

Method: Outputs (docs/method.md).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ftprof.profiler.judge_answers import TaskChange, TaskScores, task_change
from ftprof.profiler.judge_bounds import at_least, at_most, cluster_mean, fail_closed, shown, verdict_of, within_factor
from ftprof.profiler.judge_limits import ROW_OF, Floor, Row, token_limits
from ftprof.profiler.judge_rows import judge_classifier, judge_embedder
from ftprof.profiler.quality import Bounded, GenerationCheck, QualityCheck, Safety

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating]
    Bools = NDArray[np.bool_]

__all__ = [
    "DocScores",
    "Floor",
    "TaskChange",
    "TaskScores",
    "fail_closed",
    "generation_check",
    "judge_causal",
    "judge_classifier",
    "judge_embedder",
    "task_change",
]

WANTED_TOKENS = 2_000
"""Scored tokens that the limits were made for; fewer can pass, but the sentence on what is left open says so."""
MIN_TOKENS, MIN_DOCUMENTS = 200, 5
"""Below either there is no interval worth the name."""
LENGTH_RATIO = (0.90, 1.10)
"""Generated length against the baseline's, as in MLPerf Inference's language model rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocScores:
    """One document's completion positions under both models, teacher-forced; every array has shape (tokens,).

    `kl` is KL(baseline || candidate) in nats, `nll_*` the negative log-likelihood of the reference token in nats.
    `prompt_*` are the same over prompt positions; they are shown and decide nothing.
    """

    kl: Floats
    top1_equal: Bools
    nll_base: Floats
    nll_new: Floats
    prompt_kl: Floats | None = None
    prompt_top1: Bools | None = None


def judge_causal(
    safety: Safety,
    docs: Sequence[DocScores],
    generation: GenerationCheck | None = None,
    floor: Floor | None = None,
    task: TaskScores | None = None,
    *,
    limits: Row | None = None,
) -> QualityCheck:
    """Judges a causal model by divergence, agreement and perplexity over completion tokens, clustered by document.

    `limits` names another row of the gate than the safety class's own. Proven task harm and a changed generation
    length fail by themselves. Never raises on bad scores: they fail closed, with the reason.
    """
    if fault := _fault(docs, task):
        return fail_closed(safety, fault)
    scored = [doc for doc in docs if len(doc.kl)]
    tokens = sum(len(doc.kl) for doc in scored)
    figures = _figures(scored, limits or ROW_OF[safety], floor) if scored else {}
    change = task_change(task.base_right, task.new_right) if task and task.base_right else None
    if change:
        figures["task_score_change"] = change.bounded()
    verdict, why = verdict_of(figures, _broken(change, generation), _thin(tokens, len(scored)))
    return QualityCheck(
        verdict=verdict,
        safety=safety,
        figures=figures,
        documents=len(scored),
        tokens=tokens,
        flips=change.flips if change else None,
        flips_lost=change.lost if change else None,
        generation=generation,
        floor_kl=floor.kl if floor else None,
        not_excluded=_not_excluded(figures, tokens, len(scored), change),
        why=why,
    )


def _fault(docs: Sequence[DocScores], task: TaskScores | None) -> str:
    """Why the scores cannot be judged at all, or an empty string."""
    if task and len(task.base_right) != len(task.new_right):
        return f"the task has {len(task.base_right)} answers of the baseline and {len(task.new_right)} of the candidate"
    for number, doc in enumerate(docs, start=1):
        sizes = {len(doc.kl), len(doc.top1_equal), len(doc.nll_base), len(doc.nll_new)}
        if len(sizes) > 1:
            return f"document {number} has {sorted(sizes)} scored positions: the two models' outputs do not line up"
        for name, values in (("baseline", doc.nll_base), ("candidate", doc.nll_new), ("divergence", doc.kl)):
            if bad := int(np.count_nonzero(~np.isfinite(values))):
                return f"document {number}: {name} is not finite on {bad} of {len(values)} tokens"
    return ""


def _thin(tokens: int, documents: int) -> str:
    if tokens >= MIN_TOKENS and documents >= MIN_DOCUMENTS:
        return ""
    return (
        f"{tokens} scored tokens in {documents} documents are too few to judge "
        f"(at least {MIN_TOKENS} in {MIN_DOCUMENTS}; give more --data)"
    )


def _broken(change: TaskChange | None, generation: GenerationCheck | None) -> list[str]:
    """What fails whatever the figures say."""
    broken = []
    if change and change.harmed:
        broken.append(
            f"task harm is proven: {change.lost} of {change.n} answers lost, {change.gained} gained (p = {change.p_harm:.2g})"
        )
    if generation and not generation.passed:
        broken.append(f"generated length is {generation.length_ratio:.2f} of the baseline's")
    return broken


def _figures(docs: Sequence[DocScores], row: Row, floor: Floor | None) -> dict[str, Bounded]:
    limits = token_limits(row, floor)
    changes = [np.asarray(doc.nll_new, float) - np.asarray(doc.nll_base, float) for doc in docs]
    value, low, high = (_exp(change) for change in _mean(changes))
    figures = {
        "kl": at_most(_mean([doc.kl for doc in docs]), limits.kl),
        "top1": at_least(_mean([doc.top1_equal for doc in docs]), limits.top1),
        "perplexity_ratio": within_factor((value, low, high), limits.perplexity_ratio),
    }
    if prompt_kl := [doc.prompt_kl for doc in docs if doc.prompt_kl is not None and len(doc.prompt_kl)]:
        figures["prompt_kl"] = shown(_mean(prompt_kl))
    if prompt_top1 := [doc.prompt_top1 for doc in docs if doc.prompt_top1 is not None and len(doc.prompt_top1)]:
        figures["prompt_top1"] = shown(_mean(prompt_top1))
    return figures


def _mean(arrays: Sequence[Floats] | Sequence[Bools]) -> tuple[float, float, float]:
    """Mean over all positions with bounds by document; arrays of shape (tokens of a document,)."""
    sums = np.array([np.sum(values, dtype=np.float64) for values in arrays])
    return cluster_mean(sums, np.array([len(values) for values in arrays], dtype=np.float64))


def _exp(value: float) -> float:
    # Beyond exp(709) a float overflows, and JSON knows no infinity; a model that bad needs no further digits.
    return float(np.exp(min(value, 700.0)))


def _not_excluded(figures: dict[str, Bounded], tokens: int, documents: int, change: TaskChange | None) -> str:
    """What this much data leaves open, as a sentence; empty where nothing was scored."""
    parts = [change.not_excluded] if change else []
    if "top1" in figures:
        # Where no token differed the bootstrap has no spread; the binomial bound still has.
        other = max(1 - figures["top1"].low, 1 - 0.05 ** (1 / tokens))
        worse = max(0.0, figures["perplexity_ratio"].high - 1)
        few = f", fewer than the {WANTED_TOKENS} that the limits are made for" if tokens < WANTED_TOKENS else ""
        parts.append(
            f"another first choice on up to {other:.2%} of tokens and a perplexity rise of up to {worse:.2%} "
            f"cannot be excluded ({tokens} tokens in {documents} documents{few})"
        )
    return "; ".join(parts)


def generation_check(
    base_tokens: Sequence[Sequence[int]],
    new_tokens: Sequence[Sequence[int]],
    eos_id: int | Collection[int] | None,
    batch_same: Sequence[bool] | None = None,
) -> GenerationCheck:
    """Compares greedy continuations of the same prompts, token by token, prompt by prompt.

    `batch_same` says by prompt whether the candidate writes the same alone and in a batch. Where texts part is shown
    only: one near-tie parts two sound models. A total length outside 0.90 to 1.10 of the baseline's does not pass.
    Raises ValueError where the numbers of prompts differ.
    """
    if len(base_tokens) != len(new_tokens):
        raise ValueError(f"{len(base_tokens)} baseline continuations against {len(new_tokens)}")
    ends = {eos_id} if isinstance(eos_id, int) else set(eos_id or ())
    parted = tuple(_first_divergence(base, new) for base, new in zip(base_tokens, new_tokens, strict=True))
    base_length, new_length = sum(map(len, base_tokens)), sum(map(len, new_tokens))
    length_ratio = 1.0 if base_length == new_length else new_length / max(1, base_length)
    return GenerationCheck(
        prompts=len(base_tokens),
        identical=parted.count(None),
        first_divergence=parted,
        length_ratio=length_ratio,
        eos_baseline=sum(bool(row) and row[-1] in ends for row in base_tokens),
        eos_candidate=sum(bool(row) and row[-1] in ends for row in new_tokens),
        batch_identical=None if batch_same is None else sum(map(bool, batch_same)),
        passed=LENGTH_RATIO[0] <= length_ratio <= LENGTH_RATIO[1],
    )


def _first_divergence(base: Sequence[int], new: Sequence[int]) -> int | None:
    """Index of the first token that differs or is missing on one side; None where the rows are the same."""
    for index, (ours, theirs) in enumerate(zip(base, new, strict=False)):
        if ours != theirs:
            return index
    return None if len(base) == len(new) else min(len(base), len(new))
