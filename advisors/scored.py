"""A trial's prediction held against what was then measured, and remembered for the rule's next one."""

from __future__ import annotations

import math

from ftprof.advisors.audit import Trial
from ftprof.advisors.track import LEAST, Outcome, remember
from ftprof.profiler.comparison import Ratio
from ftprof.profiler.paired_estimate import MIN_PAIRS
from ftprof.profiler.record import RunRecord


def fingerprint(record: RunRecord) -> str:
    """Of the machine that the record was taken on; empty where it was not measured."""
    return record.machine.fingerprint if record.machine else ""


def log_error(trial: Trial, objective: tuple[str, str], measured: Ratio | None) -> float | None:
    """ln(predicted / measured) on the objective; None where either is missing."""
    predicted = trial.predicted.get(*objective) if trial.predicted else None
    return math.log(predicted.speedup / measured.speedup) if predicted and measured else None


def remember_trial(trial: Trial, objective: tuple[str, str], machine: str) -> None:
    """What was predicted and then measured with enough pairs corrects the next prediction here."""
    predicted, measured = trial.predicted, trial.objective
    ratio = predicted.get(*objective) if predicted else None
    if predicted is None or ratio is None or measured is None or measured.pairs < MIN_PAIRS:
        return
    # What the rule itself said, before its track record corrected that: else a known bias would be unlearnt.
    bias = predicted.track.bias if predicted.track and predicted.track.n >= LEAST else 0.0
    remember(
        Outcome(
            rule=trial.key,
            machine=machine,
            raw=ratio.speedup * math.exp(bias),
            low=ratio.low,
            high=ratio.high,
            measured=measured.speedup,
        )
    )
