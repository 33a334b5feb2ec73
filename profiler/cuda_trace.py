"""A pass under torch.profiler with CUPTI: each phase split by the partition of traces, device time by the op that asked.

The device is timed by its own clock, so its busy time needs no correction; recording slows the host down, so idle time
is brought to what the untraced phase leaves for it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

from ftprof.profiler.cuda_ops import NO_OP, PassOps, read_pass
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.op_totals import PhaseTotal, add_window, totals
from ftprof.profiler.record import Machine, OpTotal, OpTrace, Phase, PhaseWaits
from ftprof.profiler.trace import clock_marks
from ftprof.profiler.traces.model import Partition
from ftprof.profiler.windows import Run, Window, no_collection, of_phase

Marks = Sequence[tuple[int, int]]
Record = Callable[[Run, Path], tuple[tuple[int, ...], Marks]]
"""Runs a unit under a profiler, writes its trace to the path and returns the unit's stamps and the clock marks'."""


class DevicePhase(msgspec.Struct, frozen=True, kw_only=True):
    """How one phase of one traced scenario splits, as traced: `partition` adds up `occurrences` of it."""

    scenario: str
    phase: Phase
    occurrences: int
    partition: Partition


class DeviceTrace(NamedTuple):
    """What the passes showed; `notes` say why something is absent."""

    ops: tuple[OpTrace, ...]
    waits: tuple[PhaseWaits, ...]
    phases: tuple[DevicePhase, ...]
    notes: tuple[str, ...] = ()


def record_cuda(run: Run, path: Path) -> tuple[tuple[int, ...], Marks]:
    """One unit under torch.profiler, CPU and CUDA, with shapes; the trace is written as kineto's JSON."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as profiler:
        before = clock_marks()
        stamps = run()
        torch.cuda.synchronize()
        after = clock_marks()
    profiler.export_chrome_trace(str(path))
    return stamps, before + after


def trace_device(
    run: Run,
    *,
    scenario: str,
    phases: Sequence[Phase],
    untraced: Mapping[str, float],
    machine: Machine,
    causal: bool,
    repeats: int = 1,
    record: Record = record_cuda,
) -> DeviceTrace:
    """Trace `repeats` units and total each phase; empty with a note where the profiler saw no device.

    `untraced` holds the seconds per occurrence that the totals stand for; a phase without one stands for itself.
    `causal` says that a fused attention over as many queries as keys is masked. Phases that did not occur are left out.
    """
    passes: list[PassOps] = []
    runs: list[tuple[int, ...]] = []
    with no_collection(), tempfile.TemporaryDirectory(prefix="ftprof-cupti-") as folder:
        for number in range(repeats + 1):
            path = Path(folder) / f"{number}.json"
            stamps, marks = record(run, path)
            if number == 0:
                continue  # the first pass of a process starts CUPTI
            try:
                passes.append(read_pass(path, marks, causal=causal))
            except FtprofError as error:
                return DeviceTrace((), (), (), (f"{error.message}: device time is not split.",))
            runs.append(stamps)
    found = [
        _phase(phase, scenario, of_phase(runs, phases, phase), passes, untraced, machine)
        for phase in phases
        if of_phase(runs, phases, phase)
    ]
    if not found:
        return DeviceTrace((), (), ())
    ops, waits, seen = zip(*found, strict=True)
    return DeviceTrace(ops, waits, seen)


def _phase(
    phase: Phase,
    scenario: str,
    windows: Sequence[Window],
    passes: Sequence[PassOps],
    untraced: Mapping[str, float],
    machine: Machine,
) -> tuple[OpTrace, PhaseWaits, DevicePhase]:
    total = PhaseTotal()
    parts: list[dict[str, float]] = []
    for window, one in zip(windows, passes, strict=True):
        part = one.partition(window.start, window.end)
        add_window(total, one.events, window, one.device_ns(window.start, window.end))
        parts.append({name: part[name] / window.occurrences for name in part})
    split = {name: sum(part[name] for part in parts) / len(parts) for name in parts[0]}
    traced_s = sum(split.values()) / 1e9
    untraced_s = untraced.get(phase, traced_s)
    fit = fitted(split, untraced_s)
    unowned = sum(one.unowned_ns(at.start, at.end) for at, one in zip(windows, passes, strict=True))
    seen = sum(row.self_ns for row in total.rows.values()) + unowned
    # Streams that run side by side add up to more than the time in which the device was busy.
    scale = fit.busy_s * 1e9 * total.occurrences / seen if seen else 0.0
    exact = msgspec.structs.replace(machine, trace_in_s=0.0, trace_out_s=0.0)
    unowned_s = unowned * scale / 1e9 / total.occurrences
    rest = OpTotal(name=NO_OP, kind="other", shapes="", dtype="", calls=0.0, self_s=unowned_s)
    return (
        OpTrace(
            scenario=scenario,
            phase=phase,
            ops=(*totals(total.rows, scale, total.occurrences, exact), *([rest] if unowned else [])),
            host_s=fit.io_s + fit.sync_s + fit.host_s,
            traced_s=traced_s,
            untraced_s=untraced_s,
            events=total.events,
        ),
        PhaseWaits(scenario=scenario, phase=phase, io_s=fit.io_s, sync_s=fit.sync_s),
        DevicePhase(
            scenario=scenario,
            phase=phase,
            occurrences=round(median(window.occurrences for window in windows)),
            partition=passes[-1].whole_partition(windows[-1].start, windows[-1].end),
        ),
    )


class Fitted(NamedTuple):
    """Seconds of one untraced occurrence: the device busy; it idle while the host loads data, while the host is in a
    synchronising or copying call, and while the host does anything else. What the trace cannot explain is in none."""

    busy_s: float
    io_s: float
    sync_s: float
    host_s: float


BUSY = ("compute", "communication", "pageable_copy", "copy")
SYNC = ("synchronisation", "pageable_copy_call", "copy_call")
IO, UNEXPLAINED = "data_loading", "unexplained"


def fitted(split: Mapping[str, float], untraced_s: float) -> Fitted:
    """A traced occurrence's classes (nanoseconds) brought to its untraced length.

    Busy time stays as it is, and idle time shrinks to the rest; where busy time alone is longer, it fills everything.
    """
    busy = sum(split[name] for name in BUSY) / 1e9
    idle = sum(split.values()) / 1e9 - busy
    kept = max(0.0, untraced_s - busy) / idle if idle > 0 else 0.0
    io, sync = split[IO] / 1e9, sum(split[name] for name in SYNC) / 1e9
    host = idle - io - sync - split[UNEXPLAINED] / 1e9
    return Fitted(min(busy, untraced_s), io * kept, sync * kept, max(0.0, host) * kept)
