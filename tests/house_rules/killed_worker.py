"""A fix whose worker is killed by the system while it is applied; one trial is lost and nothing else.

## What it detects
Anything.

## Why it is slow
It is not the point.

## Fix
None: the worker dies.

## When it backfires
Always.

## Sources
Planted for a test.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from ftprof.advisors.rule import Finding, PredictedRatio, Prediction, Rule
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.record import RunRecord


def detect(record: RunRecord, diagnosis: Diagnosis) -> Finding | None:
    if record.adapter is None:
        return None
    return Finding(summary="a worker to kill", scenario="single", phase="e2e", at_stake_s=0.0)


def predict(record: RunRecord, finding: Finding) -> Prediction:
    # Predicted above all others, so that it is tried first.
    ratio = PredictedRatio(speedup=8.0, low=7.0, high=9.0)
    return Prediction(ratios={"single": {"e2e": ratio}}, basis="planted")


def apply(engine: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


RULE = Rule(
    name="killed-worker",
    title="Die",
    safety="rounding",
    tasks=frozenset({"causal-lm"}),
    needs=("adapter",),
    detect=detect,
    predict=predict,
    apply=apply,
)
