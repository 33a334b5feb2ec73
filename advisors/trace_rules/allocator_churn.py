"""Device memory is requested from the driver, or given back to it, in every step.

## What it detects
At least one allocating or freeing driver call a step in a window of two steps or more, in which the device waits 2 % of
the time or more. Calls of a first step are warm-up and do not count, so a trace without repeated steps is not judged.

## Why it is slow
PyTorch keeps freed memory for reuse because the driver's own calls take from tens of microseconds to milliseconds, and
freeing waits for the device to be idle. Memory that is nearly full, ever new sizes, or `torch.cuda.empty_cache()` in a
loop defeat the reuse.

## Fix
Take `empty_cache()` and `gc.collect()` out of the loop; reserve the key-value cache once (static cache); pad to a few
sizes; set `PYTORCH_ALLOC_CONF=expandable_segments:True` against fragmentation; lower the batch where memory is full.

## When it backfires
- Without `empty_cache()` another process on the same device gets less memory.
- A static cache takes its full size from the first token on.
- A smaller batch costs throughput where the device was not full.

## Sources
- huggingface/peft PR#2894: 250 steps in 108 s, 65 s without gc.collect, 45 s without empty_cache as well.
- PyTorch, CUDA memory management (docs.pytorch.org/docs/stable/notes/cuda.html).
"""

from __future__ import annotations

from ftprof.advisors.trace_evidence import host_calls, percent, share_of_window
from ftprof.advisors.trace_rule import TraceFinding, TraceRule
from ftprof.profiler.traces.model import FileAnalysis
from ftprof.profiler.traces.tables import HostCall

FIRES = 0.02
LEAST_STEPS = 2


def detect(file: FileAnalysis) -> TraceFinding | None:
    split, steps = file.window.partition, file.window.steps
    if split is None or steps < LEAST_STEPS:
        return None
    calls = sum(call.calls for call in file.calls or () if _allocates(call))
    share, rows = share_of_window(file, split.allocator_s), host_calls(file, _allocates)
    if share < FIRES or calls < steps or not rows:
        return None
    return TraceFinding(
        rule="allocator-churn",
        severity=share,
        summary=f"{calls / steps:.3g} memory calls to the driver a step hold the device up for {percent(share)} of it",
        evidence=rows,
        advice="take torch.cuda.empty_cache() and gc.collect() out of the loop, reserve the cache once, and keep "
        "memory from being full",
    )


def _allocates(call: HostCall) -> bool:
    return call.kind == "allocator"


RULE = TraceRule(name="allocator-churn", title="Reuse device memory between steps", detect=detect)
