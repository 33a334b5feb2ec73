"""Fixes that one process can turn over and back: probes of whole passes both ways, and what they predict. Pure.

Method: Predictions (docs/method.md).
"""

from __future__ import annotations

from typing import Literal

from ftprof.advisors.predict import ABLATION_ERROR, Ratios, paired, samples_of, with_end_to_end
from ftprof.advisors.rule import PredictedRatio, Prediction
from ftprof.advisors.shapes import Step, steps
from ftprof.profiler.probe_states import AS_LOADED
from ftprof.profiler.record import ProbeCase, RunRecord

RULE = "passes"
"""Cases are shared by all rules: the model as loaded is timed once, in turns with every state that is asked about."""
TOKENS = 4
"""Decode steps of one run; they are alike."""


def _case(step: Step, state: str) -> ProbeCase:
    """The pass that tells a step's time; prefill and decode share a run."""
    if step.phase == "forward":
        return ProbeCase(rule=RULE, kind="forward", shape=(step.rows, step.query), variant=state)
    kind: Literal["prefill", "decode"] = "prefill" if step.phase == "prefill" else "decode"
    return ProbeCase(rule=RULE, kind=kind, shape=(step.rows, step.prompt, TOKENS), variant=state)


def toggle_probes(record: RunRecord, state: str) -> tuple[ProbeCase, ...]:
    """Every step of the workload as loaded and in another state of the model."""
    return tuple(dict.fromkeys(_case(step, way) for step in steps(record) for way in (AS_LOADED, state)))


def _ratio(record: RunRecord, step: Step, state: str) -> PredictedRatio | None:
    before, after = (samples_of(record, _case(step, way)) for way in (AS_LOADED, state))
    return paired(before, after, ABLATION_ERROR) if before and after else None


def toggle_prediction(record: RunRecord, state: str) -> Prediction:
    """What another state of the model brings, step by step and end to end."""
    ratios: Ratios = {}
    for step in steps(record):
        if ratio := _ratio(record, step, state):
            ratios.setdefault(step.scenario, {})[step.phase] = ratio
    basis = "whole passes both ways, in turns in one process"
    return Prediction(ratios=with_end_to_end(record, ratios), basis=basis)
