"""The head of a 16-bit decoder is frozen, and PyTorch copies its whole matrix for every prompt.

## What it detects
A decoder in bf16 or fp16 on a processor whose output head does not require a gradient. PEFT freezes the base when it
attaches an adapter, and `model.requires_grad_(False)` does the same. Whether it costs anything here is measured by whole
passes both ways.

## Why it is slow
`generate` hands the head the last position of each prompt, a slice that is not contiguous. PyTorch turns such a product
into one matrix product only where the weight could take a gradient; else it becomes a batched one, and in 16 bit that
first copies the matrix, once for each row: 115 ms instead of 8 for one prompt of a 576 x 49152 head where this was found
(`python -m benchmarks.frozen_head`).

## Fix
Let the head's weight take a gradient, after the adapter was attached; under `inference_mode` or `no_grad` none is ever
computed. Merging the adapter and loading the merged directory does the same.

## When it backfires
- Training code that relies on a frozen head would update it: set it for inference only.
- The other product rounds in another order.

## Sources
- ATen, `should_fold` in LinearAlgebra.cpp (pytorch/pytorch).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ftprof.advisors.adapter_costs import THAWED
from ftprof.advisors.predict import stake
from ftprof.advisors.rule import Evidence, Finding, Prediction, Rule
from ftprof.advisors.toggles import toggle_prediction, toggle_probes
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.lora import copies_head
from ftprof.profiler.record import ProbeCase, RunRecord

if TYPE_CHECKING:
    from ftprof.profiler.engine import Engine

NAME = "frozen-head"
LINE = "model.get_output_embeddings().weight.requires_grad_(True)"


def detect(record: RunRecord, diagnosis: Diagnosis) -> Finding | None:
    model = record.model
    if model is None or not copies_head(record):
        return None
    scenario, phase, seconds = stake(record, {"prefill": 1.0})
    return Finding(
        summary=f"the head is frozen in {model.dtype}: each prompt copies its matrix",
        scenario=scenario,
        phase=phase,
        at_stake_s=seconds,
        evidence=(Evidence(name="head requires a gradient", value="no", condition=f"in {model.dtype} on a processor"),),
    )


def probes(record: RunRecord, finding: Finding) -> tuple[ProbeCase, ...]:
    return toggle_probes(record, THAWED)


def apply(engine: Engine) -> Engine:
    from ftprof.profiler.torch_engine import TorchEngine

    assert isinstance(engine, TorchEngine)
    engine.thaw_head()
    return engine


def predict(record: RunRecord, finding: Finding) -> Prediction:
    return toggle_prediction(record, THAWED)


RULE = Rule(
    name=NAME,
    title="Let the head's weight take a gradient, so that it is not copied",
    safety="rounding",
    tasks=frozenset({"causal-lm"}),
    needs=("workload", "model"),
    detect=detect,
    probes=probes,
    predict=predict,
    apply=apply,
    conflicts=("unmerged-adapter",),  # a merged model is loaded without a frozen head
    steps=f"{LINE}  # after the adapter was attached",
    load_line=LINE,
)
