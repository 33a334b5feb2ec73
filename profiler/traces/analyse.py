"""The whole analysis of trace files: read, check, find steps, choose the steady window, split its time, attribute it.

`analyse(path, ...)` is the entry. Everything it returns is data; verdicts, tables and rules are views of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.traces import attribution, gaps, kernel_tables, summary
from ftprof.profiler.traces.activity import activity, main_thread
from ftprof.profiler.traces.columns import Trace
from ftprof.profiler.traces.health import UNEXPLAINED_LIMIT, health
from ftprof.profiler.traces.host_side import host_side
from ftprof.profiler.traces.intervals import distinct, union
from ftprof.profiler.traces.launches import launches
from ftprof.profiler.traces.links import link
from ftprof.profiler.traces.lora import lora
from ftprof.profiler.traces.model import FileAnalysis, TraceAnalysis
from ftprof.profiler.traces.open_trace import open_trace
from ftprof.profiler.traces.partition import seconds
from ftprof.profiler.traces.places import places
from ftprof.profiler.traces.scope import Scope, scope
from ftprof.profiler.traces.steady import Steady, choose
from ftprof.profiler.traces.steps import Window as Span
from ftprof.profiler.traces.steps import find_phases, find_steps
from ftprof.profiler.traces.tables import DeviceSide
from ftprof.profiler.traces.taxonomy import classify
from ftprof.profiler.traces.timeline import timeline

Progress = Callable[[Path, int], None]


def analyse(*paths: Path | str, progress: Progress | None = None) -> TraceAnalysis:
    """Analyses one or more trace files, each on its own, in the order given.

    Raises FtprofError where a file is missing, is no trace or holds no events. `progress` gets the path and the bytes
    read so far.
    """
    return TraceAnalysis(files=tuple(analyse_file(Path(path), progress) for path in paths))


def analyse_file(path: Path, progress: Progress | None = None) -> FileAnalysis:
    """Analyses one file."""
    trace = open_trace(path, None if progress is None else lambda done: progress(path, done))
    if not len(trace.device) and not len(trace.host):
        lost = f" ({trace.facts.damaged} cannot be read)" if trace.facts.damaged else ""
        if trace.facts.device_dropped:
            lost += f" ({trace.facts.device_dropped} with an impossible time left out)"
        raise FtprofError(
            f"{path}: no GPU work and no host events in {trace.facts.events} events{lost}",
            "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], and do the work inside the profiler",
            Exit.NOTHING,
        )
    return analyse_trace(trace)


def analyse_trace(trace: Trace) -> FileAnalysis:
    """Analyses a trace that has been read."""
    links, taxonomy = link(trace), classify(trace)
    kinds, main = activity(trace, links), main_thread(trace)
    device = _busiest(trace)
    line = timeline(trace, links, kinds, taxonomy, device, main)
    whole = scope(trace, links, kinds, taxonomy, line, main, 0, max(trace.end, 1))
    steps = find_steps(trace, links, main)
    steady = choose(steps, _pieces(whole, steps))
    part = whole
    if steady:
        low, high = steps[steady.first].start, steps[steady.last].end
        part = scope(trace, links, kinds, taxonomy, line, main, low, high)
    return _assemble(whole, part, steps, steady)


def _busiest(trace: Trace) -> int | None:
    """The device with most busy time; None where none did anything."""
    device = trace.device
    busy = {
        int(number): union(device.start[device.device == number], device.end[device.device == number]).total
        for number in distinct(device.device)
    }
    return max(busy, key=lambda number: busy[number]) if busy else None


def _pieces(whole: Scope, steps: list[Span]) -> list[int]:
    """Pieces of device work that start in each step; host events where there is no device side."""
    starts = whole.trace.device.start[whole.rows] if len(whole.rows) else whole.trace.host.start
    return [int(count) for count in summary.counts_in(starts, steps)]


def _assemble(whole: Scope, part: Scope, steps: list[Span], steady: Steady | None) -> FileAnalysis:
    trace = whole.trace
    state = health(part, len(steps))
    split = summary.partition(whole, [(part.low, part.high)])
    trusted = split is not None and state.has_host and split.unexplained_s < UNEXPLAINED_LIMIT * split.total_s
    busy_share = split.busy_s / split.total_s if split and trusted else None
    phases = find_phases(trace, whole.links, whole.main, steps)
    return FileAnalysis(
        source=summary.source(trace),
        devices=summary.devices(trace, whole.timeline.device),
        health=state,
        duration_s=seconds(trace.end),
        step_source=steps[0].source if steps else None,
        steps=summary.steps(whole, steps),
        window=summary.window(part, steps, steady, split, busy_share),
        phases=summary.phases(whole, phases),
        whole=summary.partition(whole, [(whole.low, whole.high)]),
        device_span=summary.device_span(whole),
        device=_device_side(part, None if busy_share is None else 1 - busy_share) if len(trace.device) else None,
        calls=attribution.calls(part),
        lora=lora(part),
        host=host_side(part),
    )


def _device_side(part: Scope, idle_share: float | None) -> DeviceSide:
    return DeviceSide(
        kernels=kernel_tables.kernels(part),
        classes=kernel_tables.classes(part),
        copies=kernel_tables.copies(part),
        gaps=gaps.longest_gaps(part),
        idle=gaps.idle_by_cpu(part) if len(part.trace.host) else None,
        launches=launches(part, idle_share),
        tensor_cores=kernel_tables.tensor_cores(part),
        misaligned_share=kernel_tables.misaligned_share(part),
        attention=kernel_tables.attention(part),
        casts=kernel_tables.casts(part),
        ops=attribution.ops(part),
        modules=attribution.modules(part),
        lines=attribution.python_lines(part),
        places=places(part),
        sm_efficiency=kernel_tables.sm_efficiency(part),
    )
