"""The adapter computes in another precision than the base it sits on.

## What it detects
An attached adapter whose loaded dtype is not the base's, while PEFT's upcasting is on: a bf16 base with LoRA
matrices in fp32, whatever dtype the adapter's file has.

## Why it is slow
Every wrapped layer casts its input to fp32, multiplies in fp32, adds in fp32 and casts the sum back. That is two
more operations a layer, twice the bytes in the adapter's products, and no use of fast bf16 units.

## Fix
Load the adapter with `autocast_adapter_dtype=False` and give it the base's dtype. Upcasting exists for training, where
small updates would be lost; at inference the difference is rounding.

## When it backfires
- Training: keep fp32 there.
- A CPU without bf16 units can be faster on small fp32 products; a probe of the adapter's own shapes decides.
- Merging removes the adapter altogether and with it this cost: this is the fix where merging is out of the question.

## Sources
- PEFT, `autocast_adapter_dtype` of `PeftModel.from_pretrained` (huggingface.co/docs/peft).
- huggingface/peft#2421: the maintainers on its run-time cost; huggingface/peft#1706: why it is the default.
"""

from __future__ import annotations

import msgspec

from ftprof.advisors.predict import lora_share, stake
from ftprof.advisors.rule import ALL_TASKS, Evidence, Finding, Prediction, Rule
from ftprof.advisors.toggles import toggle_prediction, toggle_probes
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.record import ProbeCase, RunRecord

NAME = "fp32-adapter"
HALF = ("bfloat16", "float16")


def detect(record: RunRecord, diagnosis: Diagnosis) -> Finding | None:
    workload, model, adapter = record.workload, record.model, record.adapter
    if workload is None or model is None or adapter is None or adapter.loaded_dtype == model.dtype:
        return None
    if (
        not adapter.modules
        or not workload.call.adapter_autocast
        or model.dtype not in HALF
        or adapter.loaded_dtype == "unknown"
    ):
        return None
    share = lora_share(diagnosis)
    most = share.high if share else 1.0  # the casts are part of the adapter's time
    scenario, phase, seconds = stake(record, {"prefill": most, "decode": most, "forward": most})
    return Finding(
        summary=f"the adapter computes in {adapter.loaded_dtype} on a {model.dtype} base: {adapter.modules} layers cast",
        scenario=scenario,
        phase=phase,
        at_stake_s=seconds,
        evidence=(
            Evidence(name="adapter in memory", value=adapter.loaded_dtype, condition=f"not {model.dtype}"),
            Evidence(name="adapter on disk", value=adapter.file_dtype),
        ),
        where=adapter.targets,
    )


def _state(record: RunRecord) -> str:
    assert record.model
    return f"adapter:{record.model.dtype}"


def probes(record: RunRecord, finding: Finding) -> tuple[ProbeCase, ...]:
    return toggle_probes(record, _state(record))


def predict(record: RunRecord, finding: Finding) -> Prediction:
    return toggle_prediction(record, _state(record))


RULE = Rule(
    name=NAME,
    title="Load the adapter in the base's precision",
    safety="rounding",
    tasks=ALL_TASKS,
    needs=("workload", "model", "adapter"),
    detect=detect,
    probes=probes,
    predict=predict,
    rewrite=lambda call: msgspec.structs.replace(call, adapter_autocast=False),
    conflicts=("unmerged-adapter",),  # a merged adapter has no dtype of its own
    steps="model = PeftModel.from_pretrained(base, adapter_directory, autocast_adapter_dtype=False)\n"
    "model = model.to(base.dtype)",
)
