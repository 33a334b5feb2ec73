"""The weights are in fp16 on a processor, where most emulate it.

## What it detects
A model loaded in fp16 on the CPU. Whether fp32 is faster is decided by timing whole passes both ways.

## Why it is slow
fp16 is made for GPUs. Processors without AVX-512 FP16 widen each value before they compute and round each result
again; few kernels exist, and many operations fall back to slow ones.

## Fix
Load in fp32: every fp16 number is one in fp32 as well, so nothing is lost on the way up. Where bf16 is faster still,
the rule about fp32 weights finds that next.

## When it backfires
- Memory: the weights take twice the bytes. Where they no longer fit, bf16 is the way, not fp32.
- A processor with AVX-512 FP16 may run fp16 as fast as bf16; the probes say so.
- Decode that is bound by streaming weights can be slower in fp32 where the fp16 kernels are good.

## Sources
- huggingface/transformers#34692, #41867: fp16 on a CPU 10 to 30 times slower than fp32.
- pytorch/pytorch#70492: a linear layer of 0.065 s took 8.3 s.
"""

from __future__ import annotations

import msgspec

from ftprof.advisors.predict import typical_s
from ftprof.advisors.rule import ALL_TASKS, Evidence, Finding, Prediction, Rule
from ftprof.advisors.shapes import main_phase
from ftprof.advisors.toggles import toggle_prediction, toggle_probes
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.record import ProbeCase, RunRecord

NAME = "fp16-on-cpu"
PROBED = "weights:float32"


def detect(record: RunRecord, diagnosis: Diagnosis) -> Finding | None:
    model, workload = record.model, record.workload
    if model is None or workload is None or model.dtype != "float16" or workload.device != "cpu":
        return None
    scenario, phase = main_phase(record)
    return Finding(
        summary=f"{model.weight_bytes / 1e6:.0f} MB of weights are in fp16 on a processor",
        scenario=scenario,
        phase=phase,
        at_stake_s=typical_s(record, scenario, phase) or 0.0,
        evidence=(Evidence(name="dtype", value=model.dtype, condition="whole passes probed in fp32"),),
    )


def probes(record: RunRecord, finding: Finding) -> tuple[ProbeCase, ...]:
    return toggle_probes(record, PROBED)


def predict(record: RunRecord, finding: Finding) -> Prediction:
    return toggle_prediction(record, PROBED)


RULE = Rule(
    name=NAME,
    title="Load the weights in fp32 instead of fp16",
    safety="rounding",
    tasks=ALL_TASKS,
    needs=("workload", "model"),
    detect=detect,
    probes=probes,
    predict=predict,
    rewrite=lambda call: msgspec.structs.replace(call, dtype="float32"),
    steps="model = AutoModel....from_pretrained(directory, dtype=torch.float32)",
)
