"""Did the outputs of a classifier or an embedder stay the same, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ftprof.profiler.judge_answers import task_change
from ftprof.profiler.judge_bounds import TAIL, at_least, cluster_mean, fail_closed, shown, verdict_of
from ftprof.profiler.judge_limits import ROWS
from ftprof.profiler.quality import Bounded, QualityCheck, Safety

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating]
    Matrix = NDArray[np.float64]

MIN_ROWS = 16
"""Below this even perfect agreement leaves 17 % of rows open."""
NEIGHBOURS = 10
TINY = 1e-12
TIE = 1e-5
"""Cosines nearer than this are equal: float32 vectors of some hundred elements carry an error of about 1e-6."""


def judge_classifier(
    safety: Safety, base_probs: Floats, new_probs: Floats, labels: Sequence[int] | None = None
) -> QualityCheck:
    """Judges a classifier by how often its label stays the same; `*_probs` have shape (rows, classes).

    Passes where the share of equal labels keeps the limit, fails where it is proven below (Clopper-Pearson, one-sided
    95 %), undecided between. A proof that it is *above* would take 299 rows without one flip for 99 %, so a pass on
    fewer rows says what it leaves open. With `labels` (rows,), proven loss of accuracy is a veto.
    """
    base, new = np.asarray(base_probs, float), np.asarray(new_probs, float)
    if fault := _fault(base, new):
        return fail_closed(safety, fault)
    ours, theirs, rows = base.argmax(1), new.argmax(1), len(base)
    equal = int(np.count_nonzero(ours == theirs))
    agreement = _agreement(equal, rows, ROWS[safety].agreement)
    figures = {"label_agreement": agreement, "kl": shown(_mean(_divergence(base, new)))}
    change = None if labels is None else task_change(ours == np.asarray(labels), theirs == np.asarray(labels))
    broken = []
    if change:
        figures["accuracy_change"] = change.bounded()
        if change.harmed:
            broken.append(f"accuracy loss is proven: {change.lost} of {rows} lost, {change.gained} gained")
    verdict, why = verdict_of(figures, broken, _thin(rows))
    open_ = f"another label on up to {1 - agreement.low:.1%} of rows cannot be excluded (n = {rows})"
    return QualityCheck(
        verdict=verdict,
        safety=safety,
        figures=figures,
        documents=rows,
        flips=change.flips if change else rows - equal,
        flips_lost=change.lost if change else None,
        not_excluded=f"{change.not_excluded}; {open_}" if change else open_,
        why=_say_agreement(why, agreement) if verdict == "pass" else why,
    )


def judge_embedder(safety: Safety, base_vecs: Floats, new_vecs: Floats) -> QualityCheck:
    """Judges an embedder by the mean cosine of old and new vectors and the overlap of their nearest neighbours.

    `*_vecs` have shape (rows, width). The neighbours are the ten nearest other rows, or a third of the rows where
    there are fewer than 31, since ten of eleven would overlap whatever happened.
    """
    base, new = np.asarray(base_vecs, float), np.asarray(new_vecs, float)
    if fault := _fault(base, new) or _no_direction(base, new):
        return fail_closed(safety, fault)
    base, new = _unit(base), _unit(new)
    limits = ROWS[safety]
    cosine = at_least(_mean((base * new).sum(1)), limits.cosine)
    overlap = at_least(_mean(_overlap(base, new)), limits.overlap)
    figures = {"cosine": cosine, "neighbour_overlap": overlap}
    verdict, why = verdict_of(figures, (), _thin(len(base)))
    return QualityCheck(
        verdict=verdict,
        safety=safety,
        figures=figures,
        documents=len(base),
        not_excluded=(
            f"a mean cosine down to {cosine.low:.5f} and a neighbour overlap down to {overlap.low:.1%} "
            f"cannot be excluded (n = {len(base)})"
        ),
        why=why,
    )


def _fault(base: Matrix, new: Matrix) -> str:
    """Why two outputs cannot be compared, or an empty string."""
    if base.ndim != 2 or base.shape != new.shape:
        return f"the outputs have shapes {base.shape} and {new.shape}"
    for name, values in (("baseline", base), ("candidate", new)):
        if bad := int(np.count_nonzero(~np.isfinite(values).all(axis=1))):
            return f"the {name}'s output is not finite on {bad} of {len(values)} rows"
    return "" if len(base) else "no rows"


def _no_direction(base: Matrix, new: Matrix) -> str:
    zero = int(np.count_nonzero((np.linalg.norm(base, axis=1) == 0) | (np.linalg.norm(new, axis=1) == 0)))
    return f"{zero} vectors are zero and have no direction" if zero else ""


def _thin(rows: int) -> str:
    return "" if rows >= MIN_ROWS else f"{rows} rows are too few to judge (at least {MIN_ROWS}; give more --data)"


def _agreement(equal: int, rows: int, limit: float) -> Bounded:
    """Share of equal labels with Clopper-Pearson bounds, each one-sided 95 %."""
    from scipy.special import betaincinv

    low = float(betaincinv(equal, rows - equal + 1, TAIL)) if equal else 0.0
    high = float(betaincinv(equal + 1, rows - equal, 1 - TAIL)) if equal < rows else 1.0
    value = equal / rows
    passed = True if value >= limit else False if high < limit else None
    return Bounded(value=value, low=low, high=high, limit=limit, passed=passed)


def _say_agreement(why: str, agreement: Bounded) -> str:
    """A pass on few rows must not claim confidence that it has not."""
    if agreement.limit is None or agreement.low >= agreement.limit:
        return why
    return f"label agreement {agreement.value:.1%} keeps the limit {agreement.limit:.1%}, though too few rows prove it"


def _divergence(base: Matrix, new: Matrix) -> Matrix:
    """KL(base || new) in nats by row, shape (rows,)."""
    old, fresh = (np.clip(p, TINY, None) / np.clip(p, TINY, None).sum(1, keepdims=True) for p in (base, new))
    divergence: Matrix = (old * (np.log(old) - np.log(fresh))).sum(1)
    return divergence


def _mean(values: Matrix) -> tuple[float, float, float]:
    return cluster_mean(values, np.ones(len(values)))


def _unit(vectors: Matrix) -> Matrix:
    unit: Matrix = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def _overlap(base: Matrix, new: Matrix) -> Matrix:
    """By row, the share of its new nearest rows that were among the nearest before, shape (rows,); unit vectors in.

    A row as near as the last of the old neighbours counts as one: of two equal texts either may be named.
    """
    rows = len(base)
    count = min(NEIGHBOURS, (rows - 1) // 3)
    if count < 1:
        return np.ones(rows)
    before, after = base @ base.T, new @ new.T
    for closeness in (before, after):
        np.fill_diagonal(closeness, -np.inf)
    named = np.argpartition(-after, count - 1, axis=1)[:, :count]
    last = -np.partition(-before, count - 1, axis=1)[:, count - 1 : count]
    shared: Matrix = (np.take_along_axis(before, named, axis=1) >= last - TIE).mean(1)
    return shared
