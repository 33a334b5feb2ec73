"""Finds the steps of a trace and their phases: by annotations where there are any, else by what repeats."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from ftprof.profiler.traces import schema
from ftprof.profiler.traces.columns import Trace
from ftprof.profiler.traces.intervals import Ints, Marks, ints
from ftprof.profiler.traces.links import Links

Phase = Literal["prefill", "decode", "mixed", "forward", "training"]
Source = Literal["ProfilerStep", "engine annotation", "model calls", "embedding calls", "optimiser steps"]
_SGLANG: dict[str, Phase] = {"EXTEND": "prefill", "PREFILL": "prefill", "DECODE": "decode", "MIXED": "mixed"}


@dataclass(frozen=True, slots=True)
class Window:
    """One step: [start, end) in nanoseconds. Steps do not overlap."""

    name: str
    start: int
    end: int
    phase: Phase | None
    source: Source


def find_steps(trace: Trace, links: Links, main: int) -> list[Window]:
    """The outermost repetition that the trace shows: profiler steps, else steps of a serving engine, else passes."""
    for find in (_profiler_steps, _engine_steps, find_passes, _optimiser_steps):
        windows = find(trace, links, main)
        if windows:
            return _to_end_of_work(trace, links, windows)
    return []


def find_phases(trace: Trace, links: Links, main: int, steps: list[Window]) -> list[Window]:
    """The passes of a model, whatever the steps are; the steps themselves where they have a phase."""
    if any(step.phase for step in steps):
        return steps
    return _to_end_of_work(trace, links, find_passes(trace, links, main))


def _profiler_steps(trace: Trace, links: Links, main: int) -> list[Window]:
    rows = np.flatnonzero(_annotations(trace) & _full(trace, schema.STEP))
    return [_window(trace, row, None, "ProfilerStep") for row in rows.tolist()]


def _engine_steps(trace: Trace, links: Links, main: int) -> list[Window]:
    """vLLM's and SGLang's annotations. Where they nest (SGLang writes two), the outer ones are the steps."""
    windows: list[Window] = []
    for row in np.flatnonzero(_annotations(trace)).tolist():
        name = trace.names[trace.host.name[row]]
        phase = _engine_phase(name)
        if phase and not (windows and trace.host.start[row] < windows[-1].end):
            windows.append(_window(trace, row, phase, "engine annotation"))
    return windows


def _engine_phase(name: str) -> Phase | None:
    """prefill, decode or mixed by an annotation of an engine; None for other annotations."""
    found = schema.ENGINE_STEP.fullmatch(name)
    if found:
        context, generation = int(found["context"]) > 0, int(found["generation"]) > 0
        if context and generation:
            return "mixed"
        return "prefill" if context else "decode"
    found = schema.SGLANG_STEP.fullmatch(name)
    return _SGLANG.get(found["mode"], "mixed") if found else None


def _optimiser_steps(trace: Trace, links: Links, main: int) -> list[Window]:
    """From the end of one optimiser step to the end of the next; at least two must be there."""
    rows = np.flatnonzero(_annotations(trace) & _full(trace, schema.OPTIMIZER_STEP))
    ends = trace.host.end[rows].tolist()
    pairs = itertools.pairwise(ends)
    return [
        Window(f"step {number}", start, end, "training", "optimiser steps")
        for number, (start, end) in enumerate(pairs, 1)
        if end > start
    ]


def find_passes(trace: Trace, links: Links, main: int) -> list[Window]:
    """Calls of the outermost module, else calls of the token embedding; at least two of them."""
    return _model_calls(trace, links, main) or _embedding_calls(trace, main)


def _model_calls(trace: Trace, links: Links, main: int) -> list[Window]:
    """Calls of the module that has most time among those that lie in no other."""
    host = trace.host
    parent = links.nest.parent
    above = np.where(parent >= 0, links.host_module[parent], -1) if len(host) else parent
    top = np.flatnonzero((links.host_module == np.arange(len(host))) & (above < 0) & (host.thread == main))
    if not len(top):
        return []
    spent = np.bincount(host.name[top], weights=host.end[top] - host.start[top])
    calls = top[host.name[top] == spent.argmax()]
    if len(calls) < 2:
        return []
    lengths = _token_counts(trace, main)
    return _passes(trace, host.start[calls], host.end[calls], lengths, "model calls")


def _embedding_calls(trace: Trace, main: int) -> list[Window]:
    """From one call of the token embedding to the next: needs recorded shapes, and one new token in most calls."""
    lengths = _token_counts(trace, main)
    starts = np.array(sorted(lengths), dtype=np.int64)
    if len(starts) < 3 or sum(length == 1 for length in lengths.values()) * 2 < len(starts):
        return []
    mine = trace.host.thread == main
    return _passes(trace, starts, np.append(starts[1:], trace.host.end[mine].max()), lengths, "embedding calls")


def _token_counts(trace: Trace, main: int) -> dict[int, int]:
    """Tokens per row by the time of each call of the largest embedding table."""
    host = trace.host
    ops = (host.kind == schema.HostKind.OP) & (host.thread == main) & (host.shape >= 0)
    rows = np.flatnonzero(ops & _full(trace, re.compile("aten::embedding")))
    found: list[tuple[int, int, int]] = []
    for row in rows.tolist():
        dims = shapes_of(trace.shapes[host.shape[row]])
        if len(dims) > 1 and len(dims[0]) == 2 and dims[1]:
            found.append((int(host.start[row]), dims[0][0], dims[1][-1]))
    largest = max((table for _, table, _ in found), default=0)
    return {start: length for start, table, length in found if table == largest}


def _passes(trace: Trace, starts: Ints, ends: Ints, lengths: dict[int, int], source: Source) -> list[Window]:
    """Windows of passes; prefill and decode where some pass has one new token, forward elsewhere."""
    marks = np.array(sorted(lengths), dtype=np.int64)
    generates = any(length == 1 for length in lengths.values())
    windows: list[Window] = []
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True), 1):
        at = int(np.searchsorted(marks, start))
        length = lengths[int(marks[at])] if at < len(marks) and marks[at] < end else None
        phase: Phase = "forward"
        if generates and length is not None:
            phase = "decode" if length == 1 else "prefill"
        if end > start:
            windows.append(Window(f"pass {number}", start, end, phase, source))
    return windows


def shapes_of(text: str) -> list[list[int]]:
    """Dimensions of the inputs of an op; lists of tensors come as empty."""
    try:
        dims = msgspec.json.decode(text.partition("|")[0].encode(), type=list[list[int | list[int]]])
    except msgspec.MsgspecError:
        return []
    return [[part for part in dim if isinstance(part, int)] for dim in dims]


def _annotations(trace: Trace) -> Marks:
    found: Marks = trace.host.kind == schema.HostKind.ANNOTATION
    return found


def _full(trace: Trace, pattern: re.Pattern[str]) -> Marks:
    """Host rows whose whole name matches."""
    return trace.named(re.compile(rf"(?:{pattern.pattern})\Z", pattern.flags))


def _window(trace: Trace, row: int, phase: Phase | None, source: Source) -> Window:
    host = trace.host
    return Window(trace.names[host.name[row]], int(host.start[row]), int(host.end[row]), phase, source)


def _to_end_of_work(trace: Trace, links: Links, windows: list[Window]) -> list[Window]:
    """Lets each step last until the device work that it launched is done, but not into the next step.

    Steps that touch tile the time, so that nothing counts twice; the last one keeps its tail.
    """
    if not windows:
        return []
    starts, ends = ints([window.start for window in windows]), ints([window.end for window in windows])
    launched = np.where(links.launch >= 0, trace.host.start[links.launch] if len(trace.host) else -1, -1)
    owner = np.searchsorted(starts, launched, side="right") - 1
    mine = (owner >= 0) & (launched < ends[owner])
    np.maximum.at(ends, owner[mine], trace.device.end[mine])
    ends[:-1] = np.minimum(ends[:-1], np.maximum(starts[1:], starts[:-1]))
    return [
        Window(window.name, window.start, end, window.phase, window.source)
        for window, end in zip(windows, ends.tolist(), strict=True)
        if end > window.start
    ]
