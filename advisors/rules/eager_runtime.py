"""The model runs op by op under Python where a compiled graph would run it in one call.

## What it detects
A model on PyTorch in eager mode. Whether a graph runtime is faster is decided by building copies of two and six layers
for it and timing both, so the rule is silent where it does not pay end to end.

## Why it is slow
Every operation is dispatched from Python on its own. In decode on a small model these calls are a large part of a
token: a 135M decoder has more than a thousand module calls in each. A graph runtime plans memory once, fuses norms,
attention and cache updates into single kernels, and leaves Python once a token.

## Fix
Decoders are built for ONNX Runtime GenAI, encoders exported with dynamic axes for ONNX Runtime, both in fp32, so the
mathematics stays what it was. Thread counts are set: left alone, GenAI may take one thread on two cores.

## When it backfires
- A processor with fast bf16 units: PyTorch in bf16 can beat a graph in fp32 on long prompts and batches.
- Prefill: GenAI computes the head for every position of the prompt, and took 1.5x PyTorch's time for 256 tokens.
- Thread pools that spin after a run slow down whatever else the machine does.
- Architectures that the builder does not know, custom code, generation settings that it cannot honour.

## Sources
- onnxruntime.ai/docs/genai; huggingface.co/docs/transformers/exporters.
- microsoft/onnxruntime#2796, #12522; microsoft/Olive#787: graphs slower than PyTorch, mostly by threads or casts.
"""

from __future__ import annotations

from collections.abc import Mapping

from ftprof.advisors import runtimes
from ftprof.advisors.rule import CONVERTIBLE, Evidence, Finding, Rule
from ftprof.profiler.built import Recipe
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.record import RunRecord
from ftprof.profiler.workload import Options, Scalar


def detect(record: RunRecord, diagnosis: Diagnosis) -> Finding | None:
    assert record.model is not None
    evidence = (Evidence(name="runtime", value=record.model.engine, condition="shallow copies probed on a graph"),)
    return runtimes.found(record, f"{record.model.architecture} runs op by op", evidence)


def alternatives(record: RunRecord) -> tuple[Options, ...]:
    return ({"runtime": runtimes.runtime_of(record.workload.task if record.workload else "")},)


def convert(options: Mapping[str, Scalar]) -> Recipe:
    return Recipe(runtime=options["runtime"], precision="fp32")  # type: ignore[arg-type]


BY_RECIPE = runtimes.by_recipe(convert)

RULE = Rule(
    name="eager-runtime",
    title="Run the model as one graph in fp32",
    safety="rounding",
    tasks=CONVERTIBLE,
    needs=("workload", "model"),
    detect=detect,
    probes=BY_RECIPE.probes,
    predict=BY_RECIPE.predict,
    refuse=BY_RECIPE.refuse,
    convert=convert,
    alternatives=alternatives,
    replaces=runtimes.REPLACED,
    steps="ftprof diagnose MODEL --save DIR builds it; DIR/load.py has the lines that run it",
)
