"""Fixes that one process can turn over and back: probes of whole passes both ways, and what they predict. Pure."""

from __future__ import annotations

from ftprof.advisors.predict import ABLATION_ERROR, Ratios, paired, samples_of, with_end_to_end
from ftprof.advisors.rule import PredictedRatio, Prediction
from ftprof.advisors.shapes import Step, steps
from ftprof.profiler.record import ProbeCase, RunRecord

TOKENS = 4
"""Decode steps of one run; they are alike."""


def _cases(step: Step, rule: str, state: str) -> tuple[ProbeCase, ...]:
    """The passes that tell a step's time: one, or for a decode step the first token alone and some more."""
    if step.phase == "forward":
        return (ProbeCase(rule=rule, kind="forward", shape=(step.rows, step.query), variant=state),)
    # A decode step follows the prompt; what it sees of it is in its keys.
    length = step.query if step.phase == "prefill" else step.prompt
    first = ProbeCase(rule=rule, kind="generate", shape=(step.rows, length, 1), variant=state)
    if step.phase == "prefill":
        return (first,)
    return first, ProbeCase(rule=rule, kind="generate", shape=(step.rows, length, 1 + TOKENS), variant=state)


def toggle_probes(record: RunRecord, rule: str, old: str, new: str) -> tuple[ProbeCase, ...]:
    """Every step of the workload in both states."""
    return tuple(
        dict.fromkeys(case for step in steps(record) for way in (old, new) for case in _cases(step, rule, way))
    )


def _seconds(record: RunRecord, step: Step, rule: str, state: str) -> list[float]:
    """Seconds of one occurrence, round by round; empty where it was not probed."""
    samples = [samples_of(record, case) for case in _cases(step, rule, state)]
    if not all(samples):
        return []
    if len(samples) == 1:
        return list(samples[0])
    return [(more - first) / TOKENS for first, more in zip(*samples, strict=False)]


def _ratio(record: RunRecord, step: Step, rule: str, old: str, new: str) -> PredictedRatio | None:
    before, after = (_seconds(record, step, rule, state) for state in (old, new))
    pairs = [(a, b) for a, b in zip(before, after, strict=False) if a > 0 and b > 0]
    if not pairs:
        return None
    return paired([a for a, _ in pairs], [b for _, b in pairs], ABLATION_ERROR)


def toggle_prediction(record: RunRecord, rule: str, old: str, new: str) -> Prediction:
    """The ratio of both states, step by step and end to end."""
    ratios: Ratios = {}
    for step in steps(record):
        if ratio := _ratio(record, step, rule, old, new):
            ratios.setdefault(step.scenario, {})[step.phase] = ratio
    basis = "whole passes both ways, in turns in one process"
    return Prediction(ratios=with_end_to_end(record, ratios), basis=basis)
