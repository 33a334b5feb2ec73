"""Generation recomputes the whole sequence for every new token.

## What it detects
A model whose `generate()` runs without its key-value cache, because the call or generation_config.json says
`use_cache: false`. The same line in config.json alone does nothing in transformers 5, and the rule is silent on it.

## Why it is slow
Without the cache each new token runs prompt and answer so far through every layer again: a decode step costs a
prefill, and the cost of an answer grows with the square of its length. Training code switches the cache off for
gradient checkpointing, and the setting is saved with the model.

## Fix
`use_cache: true` in generation_config.json, or `generate(..., use_cache=True)`. The mathematics is the same; other
matrix shapes round otherwise, hence the class.

## When it backfires
- The cache takes memory: 2 x layers x key-value heads x head size x bytes for each token of each row.
- A model whose own code handles the cache wrongly gives other answers with it; the quality gate would show that.
- Answers of one token gain nothing.

## Sources
- transformers, caching (huggingface.co/docs/transformers/cache_explanation).
- lm-sys/FastChat#1890 (about 2x) and chs20/RobustVLM#27 (5:20 to 3:31) after the flag was put back.
- huggingface/trl#1798 and #3891: how training leaves it behind.
"""

from __future__ import annotations

import math

import msgspec

from ftprof.advisors.predict import MODEL_ERROR, Z80, Ratios, centre, from_log, samples_of, stake, with_end_to_end
from ftprof.advisors.rule import Evidence, Finding, PredictedRatio, Prediction, Rule
from ftprof.advisors.shapes import Step, steps
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.record import ProbeCase, RunRecord

NAME = "disabled-kv-cache"
TOKENS = 4  # decode steps of a probe; without a cache each costs a prefill, so few must do


def detect(record: RunRecord, diagnosis: Diagnosis) -> Finding | None:
    model = record.model
    if model is None or model.use_cache is not False or model.use_cache_source not in ("generation_config", "call"):
        return None
    if record.workload is None or record.workload.new_tokens < 2:
        return None
    scenario, phase, seconds = stake(record, {"decode": 1.0})
    return Finding(
        summary=f"the key-value cache is off (by {model.use_cache_source}): every token pays for the whole sequence",
        scenario=scenario,
        phase=phase,
        at_stake_s=seconds,
        evidence=(Evidence(name="use_cache", value="false", condition=f"by {model.use_cache_source}"),),
    )


def _cases(step: Step) -> tuple[ProbeCase, ProbeCase]:
    """A decode step with the cache and without."""
    cached = ProbeCase(rule=NAME, kind="decode", shape=(step.rows, step.query, TOKENS), variant="cache")
    return cached, msgspec.structs.replace(cached, variant="no-cache")


def _prefills(record: RunRecord) -> tuple[Step, ...]:
    return tuple(step for step in steps(record) if step.phase == "prefill")


def probes(record: RunRecord, finding: Finding) -> tuple[ProbeCase, ...]:
    return tuple(case for step in _prefills(record) for case in _cases(step))


def _decode(record: RunRecord, step: Step, new_tokens: int) -> PredictedRatio | None:
    samples = [samples_of(record, case) for case in _cases(step)]
    if not all(samples):
        return None
    (step_s, sd_step), (redone_s, sd_redone) = (centre(values) for values in samples)
    # The probe stops after a few tokens. Over the real answer the recomputed sequence is longer, and its cost lies
    # between constant (host-bound) and proportional to that length: take the middle, and let the interval span both.
    before = 1 if record.workload and record.workload.task == "seq2seq-lm" else step.query  # its prompt is encoded once
    grown = math.log((before + new_tokens / 2) / (before + TOKENS / 2))
    noise = math.hypot(sd_step / step_s, sd_redone / redone_s)
    return from_log(math.log(redone_s / step_s) + grown / 2, math.hypot(noise, MODEL_ERROR, grown / 2 / Z80))


def predict(record: RunRecord, finding: Finding) -> Prediction:
    assert record.workload
    ratios: Ratios = {}
    for step in _prefills(record):
        if decode := _decode(record, step, record.workload.tokens(step.scenario)):
            ratios[step.scenario] = {"decode": decode}
    return Prediction(ratios=with_end_to_end(record, ratios), basis=f"generating {TOKENS} tokens with and without")


RULE = Rule(
    name=NAME,
    title="Turn the key-value cache on",
    safety="rounding",
    tasks=frozenset({"causal-lm", "seq2seq-lm"}),
    needs=("workload", "model"),
    detect=detect,
    probes=probes,
    predict=predict,
    rewrite=lambda call: msgspec.structs.replace(call, use_cache=True),
    steps="model.generation_config.use_cache = True\nmodel.generation_config.save_pretrained(directory)",
)
