"""A graph takes one batch or sequence length only, and every request is filled up to it.

## What it detects
An ONNX graph whose inputs have numbers for the batch or the sequence where symbols should be, when at least 20 % of
the tokens that it computes exist only to fill that shape.

## Why it is slow
The whole shape is computed whatever the text: 17-token tickets in a graph fixed to 256 took 9 to 17 times as long as
padded to the longest, on a 6-layer encoder. A fixed batch of one streams all weights for every row.

## Fix
Dynamic axes. ftprof rewrites the baked-in sizes, shapes and masks, runs the old and the new graph on rows of several
lengths and counts, and keeps the new one only if they agree. Else export again (see the steps).

## When it backfires
- Engines that plan for one shape (TensorRT, CUDA graphs, OpenVINO) lose speed with symbols: use a few fixed lengths.
- A graph fixed to 128 positions knows no more: longer rows are cut as before.

## Sources
- microsoft/onnxruntime#9867: inputs fixed at export; huggingface/sentence-transformers#454: padding to the longest.
- pytorch/pytorch#149065, facebookresearch/detr#556: axes that look dynamic and are not, hence the check.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ftprof.advisors.predict import KERNEL_ERROR, Ratios, from_log, stake, typical_s, with_end_to_end
from ftprof.advisors.rule import Evidence, Finding, Prediction, Rule
from ftprof.advisors.shapes import Batches, batches_of, main_phase, tokens
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.record import RunRecord

if TYPE_CHECKING:
    from ftprof.profiler.engine import Engine

FIRES = 0.20  # of the computed tokens, as for padded batches: less could not be told from noise
SLOPE_ERROR = 0.10  # time went with tokens^0.93 to ^1.18 at eleven-fold padding
LARGEST_STREAM = 0.5  # of the measured time; no more where padding dominates


def _plans(record: RunRecord) -> dict[str, tuple[Batches, Batches]]:
    """(rows, length) of every run of each scenario as the graph forces them, and as the rows would need."""
    work, fixed = record.workload, record.model.fixed_shape if record.model else None
    if work is None or fixed is None:
        return {}
    then = {scenario.name: sum(batches_of(work, scenario), ()) for scenario in work.scenarios}
    now = {name: sum((_forced(*run, *fixed) for run in runs), ()) for name, runs in then.items()}
    return {name: (now[name], then[name]) for name in then if tokens(now[name]) > tokens(then[name])}


def _forced(rows: int, length: int, batch: int | None, longest: int | None) -> Batches:
    return ((batch or rows, longest or length),) * math.ceil(rows / (batch or rows))


def detect(record: RunRecord, diagnosis: Diagnosis) -> Finding | None:
    waste = {name: 1 - tokens(then) / tokens(now) for name, (now, then) in _plans(record).items()}
    if max(waste.values(), default=0.0) < FIRES:
        return None
    fixed = record.model.fixed_shape if record.model else None
    sizes = " and ".join(f"{name} {size}" for name, size in zip(("batch", "length"), fixed or (), strict=False) if size)
    scenario, phase, seconds = stake(record, {"forward": waste.get(main_phase(record)[0], 0.0)})
    seen = f">= {FIRES:.0%} of the tokens computed in one scenario"
    copies = {op.name for trace in record.ops or () for op in trace.ops if op.name.startswith("Memcpy")}
    return Finding(
        summary=f"the graph is fixed to {sizes}: {max(waste.values()):.0%} of what it computes is filling",
        scenario=scenario,
        phase=phase,
        at_stake_s=seconds,
        evidence=tuple(Evidence(name=f"filling, {name}", value=share, condition=seen) for name, share in waste.items()),
        where=tuple(sorted(copies)),
    )


def _stream_s(record: RunRecord) -> float:
    """Seconds to stream the linear layers' weights once; 0 where the machine was not measured."""
    rates = [entry.bytes_per_s for entry in record.machine.bandwidth] if record.machine else []
    weights = sum(k * n * count for k, n, count in record.model.linears) if record.model else 0
    size = {"int8": 1, "float16": 2, "bfloat16": 2}.get(record.model.dtype if record.model else "", 4)
    return size * weights / max(rates) if rates else 0.0


def predict(record: RunRecord, finding: Finding) -> Prediction:
    ratios: Ratios = {}
    for name, (now, then) in _plans(record).items():
        whole = typical_s(record, name, "forward")
        if whole and record.workload:
            runs = len(now) / len(record.workload.scenario(name).units)
            stream = min(_stream_s(record) * runs, LARGEST_STREAM * whole)
            left = stream * len(then) / len(now) + (whole - stream) * tokens(then) / tokens(now)
            error = math.hypot(KERNEL_ERROR, SLOPE_ERROR * math.log(whole / left))
            ratios[name] = {"forward": from_log(math.log(whole / left), error)}
    return Prediction(ratios=with_end_to_end(record, ratios), basis="tokens computed, and weights streamed a run")


def apply(engine: Engine) -> Engine:
    from ftprof.profiler.onnx_shapes import with_dynamic_axes
    from ftprof.profiler.ort_engine import OrtEngine

    assert isinstance(engine, OrtEngine)  # see `engines` below
    return with_dynamic_axes(engine)


RULE = Rule(
    name="fixed-shape-export",
    title="Export with dynamic axes",
    safety="exact",
    tasks=frozenset({"sequence-classification", "embedding"}),
    needs=("model", "workload"),
    engines=frozenset({"ort"}),
    detect=detect,
    predict=predict,
    apply=apply,
    steps="from transformers.exporters import OnnxConfig, OnnxExporter\n"
    "inputs = dict(tokenizer(['two rows', 'of different length'], padding=True, return_tensors='pt'))\n"
    "axes = {0: torch.export.Dim('batch', min=1), 1: torch.export.Dim('sequence', min=2, max=512)}\n"
    "config = OnnxConfig(dynamic_shapes=dict.fromkeys(inputs, axes))\n"
    "OnnxExporter().export(model.eval(), inputs, config=config).save_pretrained('exported')",
)
