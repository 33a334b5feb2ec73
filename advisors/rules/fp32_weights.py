"""The weights are in fp32 where this machine runs the model faster in bf16.

## What it detects
A model loaded in fp32. Whether bf16 helps is decided by timing whole passes
both ways at the workload's own lengths, so the rule is silent where bf16 does not pay end to end.

## Why it is slow
Fp32 weights are twice the bytes that decode must stream per token, and fp32 products leave the matrix units of recent
CPUs (AMX, AVX-512 BF16) and GPUs (tensor cores) idle.

## Fix
Load with `dtype=torch.bfloat16`. bf16 keeps the range of fp32 and drops mantissa bits: other rounding, checked by the
quality gate.

## When it backfires
- A processor without bf16 units emulates them: BERT on a Xeon 4114 went from 477 to 924 ms.
- Prefill and decode can disagree: on a CPU with AMX, prefill of a 135M model halved (156 to 71 ms) while each new
  token took longer (40.8 to 50.4 ms), so the mix of prompt and answer decides.
- fp16 is no substitute on CPUs: it is emulated on most, and overflows.
- An attached adapter stays in fp32 (PEFT upcasts it) and adds casts: merge first.

## Sources
- intel/intel-extension-for-pytorch#178; pytorch/pytorch#146508: bf16 on processors without the instructions.
- huggingface/transformers#34692: fp16 on CPU about 10x slower.
- vllm-project/vllm#4243, huggingface/peft#890: fine-tunes saved in fp32 by accident.
"""

from __future__ import annotations

import msgspec

from ftprof.advisors.predict import stake, traced_share
from ftprof.advisors.rule import ALL_TASKS, Evidence, Finding, Prediction, Rule
from ftprof.advisors.shapes import main_phase, steps
from ftprof.advisors.toggles import toggle_prediction, toggle_probes
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.record import ProbeCase, RunRecord

NAME = "fp32-weights"
PROBED = "weights:bfloat16"


def detect(record: RunRecord, diagnosis: Diagnosis) -> Finding | None:
    model = record.model
    if model is None or model.dtype != "float32":
        return None
    here = main_phase(record)[0]
    shares = {
        step.phase: traced_share(record, here, step.phase, "matmul") or 1.0
        for step in steps(record)
        if step.scenario == here
    }
    scenario, phase, seconds = stake(record, shares)
    return Finding(
        summary=f"{model.weight_bytes / 1e6:.0f} MB of weights are in fp32",
        scenario=scenario,
        phase=phase,
        at_stake_s=seconds,
        evidence=(Evidence(name="dtype", value=model.dtype, condition="whole passes probed in bf16"),),
    )


def probes(record: RunRecord, finding: Finding) -> tuple[ProbeCase, ...]:
    return toggle_probes(record, PROBED)


def predict(record: RunRecord, finding: Finding) -> Prediction:
    return toggle_prediction(record, PROBED)


RULE = Rule(
    name=NAME,
    title="Load the weights in bf16",
    safety="rounding",
    tasks=ALL_TASKS,
    needs=("workload", "model"),
    detect=detect,
    probes=probes,
    predict=predict,
    rewrite=lambda call: msgspec.structs.replace(call, dtype="bfloat16"),
    steps="model = AutoModel....from_pretrained(directory, dtype=torch.bfloat16)",
)
