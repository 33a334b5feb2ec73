"""A LoRA adapter runs as operations of its own, as the trace shows.

## What it detects
Work of a LoRA adapter, told by kernel names, annotations, PEFT's layers or pairs of low-rank products, that takes 5 %
of the step or more: on the device where that is the limit, on the host where the device waits for launches. Training
steps are left alone: there the adapter must be apart.

## Why it is slow
Each wrapped layer adds two thin products, a scaling and a sum: several launches for little arithmetic. In decode the
number of launches is the cost, hardly the rank.

## Fix
`model.merge_and_unload()` once, in fp32, then cast back; or serve the merged directory.

## When it backfires
- Several adapters on one base are switched at run time: merging freezes one.
- On a quantised base the update is smaller than a step of the grid and is rounded away; merge on a 16-bit base.

## Sources
- PEFT's LoRA guide (huggingface.co/docs/peft); huggingface/peft#957; vllm-project/vllm#3316.
"""

from __future__ import annotations

from ftprof.advisors.trace_evidence import MOST_ROWS, is_training, percent, places, share_of_window, span
from ftprof.advisors.trace_rule import TraceEvidence, TraceFinding, TraceRule
from ftprof.profiler.traces.model import FileAnalysis
from ftprof.profiler.traces.tables import Lora, Place

FIRES = 0.05


def detect(file: FileAnalysis) -> TraceFinding | None:
    lora = file.lora
    if lora is None or is_training(file):
        return None
    on_host = _waits_for_host(file)
    share = share_of_window(file, lora.host_s if on_host else lora.device_s)
    if share < FIRES:
        return None
    ranks = f" of rank {', '.join(map(str, lora.ranks))}" if lora.ranks else ""
    return TraceFinding(
        rule="unmerged-adapter",
        severity=share,
        summary=f"a LoRA adapter{ranks} takes {percent(share)} of {span(file)} {_side(on_host)} "
        f"and {percent(lora.device_share)} of the device's work",
        evidence=(_row(file, lora, on_host), *places(file, _of_adapter))[:MOST_ROWS],
        advice="merge it if this is the only adapter you serve: model.merge_and_unload()",
    )


def _waits_for_host(file: FileAnalysis) -> bool:
    launches = file.device.launches if file.device else None
    return launches is not None and launches.bound == "launch" and bool(file.lora and file.lora.host_s)


def _side(on_host: bool) -> str:
    return "on the host, for which the device waits," if on_host else "on the device"


def _row(file: FileAnalysis, lora: Lora, on_host: bool) -> TraceEvidence:
    spent = lora.host_s if on_host else lora.device_s
    return TraceEvidence(
        what=f"LoRA operations, told by {lora.how}",
        where=f"{lora.kernels} kernels",
        calls=lora.calls or None,
        total_s=spent,
        share=share_of_window(file, spent),
    )


def _of_adapter(place: Place) -> bool:
    text = f"{place.outer} {place.module} {place.line}".lower()
    return place.kind == "lora" or "lora" in text


RULE = TraceRule(name="unmerged-adapter", title="Merge the LoRA adapter into the base weights", detect=detect)
