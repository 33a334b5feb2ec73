"""What the rules over traces share: shares of the window, and rows of evidence from its tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from ftprof.advisors.trace_rule import TraceEvidence
from ftprof.profiler.traces.model import FileAnalysis, Partition
from ftprof.profiler.traces.tables import HostCall, Place

MOST_ROWS = 5
_BACKWARD = ("autograd::", "Backward", "Optimizer.")


def window_s(file: FileAnalysis) -> float:
    """Length of the window that all tables are about, in seconds."""
    return file.window.end_s - file.window.start_s


def share_of_window(file: FileAnalysis, spent_s: float) -> float:
    """`spent_s` over the window's length; at most 1, though streams that run side by side may add up to more."""
    length = window_s(file)
    return min(1.0, spent_s / length) if length > 0 else 0.0


def span(file: FileAnalysis) -> str:
    """What shares of the window are shares of, in words."""
    return "the step" if file.window.steps else "the recorded time"


def trusted(file: FileAnalysis) -> Partition | None:
    """The window's partition where its idle times are explained well enough to draw conclusions from them."""
    return None if file.window.busy_share is None else file.window.partition


def is_training(file: FileAnalysis) -> bool:
    """Whether the window holds a backward pass or an optimiser: advice for inference does not apply."""
    if any(phase.phase == "training" for phase in file.phases):
        return True
    if file.device is None:
        return False
    names = (row.outer or row.name for row in file.device.ops or ())
    return any(row.kind == "optimiser" for row in file.device.classes) or any(
        mark in name for name in names for mark in _BACKWARD
    )


def operands(shapes: str | None, most: int = 3) -> str | None:
    """The sizes of the first tensors of an op, scalars and empty ones left out: "[8, 64] [64, 8]"; None without any."""
    try:
        dims = json.loads(shapes or "[]")
    except ValueError:
        return shapes
    # Lists of tensors are one level deeper.
    found = [dim for dim in dims if isinstance(dim, list) and dim] if isinstance(dims, list) else []
    return " ".join(json.dumps(dim) for dim in found[:most]) or None


def where(op: str | None, shapes: str | None, module: str | None, line: str | None) -> str | None:
    """One text for a place: "aten::bmm [8, 64] [64, 8] in SelfAttention at model.py(20): forward"."""
    parts = [op, operands(shapes) if op else None, f"in {module}" if module else None, f"at {line}" if line else None]
    return " ".join(part for part in parts if part) or None


def places(file: FileAnalysis, wanted: Callable[[Place], bool]) -> tuple[TraceEvidence, ...]:
    """The places that `wanted` picks as rows, equal ones added up, the longest first, at most MOST_ROWS."""
    sums: dict[tuple[str, str | None], list[float]] = {}
    for place in file.device.places if file.device else ():
        if wanted(place):
            key = (place.kernel, where(place.op, place.shapes, place.module, place.line))
            spent = sums.setdefault(key, [0, 0.0])
            spent[0] += place.calls
            spent[1] += place.total_s
    rows = [
        TraceEvidence(what=kernel, where=origin, calls=int(calls), total_s=total, share=share_of_window(file, total))
        for (kernel, origin), (calls, total) in sums.items()
    ]
    return longest(rows)


def host_calls(file: FileAnalysis, wanted: Callable[[HostCall], bool]) -> tuple[TraceEvidence, ...]:
    """The runtime calls that `wanted` picks as rows, the longest first, at most MOST_ROWS."""
    return longest(
        TraceEvidence(
            what=call.name,
            where=where(call.op, None, None, call.line),
            calls=call.calls,
            total_s=call.total_s,
            share=share_of_window(file, call.total_s),
        )
        for call in file.calls or ()
        if wanted(call)
    )


def longest(rows: Iterable[TraceEvidence]) -> tuple[TraceEvidence, ...]:
    """The rows with the largest share, at most MOST_ROWS."""
    return tuple(sorted(rows, key=lambda row: -row.share)[:MOST_ROWS])


def idle_rows(file: FileAnalysis, wanted: Callable[[str], bool] = lambda name: True) -> tuple[TraceEvidence, ...]:
    """What the launching thread was in while the device was idle, as rows."""
    rows = (file.device.idle if file.device else None) or ()
    return longest(
        TraceEvidence(
            what=row.name or "nothing recorded",
            where=f"device idle, thread in {row.kind}" if row.name else "device idle",
            total_s=row.total_s,
            share=row.share_of_window,
        )
        for row in rows
        if wanted(row.name or "")
    )


def percent(share: float) -> str:
    """A share as text: "4.7%"."""
    return f"{100 * share:.1f}%"
