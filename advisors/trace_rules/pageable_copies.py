"""Copies between host and device go through pageable memory.

## What it detects
Copies from or to pageable memory that take 2 % of the step or more, on the device or in the call that the device waits
for, beside no kernel.

## Why it is slow
The driver cannot let the device read pageable memory directly: it copies piece by piece into a pinned buffer of its
own first. That halves the rate or worse, and the call does not return before the data have left, so neither the host
nor the copy overlaps with anything.

## Fix
Pin what is copied often: `DataLoader(..., pin_memory=True)` and `tensor.to(device, non_blocking=True)`; for results,
copy into a pinned buffer once at the end.

## When it backfires
- Pinned memory is taken from the machine for good: too much of it starves everything else.
- Pinning a tensor that is copied only once costs more than the copy.
- `non_blocking=True` to the host is read too early unless the stream is synchronised first.

## Sources
- PyTorch, pin_memory and non_blocking tutorial (docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html).
- NVIDIA Nsight Systems, expert system rule on asynchronous copies with pageable memory (docs.nvidia.com/nsight-systems).
"""

from __future__ import annotations

from ftprof.advisors.trace_evidence import MOST_ROWS, host_calls, percent, places, share_of_window, span
from ftprof.advisors.trace_rule import TraceFinding, TraceRule
from ftprof.profiler.traces.model import FileAnalysis
from ftprof.profiler.traces.schema import PAGEABLE_COPY

FIRES = 0.02


def detect(file: FileAnalysis) -> TraceFinding | None:
    split = file.window.partition
    if split is None:
        return None
    share = share_of_window(file, split.pageable_s)
    rows = places(file, lambda place: place.kind == "memcpy" and PAGEABLE_COPY.search(place.kernel) is not None)
    if share < FIRES or not rows:
        return None
    return TraceFinding(
        rule="pageable-copies",
        severity=share,
        summary=f"copies through pageable memory hold the device up for {percent(share)} of {span(file)}",
        evidence=(*rows, *host_calls(file, lambda call: call.kind == "copy"))[:MOST_ROWS],
        advice="pin what is copied often: DataLoader(pin_memory=True) and tensor.to(device, non_blocking=True)",
    )


RULE = TraceRule(name="pageable-copies", title="Copy from pinned memory", detect=detect)
