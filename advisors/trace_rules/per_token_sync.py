"""Every token makes the host wait for the device.

## What it detects
At least one synchronising call a decode pass that comes from an op (`.item()`, `nonzero`, a blocking copy); where the
trace names no passes, four a step. It fires where they can have cost 2 % of the step. Where the device else has work
queued, that is all its idle time inside these calls and until the next launch arrives; where it waits at every launch,
only the time inside them, and one launch call with its delay for each.

## Why it is slow
The host can hide its work only while it runs ahead. A call that waits for the device ends the lead: the queue is empty
when it returns, and the device idles until the next launch arrives. In transformers 3.25 such calls a token were
counted; removing them took a step from 12.4 to 11.0 ms.

## Fix
Keep flags and masks on the device, look at the stopping condition every few tokens, use `torch.where` in place of
boolean indexing, cache index tensors, and copy with `non_blocking=True` from pinned memory.

## When it backfires
- Looking at the stopping condition less often generates tokens that are thrown away.
- Sampling on the device draws other random numbers than on the host.
- A device that is busy all the time loses nothing at a synchronisation; then there is no finding.

## Sources
- huggingface/transformers#43089, PR#47975; vllm-project/vllm PR#16436; pytorch/torchchat#1147.
"""

from __future__ import annotations

from ftprof.advisors.trace_evidence import host_calls, is_training, percent, share_of_window, trusted
from ftprof.advisors.trace_rule import TraceFinding, TraceRule
from ftprof.profiler.traces.model import FileAnalysis, Partition
from ftprof.profiler.traces.tables import HostCall, Launches

FIRES = 0.02
PER_STEP = 4  # a step that is no decode pass may well look at its loss once
START_S = 5e-6  # an idle device starts work 3 to 5 us after the launch call
# Copies that block by themselves, without a synchronising call of their own.
_BLOCKING = ("hipMemcpyWithStream", "hipMemcpy", "cudaMemcpy")


def detect(file: FileAnalysis) -> TraceFinding | None:
    split, launches = trusted(file), file.device.launches if file.device else None
    if split is None or launches is None or file.window.steps == 0 or is_training(file):
        return None
    calls = sum(call.calls for call in file.calls or () if _synchronises(call))
    per_step = calls / file.window.steps
    decode = any(phase.phase == "decode" for phase in file.phases)
    if per_step < (1 if decode else PER_STEP):
        return None
    share, rows = share_of_window(file, _lost_s(split, launches, calls)), host_calls(file, _synchronises)
    if share < FIRES or not rows:
        return None
    return TraceFinding(
        rule="per-token-sync",
        severity=share,
        summary=f"{per_step:.3g} synchronising calls a {'token' if decode else 'step'} cost up to {percent(share)} of it",
        evidence=rows,
        advice="keep flags and masks on the device, check the stopping condition every few tokens, copy with "
        "non_blocking=True from pinned memory",
    )


def _lost_s(split: Partition, launches: Launches, calls: int) -> float:
    """The most that the calls can have cost the device."""
    after = split.host_wait_s + split.launch_latency_s
    if launches.bound == "launch":
        after = min(after, calls * ((launches.call_median_s or 0.0) + START_S))
    return split.synchronisation_s + after


def _synchronises(call: HostCall) -> bool:
    """From an op of the model's code; waits for a whole device are the profiler's or a benchmark's own."""
    if call.op is None or "DeviceSynchronize" in call.name:
        return False
    return call.kind == "synchronisation" or call.name in _BLOCKING


RULE = TraceRule(name="per-token-sync", title="Do not wait for the device at every token", detect=detect)
