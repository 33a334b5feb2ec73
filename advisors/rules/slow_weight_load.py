"""Reading the weights dominates a cold start.

## What it detects
Building the model, attaching the adapter and the first touch of the mapped files together take most of a cold load,
and either 10 s or more, or 5 s and more at less than a quarter of the disk's own rate.

## Why it is slow
safetensors files are mapped: pages are read when they are first touched, in small pieces. On network and virtual
disks each piece is a round trip. A file stored in fp32 but loaded in bf16 is twice the bytes, and is converted on
one core; an adapter makes a second pass over the modules.

## Fix
Only advice: store the weights in the dtype that is run, merged, as safetensors, on a local disk; read the file once in
order before loading (`cat model.safetensors > /dev/null`) on slow disks; load once per process and keep it.

## When it backfires
- Reading ahead needs as much free memory as the file is large; on a fast local disk mapping is already best.
- Where imports dominate the start, smaller weights change nothing.

## Sources
- safetensors/safetensors#562, vllm-project/vllm PR #24469, sgl-project/sglang PR #7469: a 32B load from 4:18 to 0:32.
- huggingface/transformers#21862: converting the dtype while loading.
"""

from __future__ import annotations

from ftprof.advisors.rule import ALL_TASKS, Evidence, Finding, Prediction, Rule
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.record import LoadSplit, RunRecord

LONG_S = 10.0  # a start that people complain about
NOTICED_S = 5.0  # below, an odd rate is not worth a line: imports alone take as long
MOST = 0.5  # of the cold load
SLOW = 0.25  # of the disk's own rate
STORED = 1.5  # file bytes over bytes in memory: more means that it is stored wider than it is run


def _weights_s(load: LoadSplit) -> float:
    return load.build_s + load.adapter_s + load.first_use_s


def _rate(load: LoadSplit) -> float:
    return load.file_bytes / _weights_s(load)


def _is_slow(load: LoadSplit) -> bool:
    weights = _weights_s(load)
    if weights < MOST * (load.import_s + weights) or weights < NOTICED_S:
        return False
    crawls = load.disk_bytes_per_s is not None and _rate(load) < SLOW * load.disk_bytes_per_s
    return weights >= LONG_S or crawls


def detect(record: RunRecord, diagnosis: Diagnosis) -> Finding | None:
    load, model = record.load, record.model
    if load is None or not _is_slow(load):
        return None
    parts = {"import": load.import_s, "build": load.build_s, "adapter": load.adapter_s, "first use": load.first_use_s}
    split = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in parts.items() if seconds)
    wide = model is not None and load.file_bytes > STORED * model.weight_bytes
    hint = "; the file is stored wider than it is run" if wide else ""
    state = "cold" if load.evicted else "with the file in the page cache"
    disk = load.disk_bytes_per_s
    return Finding(
        summary=f"{load.file_bytes / 1e6:.0f} MB take {_weights_s(load):.1f} s to load, {state}: {split}{hint}",
        scenario="single",
        phase="load",
        at_stake_s=_weights_s(load),
        evidence=(
            Evidence(name="weights", value=_weights_s(load), unit="s", condition=f">= {MOST:.0%} of the load"),
            Evidence(name="rate reached", value=_rate(load), unit="B/s"),
            *((Evidence(name="rate of the disk", value=disk, unit="B/s"),) if disk else ()),
        ),
    )


def predict(record: RunRecord, finding: Finding) -> Prediction:
    """No ratio: nothing is applied, so a figure could never be held against a measurement."""
    return Prediction(ratios={}, basis="advice only: the split is measured, the gain is not predicted")


RULE = Rule(
    name="slow-weight-load",
    title="Store the weights as they are run, and read them in order",
    safety="exact",
    tasks=ALL_TASKS,
    needs=("load",),
    detect=detect,
    predict=predict,
    steps="model.to(torch.bfloat16).save_pretrained(directory)  # merged, in the dtype that is run\n"
    "cat directory/model*.safetensors > /dev/null  # before loading, on network or virtual disks",
)
