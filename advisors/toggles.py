"""Fixes that one process can turn over and back: probes of whole passes both ways, and what they predict. Pure.

Method: Predictions (docs/method.md).
"""

from __future__ import annotations

from ftprof.advisors.predict import ABLATION_ERROR, Ratios, paired, samples_of, with_end_to_end
from ftprof.advisors.rule import PredictedRatio, Prediction
from ftprof.advisors.shapes import Step, steps
from ftprof.profiler.probe_states import AS_LOADED
from ftprof.profiler.record import ProbeCase, RunRecord

RULE = "passes"
"""Cases are shared by all rules: the model as loaded is timed once, in turns with every state that is asked about."""
TOKENS = 4
"""Decode steps of one run; they are alike."""


def _cases(step: Step, state: str) -> tuple[ProbeCase, ...]:
    """The passes that tell a step's time: one, or for a decode step the first token alone and some more."""
    if step.phase == "forward":
        return (ProbeCase(rule=RULE, kind="forward", shape=(step.rows, step.query), variant=state),)
    # A decode step follows the prompt; what it sees of it is in its keys.
    length = step.query if step.phase == "prefill" else step.prompt
    first = ProbeCase(rule=RULE, kind="generate", shape=(step.rows, length, 1), variant=state)
    if step.phase == "prefill":
        return (first,)
    return first, ProbeCase(rule=RULE, kind="generate", shape=(step.rows, length, 1 + TOKENS), variant=state)


def toggle_probes(record: RunRecord, state: str) -> tuple[ProbeCase, ...]:
    """Every step of the workload as loaded and in another state of the model."""
    ways = (AS_LOADED, state)
    return tuple(dict.fromkeys(case for step in steps(record) for way in ways for case in _cases(step, way)))


def _seconds(record: RunRecord, step: Step, state: str) -> list[float]:
    """Seconds of one occurrence, round by round; empty where it was not probed."""
    samples = [samples_of(record, case) for case in _cases(step, state)]
    if not all(samples):
        return []
    if len(samples) == 1:
        return list(samples[0])
    return [(more - first) / TOKENS for first, more in zip(*samples, strict=False)]


def _ratio(record: RunRecord, step: Step, state: str) -> PredictedRatio | None:
    before, after = (_seconds(record, step, way) for way in (AS_LOADED, state))
    pairs = [(a, b) for a, b in zip(before, after, strict=False) if a > 0 and b > 0]
    if not pairs:
        return None
    return paired([a for a, _ in pairs], [b for _, b in pairs], ABLATION_ERROR)


def toggle_prediction(record: RunRecord, state: str) -> Prediction:
    """What another state of the model brings, step by step and end to end."""
    ratios: Ratios = {}
    for step in steps(record):
        if ratio := _ratio(record, step, state):
            ratios.setdefault(step.scenario, {})[step.phase] = ratio
    basis = "whole passes both ways, in turns in one process"
    return Prediction(ratios=with_end_to_end(record, ratios), basis=basis)
