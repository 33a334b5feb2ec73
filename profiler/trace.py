"""A light pass under torch.profiler: which ops a phase spends its time in, and how much lies between them.

Method: Time (docs/method.md).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from ftprof.profiler.nesting import corrected
from ftprof.profiler.op_totals import Event, PhaseTotal, add_window, totals
from ftprof.profiler.record import Machine, OpTrace, Phase
from ftprof.profiler.windows import Run, no_collection, of_phase, quieter_half

MARK = "ftprof clock"
_CLOCK_TRIES = 5


class Pass(NamedTuple):
    """One traced unit: its stamps and its ops in order of start, outer before inner."""

    stamps: tuple[int, ...]
    events: list[Event]


def trace_ops(
    run: Run,
    *,
    scenario: str,
    phases: Sequence[Phase],
    untraced: Mapping[str, float],
    machine: Machine,
    repeats: int = 2,
) -> tuple[OpTrace, ...]:
    """Trace `repeats` units, each beside an untraced one, and total the ops of each phase.

    `untraced` holds the seconds per occurrence that the totals should stand for. The machine's speed drifts between
    passes, so all traced times are scaled by those seconds over the untraced units' beside them, and of both only the
    quieter half counts. Phases that did not occur (`decode` of a single token) are left out.
    """
    plain: list[tuple[int, ...]] = []
    traced: list[Pass] = []
    _warm_profiler()
    with no_collection():
        for _ in range(repeats):
            plain.append(run())
            traced.append(traced_pass(run))
        seen = [phase for phase in phases if of_phase(plain, phases, phase)]
        return tuple(_phase_trace(scenario, phase, plain, traced, phases, untraced, machine) for phase in seen)


def traced_pass(run: Run) -> Pass:
    """One unit under the profiler (CPU ops with shapes), on this thread only."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        before = clock_marks()
        stamps = run()
        after = clock_marks()
    results = profiler.profiler.kineto_results if profiler.profiler else None
    raw = results.events() if results else []
    return Pass(stamps, _events(raw, before + after))


def _warm_profiler() -> None:
    """The first use of a process pays for starting the profiler's library; not on anybody's phase."""
    import torch

    scalar = torch.zeros(1)

    def once() -> tuple[int, ...]:
        scalar.neg_()
        return (0, 1)

    traced_pass(once)


def clock_marks() -> list[tuple[int, int]]:
    """Marker ranges, and the two stamps around each: they tie the profiler's clock to `perf_counter_ns`."""
    from torch.profiler import record_function

    marks = []
    for _ in range(_CLOCK_TRIES):
        start = time.perf_counter_ns()
        with record_function(MARK):
            pass
        marks.append((start, time.perf_counter_ns()))
    return marks


def _events(raw: Sequence[Any], marks: Sequence[tuple[int, int]]) -> list[Event]:
    """The profiler's events on the thread that set the marks, on our clock, outer before inner."""
    ours = [event for event in raw if event.name() == MARK]
    if not ours:
        return []
    thread = ours[0].start_thread_id()
    offset = clock_offset([(event.start_ns(), event.end_ns()) for event in ours], marks)
    found = [
        _event(event, offset)
        for event in raw
        if event.start_thread_id() == thread and event.name().startswith(("aten::", "torchao::", "quantized::"))
    ]
    found.sort(key=lambda event: (event.start, -event.end))
    return found


def clock_offset(theirs: Sequence[tuple[int, int]], ours: Sequence[tuple[int, int]]) -> int:
    """Profiler clock minus ours: from the marker whose stamps lie closest together, middle against middle."""
    tightest = min(zip(theirs, ours, strict=False), key=lambda pair: pair[1][1] - pair[1][0])
    (start, end), (before, after) = tightest
    return (start + end - before - after) // 2


def _event(raw: Any, offset: int) -> Event:
    start = raw.start_ns() - offset
    name = raw.name()
    shapes, dtypes = _inputs(raw)
    causal = "attention" in name and _is_causal(raw.concrete_inputs())
    return Event(name, start, start + raw.duration_ns(), shapes, dtypes, causal)


def _inputs(raw: Any) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...]]:
    """Shapes and element types; lists of tensors are flattened, with the type left as "list"."""
    shapes, dtypes = raw.shapes(), raw.dtypes()
    if "TensorList" in dtypes and hasattr(raw, "structured_input_shapes"):
        flat = [
            (tuple(shape), "list" if dtype == "TensorList" else dtype)
            for given, dtype in zip(raw.structured_input_shapes(), dtypes, strict=False)
            for shape in (given if dtype == "TensorList" else [given])
        ]
        return tuple(shape for shape, _ in flat), tuple(dtype for _, dtype in flat)
    return tuple(map(tuple, shapes)), tuple(dtypes)


def _is_causal(concrete: Sequence[object]) -> bool:
    """Whether a fused attention call was told that it is causal: its only true boolean before `scale`."""
    return any(value is True for value in concrete[3:6])


def _phase_trace(
    scenario: str,
    phase: Phase,
    plain: Sequence[tuple[int, ...]],
    passes: Sequence[Pass],
    phases: Sequence[Phase],
    untraced: Mapping[str, float],
    machine: Machine,
) -> OpTrace:
    """One phase of the quieter passes, scaled to the untraced seconds by the quieter untraced units beside them."""
    beside = of_phase(plain, phases, phase)
    beside_s = fmean(beside[position].seconds for position in quieter_half(beside))
    found = of_phase([one.stamps for one in passes], phases, phase)
    total = PhaseTotal()
    for position in quieter_half(found):
        add_window(total, passes[position].events, found[position])
    untraced_s = untraced.get(phase, beside_s)
    scale = untraced_s / beside_s
    between = corrected((total.wall_ns - total.top_ns) / 1e9, 0, total.top, machine.trace_in_s, machine.trace_out_s)
    return OpTrace(
        scenario=scenario,
        phase=phase,
        ops=totals(total.rows, scale, total.occurrences, machine),
        host_s=between * scale / total.occurrences,
        traced_s=total.wall_ns / 1e9 * scale / total.occurrences,
        untraced_s=untraced_s,
        events=total.events,
    )
