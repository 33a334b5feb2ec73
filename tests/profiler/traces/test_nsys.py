"""Nsight Systems: small exports with known times, older exports without some columns, and the public fixtures."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ftprof.profiler.traces.analyse import analyse
from ftprof.profiler.traces.model import FileAnalysis
from tests.profiler.traces.public import public
from tests.profiler.traces.test_proof import folded

STRINGS = ["cudaLaunchKernel_v7000", "volta_sgemm_64x64_tn", "cudaMemcpyAsync_v3020", "cudaGraphLaunch_v10000"]
THREAD = (77 << 24) | 78


def export(path: Path, old: bool = False) -> Path:
    """Two kernels, a pageable copy and a graph in one piece; `old` lacks tables and columns of newer releases."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", list(enumerate(STRINGS)))
        names = "shortName INTEGER" if old else "demangledName INTEGER, shortName INTEGER"
        database.execute(
            f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, {names})"
        )
        kernels = [(1_000, 5_000, 0, 7, 1), (50_000, 52_500, 0, 8, 2)]
        values = [(*row, *([1] if old else [1, 1])) for row in kernels]
        database.executemany(
            f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({', '.join('?' * len(values[0]))})", values
        )
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId)")
        calls = [(0, 800, THREAD, 1, 0), (40_000, 45_000, THREAD, 2, 0), (60_000, 61_000, THREAD, 3, 2)]
        calls.append((70_000, 71_000, THREAD, 4, 3))
        database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?)", calls)
        if not old:
            _newer(database)
    database.close()
    return path


def _newer(database: sqlite3.Connection) -> None:
    columns = "start, end, deviceId, streamId, correlationId, bytes, copyKind, srcKind, dstKind"
    database.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY ({columns})")
    database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (60500, 60700, 0, 7, 3, 4096, 1, 0, 2)")
    database.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, deviceId, streamId, correlationId, graphId)"
    )
    database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (72000, 90000, 0, 7, 4, 5)")
    database.execute("CREATE TABLE NVTX_EVENTS (start, end, eventType, globalTid, text, textId)")
    ranges = [
        (39_000, 46_000, 59, THREAD, "aten::mm, seq = 4, op_id = 12, sizes = [[4, 64], [64, 8]]", None),
        (38_000, 95_000, 59, THREAD, "my step", None),
        (38_500, None, 34, THREAD, "a mark", None),
    ]
    database.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, ?)", ranges)
    database.execute("CREATE TABLE TARGET_INFO_GPU (id, name, smCount)")
    database.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA GeForce RTX 3060', 28)")


def analysed(path: Path) -> FileAnalysis:
    """The analysis of one file."""
    return analyse(path).files[0]


def test_an_export_reads_like_any_trace(tmp_path: Path) -> None:
    file = analysed(export(tmp_path / "r.sqlite"))
    assert file.source.format == "nsys" and file.source.clock_step_s == 1e-9
    assert [(device.name, device.kernels, device.copies) for device in file.devices] == [
        ("NVIDIA GeForce RTX 3060", 2, 1)
    ]
    assert file.whole is not None and file.device is not None and file.device.launches is not None
    split = folded(file.whole)
    assert sum(split.values()) == 95_000
    assert split["compute"] == 4_000 + 2_500 + 18_000 and split["copies"] == 200
    assert file.whole.pageable_s == pytest.approx(200e-9 + 500e-9 + 300e-9)  # in flight, and the call around it
    assert file.device.ops is not None
    assert [(row.name, row.shapes) for row in file.device.ops] == [("aten::mm", "[[4, 64], [64, 8]]")]
    check = file.health.check("graphs in one piece")
    assert check is not None and check.verdict == "note"
    assert {row.name for row in file.calls or ()} == {"cudaLaunchKernel", "cudaMemcpyAsync", "cudaGraphLaunch"}


def test_an_older_export_lacks_only_what_it_lacks(tmp_path: Path) -> None:
    file = analysed(export(tmp_path / "r.sqlite", old=True))
    assert [(device.name, device.kernels, device.copies) for device in file.devices] == [(None, 2, 0)]
    assert file.device is not None and file.device.kernels[0].name == "volta_sgemm_64x64_tn"
    assert file.device.ops is None


def test_the_file_is_not_changed(tmp_path: Path) -> None:
    path = export(tmp_path / "r.sqlite")
    before = path.read_bytes()
    analysed(path)
    assert path.read_bytes() == before and sorted(tmp_path.iterdir()) == [path]


def test_graph_fixture_of_a_consumer_card() -> None:
    file = analysed(public("nsys/rtx3060*"))
    assert [(device.name, device.kernels) for device in file.devices] == [("NVIDIA GeForce RTX 3060", 3)]
    assert file.device is not None and file.device.launches is not None
    assert file.device.launches.graph_launches == 2
    assert {row.kind: row.calls for row in file.device.classes} == {"graph": 2, "other": 3, "memcpy": 1}


def test_two_gpu_fixture_counts_equal_sql() -> None:
    path = public("nsys/mfu_2gpu_after.sqlite")
    file = analysed(path)
    with sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True) as database:
        kernels = dict(
            database.execute("SELECT deviceId, COUNT(*) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1").fetchall()
        )
        rows = database.execute("SELECT deviceId, start, end FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchall()
    database.close()
    assert {device.number: device.kernels for device in file.devices} == kernels
    assert file.devices[0].busy_s >= max(end - start for _, start, end in rows) / 1e9
    assert file.device is not None and file.device.attention is not None
    assert file.device.attention.flash_s > 0 and file.device.attention.eager_s == 0.0
    assert file.device.ops is not None and file.device.ops[0].name == "flash_attn::_flash_attn_forward"
