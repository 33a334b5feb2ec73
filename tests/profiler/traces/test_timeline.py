"""Where the time goes: one small trace for each class, then random traces against the slow method."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ftprof.profiler.traces.analyse import analyse
from ftprof.profiler.traces.model import FileAnalysis, Partition
from tests.profiler.traces import slow_method
from tests.profiler.traces.chrome import Json, copy, event, kernel, launch, note, op, python, write
from tests.profiler.traces.test_proof import expected, folded


def analysed(tmp_path: Path, events: list[Json]) -> FileAnalysis:
    """The analysis of these events."""
    return analyse(write(tmp_path / "t.json", events)).files[0]


def whole(tmp_path: Path, events: list[Json]) -> dict[str, int]:
    """The whole trace's partition in nanoseconds."""
    part = analysed(tmp_path, events).whole
    assert isinstance(part, Partition)
    return folded(part)


def test_streams_are_united_and_copies_hide_behind_kernels(tmp_path: Path) -> None:
    events = [
        kernel(0, 10, 1),
        kernel(5, 10, 2, stream=8),
        copy(12, 8, 3, "Memcpy DtoH (Device -> Pinned)"),
        kernel(18, 4, 4, "ncclDevKernel_AllReduce", stream=9),
    ]
    assert whole(tmp_path, events) == {"compute": 15_000, "communication": 4_000, "copies": 3_000}


def test_host_wait_until_the_launch_then_latency(tmp_path: Path) -> None:
    events = [launch(0, 1, 1), kernel(2, 8, 1), launch(40, 2, 2), kernel(45, 5, 2)]
    assert whole(tmp_path, events) == {"launch_latency": 7_000, "compute": 13_000, "unrecorded": 30_000}


@pytest.mark.parametrize(
    ("during", "part"),
    [
        (launch(12, 20, 9, "cudaStreamSynchronize"), "synchronisation"),
        (launch(12, 20, 9, "cudaMemcpyAsync"), "copy_calls"),
        (launch(12, 20, 9, "cudaMalloc"), "allocator"),
        (launch(12, 20, 9, "cudaEventQuery"), "runtime_call"),
        (note("enumerate(DataLoader)#_Iter.__next__", 12, 20), "data_loading"),
        (python("transformers/tokenization_utils_fast.py(500): _encode", 12, 20), "data_loading"),
        (op("aten::item", 12, 20), "op"),
        (python("generation/utils.py(3200): _sample", 12, 20), "python"),
        (note("my own note", 12, 20), "unrecorded"),
    ],
)
def test_host_wait_is_what_the_launching_thread_was_in(tmp_path: Path, during: Json, part: str) -> None:
    events = [launch(0, 1, 1), kernel(1, 9, 1), during, launch(40, 2, 2), kernel(42, 5, 2)]
    split = whole(tmp_path, events)
    assert split[part] == 30_000 if part == "unrecorded" else 20_000
    assert sum(split.values()) == 47_000


def test_another_thread_does_not_explain_the_wait(tmp_path: Path) -> None:
    busy = launch(12, 20, 9, "cudaStreamSynchronize", tid=777)
    events = [launch(0, 1, 1), kernel(1, 9, 1), busy, launch(40, 2, 2), kernel(42, 5, 2)]
    assert "synchronisation" not in whole(tmp_path, events)


def test_pageable_copy_in_flight_is_named(tmp_path: Path) -> None:
    events = [launch(0, 1, 1), kernel(1, 9, 1), launch(12, 30, 2, "cudaMemcpyAsync"), copy(40, 2, 2)]
    file = analysed(tmp_path, events)
    assert file.whole is not None and file.whole.pageable_s == pytest.approx(30e-6)
    assert folded(file.whole)["copy_calls"] == 28_000


def test_launch_that_loads_code_is_the_hosts_time(tmp_path: Path) -> None:
    events = [launch(0, 1, 1), kernel(1, 9, 1), launch(20, 5000, 2), kernel(5015, 5, 2)]
    split = whole(tmp_path, events)
    assert (split["runtime_call"], split["launch_latency"]) == (4_995_000, 1_000)


def test_queued_work_that_does_not_start_is_unexplained(tmp_path: Path) -> None:
    events = [
        launch(0, 1, 1),
        launch(2, 1, 2),
        kernel(3, 7, 1),
        kernel(1003, 5, 2),
        launch(1010, 1, 3),
        kernel(1012, 9, 3),
    ]
    file = analysed(tmp_path, events)
    assert file.whole is not None
    assert folded(file.whole)["unexplained"] == 900_000  # 100 us after the launch call count as latency
    assert file.window.busy_share is None and file.health.confidence == "low"


