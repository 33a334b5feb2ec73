"""How far the host runs ahead of the device: launch calls, delays, and whether launching is the limit."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ftprof.profiler.traces import schema
from ftprof.profiler.traces.intervals import Ints, covered_before, ints, union
from ftprof.profiler.traces.partition import seconds
from ftprof.profiler.traces.scope import Scope
from ftprof.profiler.traces.tables import Launches

# An idle device starts work 3 to 5 us after the launch call: twice that is still no queue.
LAUNCH_FLOOR_NS = 5_000
# Idle above this share is worth a word (TensorRT-LLM's host analysis and TraceLens use the same).
IDLE_WORTH_A_WORD = 0.15
# Work that waits five launch calls long will not run dry at the next hiccup of the host.
QUEUED_CALLS = 5
QUEUED_SHARE = 0.8


def launches(scope: Scope, idle_share: float | None) -> Launches | None:
    """Statistics of the window's launches; None where the trace has no launch calls."""
    host = scope.trace.host
    runtime = host.kind == schema.HostKind.RUNTIME
    launching = runtime & scope.trace.named(schema.KERNEL_LAUNCH_CALL)
    calls = scope.calls[launching[scope.calls]]
    if not launching.any():
        return None
    graph = scope.trace.named(schema.GRAPH_LAUNCH)
    call_time = int(np.median(host.end[calls] - host.start[calls])) if len(calls) else None
    rows = scope.rows[scope.kernels]
    launch = scope.links.launch[rows]
    firsts, delays = _delays(scope, rows, launch)
    weights = scope.trace.device.end[rows] - scope.trace.device.start[rows]
    queued = _queued_share(scope, rows, launch, call_time)
    single = (launch >= 0) & ~_at_launch(graph, launch)
    short = weights[single] < (host.end - host.start)[launch[single]]
    delay = float(np.median(delays)) if len(firsts) else None
    mine = calls[host.thread[calls] == scope.main]
    return Launches(
        calls=len(calls),
        graph_launches=int(graph[calls].sum()),
        graph_kernels=int(_at_launch(graph, launch).sum()),
        call_median_s=None if call_time is None else seconds(call_time),
        delay_median_s=None if delay is None else seconds(delay),
        delay_p90_s=seconds(int(np.sort(delays)[int(0.9 * (len(delays) - 1))])) if len(firsts) else None,
        queued_share=queued,
        short_kernel_share=float(short.mean()) if len(short) else None,
        kernel_median_s=seconds(float(np.median(weights))) if len(rows) else None,
        idle_share=idle_share,
        bound=_bound(delay, queued, idle_share),
        launch_share=_covered(scope, mine) / max(scope.length, 1),
    )


def _at_launch(
    marks: np.ndarray[tuple[int], np.dtype[np.bool_]], launch: Ints
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.where(launch >= 0, marks[launch], False) if len(marks) else np.zeros(len(launch), dtype=np.bool_)


def _delays(scope: Scope, rows: Ints, launch: Ints) -> tuple[Ints, Ints]:
    """The first kernel of each launch, and how long after the call's end it began (0 where the call still ran)."""
    known = launch >= 0
    _, first = np.unique(launch[known], return_index=True)
    firsts = rows[known][first]
    ended = scope.trace.host.end[scope.links.launch[firsts]] if len(firsts) else ints([])
    return firsts, np.maximum(scope.trace.device.start[firsts] - ended, 0)


def _queued_share(scope: Scope, rows: Ints, launch: Ints, call_time: int | None) -> float | None:
    """Share of kernel time that had been queued for at least QUEUED_CALLS launch calls."""
    known = launch >= 0
    device = scope.trace.device
    weights = (device.end[rows] - device.start[rows])[known]
    if call_time is None or not weights.sum():
        return None
    waited = device.start[rows[known]] - scope.trace.host.end[launch[known]]
    return float(weights[waited >= QUEUED_CALLS * max(call_time, 1)].sum() / weights.sum())


def _bound(
    delay: float | None, queued: float | None, idle_share: float | None
) -> Literal["launch", "device", "mixed"] | None:
    if delay is None or queued is None or idle_share is None:
        return None
    if delay <= 2 * LAUNCH_FLOOR_NS and idle_share >= IDLE_WORTH_A_WORD:
        return "launch"
    return "device" if queued >= QUEUED_SHARE else "mixed"


def _covered(scope: Scope, calls: Ints) -> int:
    host = scope.trace.host
    spans = union(host.start[calls], host.end[calls])
    low, high = covered_before(spans, ints([scope.low, scope.high]))
    return int(high - low)
