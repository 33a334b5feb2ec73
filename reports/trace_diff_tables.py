"""Two traces, before and after, as sentences and tables."""

from __future__ import annotations

from collections.abc import Sequence

from ftprof.profiler.traces.diff import Change, TraceDiff
from ftprof.reports import units
from ftprof.reports.table import Table
from ftprof.reports.trace_names import kernel
from ftprof.reports.trace_tables import UNKNOWN, limited
from ftprof.reports.trace_verdict import PART_NAMES, class_name
from ftprof.reports.wording import capital


def headline(change: TraceDiff) -> str:
    """How long a step (or the window) took on both sides."""
    what = "A step" if change.compared == "per step" else "The window"
    times = f"{units.duration(change.before_s)} before and {units.duration(change.after_s)} after"
    verdict = f"{units.factor(change.ratio)} as fast" if change.comparable else "not to be read as a speed-up"
    return f"{what} took {times}: {verdict}."


def tables(change: TraceDiff, most: int) -> tuple[Table, ...]:
    """By part, by class, by phase, by kernel; empty ones have no rows."""
    unit = "Time of a step" if change.compared == "per step" else "Time of the window"
    parts = [row for row in change.parts if row.before_s or row.after_s]
    return (
        _changes(f"{unit} by part", parts, PART_NAMES, most),
        _changes(f"{unit} by class of device work", change.classes, {}, most),
        _changes("Mean time of a pass by phase", change.phases, {}, most),
        _kernels(change, most),
        _launches(change),
    )


def _changes(caption: str, rows: Sequence[Change], names: dict[str, str], most: int) -> Table:
    cells = [
        (
            capital(names.get(row.name) or class_name(row.name)),
            units.duration(row.before_s) if row.before_s is not None else UNKNOWN,
            units.duration(row.after_s) if row.after_s is not None else UNKNOWN,
            signed(row.delta_s),
        )
        for row in rows
    ]
    return limited(caption, ("What", "Before", "After", "Change"), cells, most)


def signed(seconds: float | None) -> str:
    """A difference of times with its sign: "+1.2 ms"."""
    if seconds is None:
        return UNKNOWN
    return f"{'+' if seconds > 0 else ''}{units.duration(seconds)}"


def _kernels(change: TraceDiff, most: int) -> Table:
    rows = [
        (
            kernel(row.name),
            f"{row.before_calls:.4g}",
            f"{row.after_calls:.4g}",
            units.duration(row.before_s),
            units.duration(row.after_s),
            signed(row.after_s - row.before_s),
        )
        for row in change.kernels
    ]
    head = ("Kernel", "Calls before", "After", "Time before", "After", "Change")
    return limited("Kernels that changed most", head, rows, most)


def _launches(change: TraceDiff) -> Table:
    head = ("What", "Before", "After")
    if change.launches_before is None or change.launches_after is None:
        return Table(caption="", head=head, rows=())
    row = ("Launch calls", f"{change.launches_before:.5g}", f"{change.launches_after:.5g}")
    return Table(caption="Launches", head=head, rows=(row,))
