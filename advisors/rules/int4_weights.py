"""The decoder's weights could be in 4 bit, if its answers survive it.

## What it detects
A decoder that runs in 8 bit, where --max-loss allows int4: what 8 bit already damage, 4 bit damage more. Whether they
are faster is decided by building copies of two and six layers with them and timing both.

## Why it is slow
Decode streams every weight once a token. 4 bit are half the bytes of int8, and kernels for them unpack on the fly.

## Fix
A ladder, mild steps first, that ends where the quality gate sends one back: the layers that a measurement on the
user's own rows finds sensitive stay in 8 bit and so does the head; then k-quant scales, with 8 bit where llama.cpp's
recipe keeps more (ten times the time to build); then only the head is in 8 bit; then everything is in 4. Each step is
held against the model as loaded.

## When it backfires
- Quality: plain 4 bit cost a 135M fine-tune 6 of 60 answers although its top token agreed on 99.3 % of positions; so
  task answers are a gate of their own.
- A perplexity that falls is no gain: on prompt positions the damaged model was surer, and wrong.
- Prefill unpacks weights for many tokens: slower than int8 for long prompts.
- Large batches compute more than they stream, and gain nothing from smaller weights.

## Sources
- onnxruntime.ai/docs/genai; microsoft/onnxruntime pull request 24491: 4 bit 1.2 to 6 times faster than 8 bit for one row.
- arXiv 2407.09141: answers flip while accuracy stays flat.
"""

from __future__ import annotations

from collections.abc import Mapping

from ftprof.advisors import runtimes
from ftprof.advisors.rule import Evidence, Finding, Rule
from ftprof.profiler.built import Recipe
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.record import RunRecord
from ftprof.profiler.workload import Options, Scalar

LADDER: tuple[Options, ...] = (
    {"algorithm": "measured"},
    {"algorithm": "k-quant mixed"},
    {"algorithm": "8-bit head"},
    {"algorithm": "plain"},
)


def detect(record: RunRecord, diagnosis: Diagnosis) -> Finding | None:
    model = record.model
    if model is None or model.dtype != "int8":
        return None
    evidence = (Evidence(name="dtype", value=model.dtype, condition="shallow copies probed in int4"),)
    return runtimes.found(record, f"{model.weight_bytes / 1e6:.0f} MB of weights are in {model.dtype}", evidence)


def convert(options: Mapping[str, Scalar]) -> Recipe:
    return Recipe(runtime="genai", precision="int4", options=dict(options))


BY_RECIPE = runtimes.by_recipe(convert)

RULE = Rule(
    name="int4-weights",
    title="Quantise the weights to 4 bit",
    safety="int4",
    tasks=frozenset({"causal-lm"}),
    needs=("workload", "model"),
    detect=detect,
    probes=BY_RECIPE.probes,
    predict=BY_RECIPE.predict,
    refuse=BY_RECIPE.refuse,
    convert=convert,
    alternatives=lambda record: LADDER,
    ladder=True,
    engines=frozenset({"genai"}),
    replaces=runtimes.REPLACED,
    steps="ftprof diagnose MODEL --max-loss int4 --save DIR builds it; DIR/load.py has the lines that run it",
)
