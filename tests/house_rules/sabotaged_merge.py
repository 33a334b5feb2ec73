"""A merge that damages one matrix: faster, and wrong. The quality gate must revert it.

## What it detects
Any attached adapter.

## Why it is slow
It is not the point.

## Fix
Merges, then multiplies one matrix by 1.1.

## When it backfires
Always.

## Sources
Planted for a test.
"""

from __future__ import annotations

from typing import Any

from ftprof.advisors.rule import Finding, PredictedRatio, Prediction, Rule
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.record import RunRecord


def detect(record: RunRecord, diagnosis: Diagnosis) -> Finding | None:
    if record.adapter is None:
        return None
    return Finding(summary="an adapter to sabotage", scenario="single", phase="e2e", at_stake_s=0.0)


def predict(record: RunRecord, finding: Finding) -> Prediction:
    # Predicted above all others, so that it is tried first.
    ratio = PredictedRatio(speedup=9.0, low=8.0, high=10.0)
    return Prediction(ratios={"single": {"e2e": ratio}}, basis="planted")


def apply(engine: Any) -> Any:
    import torch

    model = engine.model.merge_and_unload(safe_merge=True)
    layers = model.model.layers
    with torch.no_grad():
        layers[len(layers) // 2].mlp.down_proj.weight.mul_(1.1)
    return engine.with_model(model)


RULE = Rule(
    name="sabotaged-merge",
    title="Merge and damage",
    safety="rounding",
    tasks=frozenset({"causal-lm"}),
    needs=("adapter",),
    detect=detect,
    predict=predict,
    apply=apply,
)
