"""The quality gate as the conductor sees it: what the original gave, and how a candidate is held against it.

Method: Outputs (docs/method.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from ftprof.advisors.advise import ORDER
from ftprof.advisors.context import Context
from ftprof.advisors.variant import Variant
from ftprof.profiler.judge_limits import ROW_OF
from ftprof.profiler.judge_limits import Row as Limits
from ftprof.profiler.quality import QualityCheck, Safety
from ftprof.profiler.workload import Row, generates

if TYPE_CHECKING:
    from pathlib import Path

    # numpy comes with it, and the conductor's start does not need that.
    from ftprof.profiler.outputs import Greedy, Reference, Scored

# Shares of the budget for writing the reference and for judging one candidate.
REFERENCE_SHARE, CHECK_SHARE = 0.06, 0.05
DEFAULT_CONTEXT = 2048


class Gate(Protocol):
    """Judges a variant against the model as loaded, by the limits of `safety`, or of the row `limits`.

    `seconds` is about what that takes: as long as the original took.
    """

    seconds: float

    def check(self, candidate: Variant, safety: Safety, limits: Limits) -> QualityCheck: ...


class CausalGate:
    """Teacher-forced divergence over completions and greedy continuations."""

    def __init__(self, context: Context, original: Variant, max_context: int | None) -> None:
        self._context = context
        begin = context.budget.now()
        self._reference: Reference = original.handle().call(
            "reference",
            str(context.scratch),
            max_context or DEFAULT_CONTEXT,
            REFERENCE_SHARE * context.budget.total_s,
            timeout_s=context.patience(),
        )
        self.seconds = context.budget.now() - begin

    def check(self, candidate: Variant, safety: Safety, limits: Limits) -> QualityCheck:
        from ftprof.profiler.judge import Floor, TaskScores, generation_check, judge_causal

        reference, handle, patience = self._reference, candidate.handle(), self._context.patience
        scored: Scored = handle.call("scores", reference, str(self._context.scratch), timeout_s=patience())
        made: Greedy = handle.call("greedy", timeout_s=patience())
        same = [alone == batched for alone, batched in zip(made.single, made.batched, strict=False)]
        floor = None
        if reference.floor_kl is not None and reference.floor_top1 is not None:
            floor = Floor(kl=reference.floor_kl, top1=reference.floor_top1)
        generation = generation_check(reference.greedy, made.batched, reference.eos, same)
        task = TaskScores(base_right=scored.base_right, new_right=scored.new_right)

        def judged(safety: Safety, limits: Limits) -> QualityCheck:
            return judge_causal(safety, scored.documents, generation, floor, task, limits=limits)

        return within_allowed(judged, safety, limits, self._context.options.max_loss)


class EncoderGate:
    """Probabilities of a classifier or vectors of an embedder on the same rows."""

    def __init__(self, context: Context, original: Variant, rows: Sequence[Row]) -> None:
        self._context = context
        self._task = original.workload.task
        self._path = context.scratch / "reference.npy"
        begin = context.budget.now()
        self._count = self._outputs(original, self._path, REFERENCE_SHARE, None)
        self.seconds = context.budget.now() - begin
        names = {name: number for number, name in enumerate(original.workload.labels)}
        self._labels = [names.get(str(row.label)) for row in rows[: self._count]]

    def _outputs(self, variant: Variant, path: Path, share: float, rows: int | None) -> int:
        context = self._context
        seconds = share * context.budget.total_s
        done: int = variant.handle().call("encoder_outputs", str(path), seconds, rows, timeout_s=context.patience())
        return done

    def check(self, candidate: Variant, safety: Safety, limits: Limits) -> QualityCheck:
        import numpy as np

        from ftprof.profiler.judge import judge_classifier, judge_embedder

        path = self._context.scratch / "candidate.npy"
        done = self._outputs(candidate, path, CHECK_SHARE, self._count)
        base, new = np.load(self._path)[:done], np.load(path)
        most = self._context.options.max_loss
        if self._task == "embedding":
            return within_allowed(lambda safety, _: judge_embedder(safety, base, new), safety, limits, most)
        # Rows without a known label say whether labels changed, not whether answers got worse.
        labels = self._labels[:done]
        known = [place for place, number in enumerate(labels) if number is not None]
        if 0 < len(known) < done:
            base, new, labels = base[known], new[known], [labels[place] for place in known]
        right = [n for n in labels if n is not None] if known else None
        return within_allowed(lambda safety, _: judge_classifier(safety, base, new, right), safety, limits, most)


def within_allowed(
    judged: Callable[[Safety, Limits], QualityCheck], safety: Safety, limits: Limits, most: Safety
) -> QualityCheck:
    """The check by a variant's own limits; where these leave it undecided, by those of the loss that the user allows.

    One row of a hundred with another label is neither a proof that a change only rounds nor one that it harms. Whoever
    accepts int8's loss accepts the same of bf16; a proven breach of its own limits still ends it.
    """
    own = judged(safety, limits)
    if own.verdict != "inconclusive" or ORDER.index(most) <= ORDER.index(safety):
        return own
    allowed = judged(most, ROW_OF[most])
    if allowed.verdict != "pass":
        return own
    why = f"within the limits of {most}, which --max-loss allows; by its own limits ({safety}) undecided: {own.why}"
    return msgspec.structs.replace(allowed, why=why)


def open_gate(context: Context, original: Variant, rows: Sequence[Row]) -> Gate:
    """Score the model as loaded; candidates are held against that."""
    context.progress.stage("reference outputs of the model as loaded")
    if not generates(original.workload.task):
        return EncoderGate(context, original, rows)
    loaded = original.loaded
    return CausalGate(context, original, loaded.model.max_context if loaded else None)
