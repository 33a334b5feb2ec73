"""Reads SQLite exports of Nsight Systems into the same columns as kineto's traces. The file is opened read-only."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.traces.columns import (
    DeviceColumns,
    Facts,
    HostColumns,
    Names,
    Trace,
    empty_device,
    empty_host,
    sort_and_rebase,
)
from ftprof.profiler.traces.schema import DeviceKind, HostKind

_KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_MEMCPY, _MEMSET = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"
_GRAPH, _RUNTIME, _NVTX = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
_OVERHEAD = "CUPTI_ACTIVITY_KIND_OVERHEAD"
# CUPTI's numbers for the direction of a copy and for the kind of memory at its ends.
_DIRECTIONS = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}
_MEMORY = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device"}
# NVTX ranges: pushed and popped on a thread, and started and ended.
_NVTX_RANGES = (59, 60)
# torch.autograd.profiler.emit_nvtx: "aten::mm, seq = 3, op_id = 314290", with shapes ", sizes = [[1, 64], []]" after it.
_OP = re.compile(r"(?P<op>.+?)(?:, seq = -?\d+)?, op_id = \d+(?P<rest>.*)|(?P<plain>\w+::[\w.]+)", re.DOTALL)
_SIZES = re.compile(r"sizes = (\[.*?\](?=, input_op_ids|, \w+ =|$))")
_API_VERSION = re.compile(r"_v\d+$|_ptsz$")


def read_nsys(path: Path) -> Trace:
    """The trace in a SQLite export. Raises FtprofError where it is damaged or is another kind of database."""
    facts = Facts(format="nsys", schema="sqlite", path=str(path), file_bytes=path.stat().st_size, fractional=True)
    try:
        with sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True) as database:
            database.text_factory = lambda raw: raw.decode("utf-8", "replace")
            trace = _Reader(database, facts).trace()
    except sqlite3.Error as fault:
        hint = "export the report again: nsys export --type sqlite REPORT.nsys-rep"
        raise FtprofError(f"{path}: the database cannot be read ({fault})", hint, Exit.UNUSABLE) from fault
    finally:
        if "database" in locals():
            database.close()
    sort_and_rebase(trace)
    return trace


class _Reader:
    def __init__(self, database: sqlite3.Connection, facts: Facts) -> None:
        self.database, self.facts = database, facts
        self.names, self.shapes = Names(), Names()
        self.threads: dict[int, int] = {}
        self.columns = self._tables()
        self.texts: dict[int, str] = dict(self._rows("StringIds", "id, value"))

    def _tables(self) -> dict[str, set[str]]:
        listed = self.database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        quoted = [(name, name.replace('"', '""')) for (name,) in listed]
        return {
            name: {row[1] for row in self.database.execute(f'PRAGMA table_info("{safe}")')} for name, safe in quoted
        }

    def _rows(self, table: str, columns: str) -> Iterable[Any]:
        """Rows of a table, NULL in the place of columns that this version did not export; nothing without the table."""
        if table not in self.columns:
            return ()
        there = [name if name in self.columns[table] else f"NULL AS {name}" for name in columns.split(", ")]
        return self.database.execute(f'SELECT {", ".join(there)} FROM "{table}"')

    def trace(self) -> Trace:
        if not {_RUNTIME, _KERNEL, _NVTX, "StringIds"} & set(self.columns):
            raise FtprofError(
                f"{self.facts.path}: this database is no export of Nsight Systems",
                "export a report: nsys export --type sqlite REPORT.nsys-rep",
                Exit.UNUSABLE,
            )
        self._about()
        device, host = self._device(), self._host()
        self.facts.events = len(device) + len(host)
        threads = [f"{number >> 24 & 0xFFFFFF}/{number & 0xFFFFFF}" for number in self.threads]
        return Trace(device, host, self.names.texts(), self.shapes.texts(), [], threads, self.facts)

    def _about(self) -> None:
        for number, name, processors in self._rows("TARGET_INFO_GPU", "id, name, smCount"):
            if isinstance(number, int) and isinstance(name, str):
                self.facts.device_names[number] = name
                if isinstance(processors, int):
                    self.facts.multiprocessors[number] = processors
        for start, end in self._rows(_OVERHEAD, "start, end"):
            if isinstance(start, int) and isinstance(end, int):
                self.facts.overhead_events += 1
                self.facts.overhead_ns += max(end - start, 0)

    def _text(self, number: object) -> str:
        return self.texts.get(number, "unknown") if isinstance(number, int) else "unknown"

    def _device(self) -> DeviceColumns:
        rows: list[tuple[int, ...]] = []
        lane = "start, end, deviceId, streamId, correlationId"
        for *times, name, short in self._rows(_KERNEL, f"{lane}, demangledName, shortName"):
            self._add(rows, times, DeviceKind.KERNEL, self._text(name if name is not None else short), -1)
        for *times, kind, source, target, size in self._rows(_MEMCPY, f"{lane}, copyKind, srcKind, dstKind, bytes"):
            ends = f"{_MEMORY.get(source, 'Unknown')} -> {_MEMORY.get(target, 'Unknown')}"
            self._add(rows, times, DeviceKind.MEMCPY, f"Memcpy {_DIRECTIONS.get(kind, 'unknown')} ({ends})", size)
        for *times, size in self._rows(_MEMSET, f"{lane}, bytes"):
            self._add(rows, times, DeviceKind.MEMSET, "Memset (Device)", size)
        for *times, graph in self._rows(_GRAPH, f"{lane}, graphId"):
            self._add(rows, times, DeviceKind.GRAPH, f"graph {graph}", -1)
        if not rows:
            return empty_device()
        table = np.array(rows, dtype=np.int64).T
        blocks = np.full(len(rows), np.nan, dtype=np.float32)
        start, end, kind, name_ids, device, stream, correlation, size = (column.copy() for column in table)
        return DeviceColumns(
            start, end, kind, name_ids, device, stream, correlation, np.full_like(start, -1), size, blocks
        )

    def _add(self, rows: list[tuple[int, ...]], times: list[Any], kind: DeviceKind, name: str, size: object) -> None:
        start, end, device, stream, correlation = times
        if not all(isinstance(value, int) for value in (start, end, device, stream)):
            self.facts.damaged += 1
            return
        known = [value if isinstance(value, int) else -1 for value in (correlation, size)]
        rows.append((start, end, kind, self.names[name], device, stream, *known))

    def _host(self) -> HostColumns:
        rows: list[tuple[int, ...]] = []
        for start, end, thread, correlation, name in self._rows(
            _RUNTIME, "start, end, globalTid, correlationId, nameId"
        ):
            text = _API_VERSION.sub("", self._text(name))
            self._add_host(rows, (start, end, thread), HostKind.RUNTIME, text, correlation, -1)
        for start, end, kind, thread, text, number in self._rows(
            _NVTX, "start, end, eventType, globalTid, text, textId"
        ):
            if kind in _NVTX_RANGES and end is not None:
                self._add_range(rows, (start, end, thread), text if text is not None else self._text(number))
        if not rows:
            return empty_host()
        start, end, kinds, name_ids, threads, correlations, shapes = (
            column.copy() for column in np.array(rows, dtype=np.int64).T
        )
        nothing = np.full_like(start, -1)
        return HostColumns(start, end, kinds, name_ids, threads, correlations, nothing, shapes, nothing.copy())

    def _add_range(self, rows: list[tuple[int, ...]], times: tuple[Any, ...], text: str) -> None:
        """An NVTX range: an op where autograd named it so, else an annotation."""
        op = _OP.fullmatch(text)
        if not op:
            self._add_host(rows, times, HostKind.ANNOTATION, text, -1, -1)
            return
        sizes = _SIZES.search(op["rest"] or "")
        shape = self.shapes[f"{sizes[1]}|"] if sizes else -1
        self._add_host(rows, times, HostKind.OP, op["op"] or op["plain"], -1, shape)

    def _add_host(
        self,
        rows: list[tuple[int, ...]],
        times: tuple[Any, ...],
        kind: HostKind,
        name: str,
        correlation: object,
        shape: int,
    ) -> None:
        start, end, thread = times
        if not (isinstance(start, int) and isinstance(end, int)):
            self.facts.damaged += 1
            return
        lane = self.threads.setdefault(thread if isinstance(thread, int) else -1, len(self.threads))
        rows.append(
            (start, end, kind, self.names[name], lane, correlation if isinstance(correlation, int) else -1, shape)
        )
