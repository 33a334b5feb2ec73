"""The parts of the result that describe the file, its devices, its steps and its phases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ftprof.profiler.traces import schema
from ftprof.profiler.traces.columns import Trace
from ftprof.profiler.traces.intervals import Ints, distinct, ints, union
from ftprof.profiler.traces.model import Device, DeviceSpan, Partition, PhaseTotal, Source, Step, Window
from ftprof.profiler.traces.partition import seconds, summed, to_partition, totals
from ftprof.profiler.traces.scope import Scope
from ftprof.profiler.traces.steady import Steady
from ftprof.profiler.traces.steps import Window as Span


def partition(whole: Scope, windows: Sequence[tuple[int, int]]) -> Partition | None:
    """The windows' partitions added up; None where there is no device side."""
    if not len(whole.trace.device):
        return None
    return to_partition(summed(totals(whole.timeline, windows)))


def source(trace: Trace) -> Source:
    """What the file is."""
    facts = trace.facts
    return Source(
        path=facts.path,
        format="nsys" if facts.format == "nsys" else "kineto",
        schema=facts.schema,
        file_bytes=facts.file_bytes,
        events=facts.events,
        device_events=len(trace.device),
        host_events=len(trace.host),
        clock_step_s=1e-9 if facts.fractional else 1e-6,
        origin_ns=trace.origin_ns,
        truncated=facts.truncated,
        damaged_events=facts.damaged,
        runtime=facts.runtime_version,
        driver=facts.driver_version,
        rank=facts.rank,
        world_size=facts.world_size,
        with_stack=facts.with_stack,
        record_shapes=facts.record_shapes,
        profile_memory=facts.profile_memory,
    )


def devices(trace: Trace, analysed: int | None) -> tuple[Device, ...]:
    """The devices with work, the busiest first."""
    device = trace.device
    found: list[Device] = []
    for number in distinct(device.device).tolist():
        mine = device.device == number
        kind = device.kind[mine]
        found.append(
            Device(
                number=number,
                name=trace.facts.device_names.get(number) or None,
                analysed=number == analysed,
                kernels=int((kind == schema.DeviceKind.KERNEL).sum()),
                copies=int((kind == schema.DeviceKind.MEMCPY).sum()),
                fills=int((kind == schema.DeviceKind.MEMSET).sum()),
                streams=len(distinct(device.stream[mine])),
                busy_s=seconds(union(device.start[mine], device.end[mine]).total),
            )
        )
    return tuple(sorted(found, key=lambda row: -row.busy_s))


def device_span(whole: Scope) -> DeviceSpan | None:
    """First to last work of the analysed device; None where nothing took any time."""
    device = whole.trace.device
    if not len(whole.timeline.busy):
        return None
    mine = device.device == whole.timeline.device
    start, end = int(device.start[mine].min()), int(device.end[mine].max())
    return DeviceSpan(start_s=seconds(start), end_s=seconds(end), busy_s=seconds(whole.timeline.busy.total))


def counts_in(starts: Ints, spans: Sequence[Span]) -> Ints:
    """How many of these times, which are in order, lie in each span."""
    low, high = ints([span.start for span in spans]), ints([span.end for span in spans])
    found: Ints = np.searchsorted(starts, high) - np.searchsorted(starts, low)
    return found


def _counts(whole: Scope, spans: Sequence[Span]) -> tuple[list[int], list[int], list[int]]:
    """By span: kernels that start in it, launch calls and synchronising calls that begin in it."""
    host = whole.trace.host
    launching = (host.kind == schema.HostKind.RUNTIME) & whole.trace.named(schema.LAUNCH_CALL)
    columns = (
        whole.trace.device.start[whole.rows[whole.kernels]],
        host.start[launching],
        host.start[whole.kinds.rows["synchronisation"]],
    )
    kernels, launched, synchronised = (counts_in(column, spans).tolist() for column in columns)
    return kernels, launched, synchronised


def steps(whole: Scope, spans: list[Span]) -> tuple[Step, ...]:
    """Each step with its counts and its partition."""
    parts: list[Partition | None] = [None] * len(spans)
    if len(whole.trace.device):
        parts = [to_partition(part) for part in totals(whole.timeline, [(span.start, span.end) for span in spans])]
    return tuple(
        Step(
            name=span.name,
            phase=span.phase,
            start_s=seconds(span.start),
            end_s=seconds(span.end),
            kernels=kernels,
            launches=launched,
            synchronisations=synchronised,
            partition=part,
        )
        for span, part, kernels, launched, synchronised in zip(spans, parts, *_counts(whole, spans), strict=True)
    )


def window(
    part: Scope, spans: list[Span], steady: Steady | None, split: Partition | None, busy_share: float | None
) -> Window:
    """The steady window and why it was chosen."""
    return Window(
        start_s=seconds(part.low),
        end_s=seconds(part.high),
        steps=steady.last - steady.first + 1 if steady else 0,
        first=spans[steady.first].name if steady else None,
        last=spans[steady.last].name if steady else None,
        reason=steady.reason if steady else "no steps in this trace; all of it, warm-up and tail included",
        partition=split,
        busy_share=busy_share,
    )


def phases(whole: Scope, passes: list[Span]) -> tuple[PhaseTotal, ...]:
    """Passes added up by phase."""
    found: list[PhaseTotal] = []
    for phase in dict.fromkeys(each.phase for each in passes):
        mine = [each for each in passes if each.phase == phase]
        kernels, launched, synchronised = (sum(column) for column in _counts(whole, mine))
        found.append(
            PhaseTotal(
                phase=phase or "unknown",
                passes=len(mine),
                times_s=tuple(seconds(each.end - each.start) for each in mine),
                kernels=kernels,
                launches=launched,
                synchronisations=synchronised,
                partition=partition(whole, [(each.start, each.end) for each in mine]),
            )
        )
    return tuple(found)
