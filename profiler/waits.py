"""Time that a phase spends waiting for files, locks and sleep, by the calls that wait.

A pass of its own with Python's profile hook: it sees every built-in function that Python calls, with exact ends. The
hook slows Python down, so no total is taken from it; how long a call waits does not change.

Method: Time (docs/method.md).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import Any, Literal, NamedTuple

from ftprof.profiler.record import Phase, PhaseWaits
from ftprof.profiler.windows import Run, no_collection, of_phase

Row = Literal["io", "sync"]

# Built-in functions by module and name: what reads and writes files, pipes and sockets, and what waits for others.
_IO_NAMES = frozenset(
    (
        *("read", "readv", "pread", "preadv", "readinto", "write", "writev", "pwrite", "pwritev", "open"),
        *("fsync", "fdatasync", "sendfile", "copy_file_range", "splice", "posix_fadvise", "fromfile", "tofile"),
    )
)
_IO_TYPES = frozenset(("_io", "mmap", "_socket", "_ssl", "_sqlite3"))
_IN_MEMORY = frozenset(("BytesIO", "StringIO"))
_IO_MODULES = frozenset(("posix", "nt", "_io", "io", "numpy"))
_SYNC_NAMES = frozenset(("sleep", "waitpid", "wait4", "waitid", "poll", "select", "epoll", "_cuda_synchronize"))
_SYNC_MODULES = frozenset(("time", "select", "posix", "nt", "torch._C"))
_LOCK_TYPES = frozenset(("lock", "RLock", "SimpleQueue", "SemLock"))


class Wait(NamedTuple):
    """One call that waited: nanoseconds of `time.perf_counter_ns`."""

    row: Row
    start: int
    end: int


def classify(function: Any) -> Row | None:
    """The ledger's row of a built-in function, None for all that compute."""
    name, owner = getattr(function, "__name__", ""), getattr(function, "__self__", None)
    kind = type(owner)
    if kind.__name__ in _LOCK_TYPES:
        return "sync" if name in ("acquire", "get", "put") else None
    if kind.__module__ in _IO_TYPES or kind.__name__ == "safe_open":
        return None if kind.__name__ in _IN_MEMORY else "io"
    if name in _SYNC_NAMES:
        return "sync" if _module(function, owner) in _SYNC_MODULES else None
    if name in _IO_NAMES:
        return "io" if _module(function, owner) in _IO_MODULES else None
    return None


def _module(function: Any, owner: Any) -> str:
    """Where a built-in comes from; bound ones of a module carry the module itself."""
    return getattr(function, "__module__", None) or getattr(owner, "__name__", None) or type(owner).__module__


class _Watch:
    """The profile hook: remembers waiting calls, outermost only."""

    def __init__(self) -> None:
        self.found: list[Wait] = []
        self._open: tuple[Any, Row, int] | None = None

    def __call__(self, frame: Any, event: str, function: Any) -> None:
        if event == "c_call":
            if self._open is None:
                row = classify(function)
                if row is not None:
                    self._open = (function, row, time.perf_counter_ns())
        elif self._open is not None and event in ("c_return", "c_exception") and function is self._open[0]:
            _, row, start = self._open
            self.found.append(Wait(row, start, time.perf_counter_ns()))
            self._open = None


def trace_waits(run: Run, *, scenario: str, phases: Sequence[Phase], repeats: int = 2) -> tuple[PhaseWaits, ...]:
    """Waits of each phase that occurred, seconds per occurrence: the median of `repeats` runs."""
    seen: list[tuple[tuple[int, ...], list[Wait]]] = []
    with no_collection():
        for _ in range(repeats):
            seen.append(_watched(run))
    found = []
    for phase in phases:
        of_runs = of_phase([stamps for stamps, _ in seen], phases, phase)
        if not of_runs:
            continue
        rows: dict[Row, list[float]] = {"io": [], "sync": []}
        for window, (_, waits) in zip(of_runs, seen, strict=True):
            for row, values in rows.items():
                inside = sum(
                    max(0, min(wait.end, window.end) - max(wait.start, window.start))
                    for wait in waits
                    if wait.row == row
                )
                values.append(inside / 1e9 / window.occurrences)
        found.append(PhaseWaits(scenario=scenario, phase=phase, io_s=median(rows["io"]), sync_s=median(rows["sync"])))
    return tuple(found)


def _watched(run: Run) -> tuple[tuple[int, ...], list[Wait]]:
    watch = _Watch()
    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        stamps = run()
    finally:
        sys.setprofile(before)
    return stamps, watch.found