def test_short_rest_between_queued_kernels_is_latency(tmp_path: Path) -> None:
    events = [launch(0, 1, 1), launch(1, 1, 2), kernel(3, 300, 1), kernel(307, 5, 2)]
    assert whole(tmp_path, events)["launch_latency"] == 7_000


def test_device_time_without_host_side_is_unexplained(tmp_path: Path) -> None:
    split = whole(tmp_path, [kernel(0, 10, 1), kernel(50, 10, 2)])
    assert split == {"compute": 20_000, "unexplained": 40_000}


def test_busiest_of_several_devices_is_analysed(tmp_path: Path) -> None:
    events = [kernel(0, 10, 1), kernel(0, 30, 2, device=1), kernel(40, 10, 3, device=1)]
    file = analysed(tmp_path, events)
    assert [(device.number, device.analysed) for device in file.devices] == [(1, True), (0, False)]
    assert file.whole is not None and folded(file.whole)["compute"] == 40_000
    check = file.health.check("several devices")
    assert check is not None and check.verdict == "note"


def test_gap_names_the_call_and_the_line(tmp_path: Path) -> None:
    events = [
        launch(0, 1, 1),
        kernel(1, 9, 1),
        python("generation/utils.py(3200): _sample", 5, 42),
        op("aten::item", 10, 25),
        launch(11, 20, 9, "cudaStreamSynchronize"),
        launch(40, 2, 2),
        kernel(42, 5, 2),
    ]
    device = analysed(tmp_path, events).device
    assert device is not None and device.idle is not None
    gap = device.gaps[0]
    assert (gap.cpu, gap.python, gap.cause) == (
        "cudaStreamSynchronize",
        "generation/utils.py(3200): _sample",
        "synchronisation",
    )
    assert (gap.before, gap.after) == ("gemm_kernel", "gemm_kernel")
    assert {row.name: round(row.total_s * 1e9) for row in device.idle} == {
        "cudaStreamSynchronize": 20_000,
        "aten::item": 5_000,
        "generation/utils.py(3200): _sample": 5_000,
    }


NAMES = ("cudaStreamSynchronize", "cudaMemcpyAsync", "cudaMalloc", "cudaEventRecord")
MOMENT = st.integers(0, 400)


@st.composite
def traces(draw: st.DrawFn) -> list[Json]:
    """Launches with one or more kernels each (graphs), orphans, copies, and calls around them on two threads."""
    events: list[Json] = []
    for number in range(1, draw(st.integers(1, 8))):
        ts, length, tid = draw(MOMENT), draw(st.integers(1, 30)), draw(st.sampled_from([100, 101]))
        graph = draw(st.booleans())
        if draw(st.integers(0, 4)):
            events.append(launch(ts, length, number, "cudaGraphLaunch" if graph else "cudaLaunchKernel", tid))
        for _ in range(draw(st.integers(1, 3)) if graph else 1):
            begin, name = ts + draw(st.integers(1, 200)), draw(st.sampled_from(["gemm", "ncclKernel_AllReduce"]))
            events.append(kernel(begin, draw(st.integers(0, 40)), number, name, stream=draw(st.integers(1, 3))))
    for number in range(draw(st.integers(0, 3))):
        ts = draw(MOMENT)
        kind = draw(st.sampled_from(["HtoD (Pageable -> Device)", "HtoD (Pinned -> Device)"]))
        events.append(launch(ts, draw(st.integers(1, 20)), 100 + number, "cudaMemcpyAsync"))
        events.append(copy(ts + draw(st.integers(1, 40)), draw(st.integers(1, 20)), 100 + number, f"Memcpy {kind}"))
    for number in range(draw(st.integers(0, 5))):
        ts, length = draw(MOMENT), draw(st.integers(0, 90))
        cat = draw(st.sampled_from(["cuda_runtime", "cpu_op", "python_function"]))
        name = (
            draw(st.sampled_from(NAMES)) if cat == "cuda_runtime" else draw(st.sampled_from(["aten::mm", "x.py(1): f"]))
        )
        events.append(event(cat, name, ts, length, draw(st.sampled_from([100, 101])), correlation=200 + number))
    return [*events, kernel(0, 5, 999)]


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(traces())
def test_random_traces_equal_the_slow_method(tmp_path: Path, events: list[Json]) -> None:
    path = write(tmp_path / "t.json", events)
    slow = slow_method.read(path)
    fast = analyse(path).files[0]
    assert fast.whole is not None
    assert folded(fast.whole) == expected(slow_method.Ledger(slow), 0, slow.end - slow.origin)
    assert sum(folded(fast.whole).values()) == slow.end - slow.origin
