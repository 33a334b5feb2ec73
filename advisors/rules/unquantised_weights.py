"""The weights are in floating point where this machine runs the model faster in 8 bit.

## What it detects
Weights in fp32, bf16 or fp16. Whether int8 is faster is decided by building copies of two and six layers with it and
timing both at the workload's own lengths, prefill and decode apart.

## Why it is slow
Decode streams every weight once a token, so bytes are time: 8 bit are a quarter of fp32. Encoders and prompts compute
more than they stream, and gain where the processor has 8-bit dot products.

## Fix
Decoders: 8-bit weights in ONNX Runtime GenAI. Encoders: an ONNX graph with dynamic axes, weights in 8 bit with a scale
per channel; activations are measured while it runs, or once beforehand on rows of the data (static).

## When it backfires
- Prefill: on a 135M decoder int8 decoded 3.4x faster than PyTorch in fp32 and took 1.7x the time for a prompt of 256
  tokens. The mix of prompt and answer decides, and a loss is reported as a trade.
- Without VNNI or AMX an int8 BERT gained 8 %, with it 59 %; without, sums can also saturate.
- bf16 on a processor with AMX beat int8 for MiniLM at 8 x 128 tokens (62 against 92 ms), and lost at 1 x 32.
- One scale for a whole matrix: KL 0.0049 instead of 0.0002 per channel.
- Accuracy level 1 of the 4-bit and 8-bit kernels made decode 20x slower.

## Sources
- onnxruntime.ai/docs/performance/model-optimizations/quantization; microsoft/onnxruntime#6695: 1.59x with VNNI, 1.08x
  without; #6004, #14642: saturation.
- Figures on SmolLM2-135M and MiniLM: 2 cores with AVX-512, VNNI and AMX.
"""

from __future__ import annotations

from collections.abc import Mapping

from ftprof.advisors import runtimes
from ftprof.advisors.rule import ALL_ENGINES, CONVERTIBLE, Evidence, Finding, Rule
from ftprof.profiler.built import Recipe
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.record import RunRecord
from ftprof.profiler.workload import Options, Scalar


def detect(record: RunRecord, diagnosis: Diagnosis) -> Finding | None:
    model = record.model
    if model is None or model.dtype not in ("float32", "bfloat16", "float16") or model.quantisation:
        return None
    evidence = (Evidence(name="dtype", value=model.dtype, condition="shallow copies probed in int8"),)
    return runtimes.found(record, f"{model.weight_bytes / 1e6:.0f} MB of weights are in {model.dtype}", evidence)


def alternatives(record: RunRecord) -> tuple[Options, ...]:
    if record.workload is None or record.workload.task == "causal-lm":
        return ({"runtime": "genai"},)
    return ({"runtime": "ort", "quantisation": "dynamic"}, {"runtime": "ort", "quantisation": "static"})


def convert(options: Mapping[str, Scalar]) -> Recipe:
    kept = {name: value for name, value in options.items() if name != "runtime"}
    return Recipe(runtime=options["runtime"], precision="int8", options=kept)  # type: ignore[arg-type]


BY_RECIPE = runtimes.by_recipe(convert)

RULE = Rule(
    name="unquantised-weights",
    title="Quantise the weights to 8 bit",
    safety="int8",
    tasks=CONVERTIBLE,
    needs=("workload", "model"),
    detect=detect,
    probes=BY_RECIPE.probes,
    predict=BY_RECIPE.predict,
    refuse=BY_RECIPE.refuse,
    convert=convert,
    alternatives=alternatives,
    engines=ALL_ENGINES,
    replaces=runtimes.REPLACED,
    steps="ftprof diagnose MODEL --save DIR builds it; DIR/load.py has the lines that run it",
)
