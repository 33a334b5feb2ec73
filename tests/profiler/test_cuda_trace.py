"""Device time by op and the split of host and device on CUDA, read from traces that stand in for CUPTI's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ftprof.profiler import ledger
from ftprof.profiler.cuda_machine import require
from ftprof.profiler.cuda_ops import NO_OP, inputs
from ftprof.profiler.cuda_trace import DeviceTrace, fitted, trace_device
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.record import PhaseWaits, RunRecord
from ftprof.profiler.trace import MARK
from ftprof.profiler.traces.timeline import CLASSES
from tests.profiler.tiny_models import machine
from tests.profiler.traces import chrome

OFFSET = 7_000_000  # the trace's clock runs this many nanoseconds ahead of perf_counter_ns
BF16 = ["c10::BFloat16", "c10::BFloat16"]
STAMPS = (100, 300, 400, 500)


def generation(*more: Any) -> list[Any]:
    """A prefill of 200 us with one product of 100 us, and two decode steps of 100 us with one of 30 us each."""
    events = [chrome.note(MARK, 10, 2), chrome.note(MARK, 600, 2)]
    work = [(110, 100, [[8, 64], [64, 128]]), (310, 30, [[1, 64], [64, 128]]), (410, 30, [[1, 64], [64, 128]])]
    for number, (at, length, dims) in enumerate(work, 1):
        events += [
            chrome.op("aten::mm", at, 20, dims, types=BF16),
            chrome.launch(at + 5, 5, number),
            chrome.kernel(at + 30, length, number),
            chrome.event("cuda_runtime", "cudaStreamSynchronize", at + 40, length, correlation=100 + number),
        ]
    return [*events, *more]


def traced(
    events: list[Any], untraced: dict[str, float] | None = None, stamps: tuple[int, ...] = STAMPS
) -> DeviceTrace:
    def record(run: Any, path: Path) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
        chrome.write(path, events)
        ours = [(at * 1000 - OFFSET, at * 1000 - OFFSET + 2000) for at in (0, 590)]
        return run(), ours

    # The first event lies at 10 us and is the trace's zero.
    return trace_device(
        lambda: tuple((at - 10) * 1000 - OFFSET for at in stamps),
        scenario="single",
        phases=("prefill", "decode"),
        untraced=untraced or {},
        machine=machine(),
        causal=True,
        record=record,
    )


def test_device_time_goes_to_the_op_that_launched_it_and_all_parts_sum_to_the_phase() -> None:
    found = traced(generation())
    prefill, decode = found.ops
    assert [(op.name, op.kind, op.shapes, op.dtype) for op in prefill.ops] == [
        ("aten::mm", "matmul", "8x64, 64x128", "bfloat16")
    ]
    assert prefill.ops[0].self_s == pytest.approx(100e-6)
    assert prefill.ops[0].flops == 2 * 8 * 64 * 128
    assert decode.ops[0].self_s == pytest.approx(30e-6)
    assert decode.ops[0].calls == 1
    assert [trace.traced_s for trace in found.ops] == pytest.approx([200e-6, 100e-6])
    for trace, phase in zip(found.ops, found.phases, strict=True):
        assert sum(op.self_s for op in trace.ops) + trace.host_s == pytest.approx(trace.traced_s)
        assert round(1e9 * sum(phase.partition.parts().values())) == round(1e9 * phase.partition.total_s)
        assert phase.partition.total_s == pytest.approx(trace.traced_s * phase.occurrences)


def test_recording_slows_the_host_and_not_the_device() -> None:
    prefill, _ = traced(generation(), {"prefill": 150e-6, "decode": 100e-6}).ops
    assert prefill.ops[0].self_s == pytest.approx(100e-6)
    assert prefill.host_s == pytest.approx(50e-6)


def test_idle_in_a_synchronising_call_is_a_wait_of_the_ledger() -> None:
    late = chrome.event("cuda_runtime", "cudaStreamSynchronize", 245, 50, correlation=900)
    found = traced(generation(late))
    wait = found.waits[0]
    assert wait == PhaseWaits(scenario="single", phase="prefill", io_s=0.0, sync_s=wait.sync_s)
    assert 40e-6 < wait.sync_s < 60e-6
    parts = ledger.trace_ledger(found.ops[0], machine(), 200e-6, RunRecord(waits=found.waits))
    assert parts.ledger.total_s == pytest.approx(200e-6)
    assert parts.ledger.sync_s == pytest.approx(wait.sync_s)
    assert parts.ledger.grouped()["compute"] + parts.ledger.grouped()["memory"] + parts.ledger.latency_s >= 99e-6


def test_side_by_side_streams_and_work_without_an_op() -> None:
    beside = [chrome.launch(131, 4, 50, name="cudaGraphLaunch"), chrome.kernel(140, 100, 50, stream=8)]
    prefill = traced(generation(*beside)).ops[0]
    spent = {op.name: op.self_s for op in prefill.ops}
    assert spent == pytest.approx({"aten::mm": 50e-6, NO_OP: 50e-6})


def test_no_device_work_leaves_the_split_out_and_says_why() -> None:
    found = traced([chrome.note(MARK, 10, 2), chrome.op("aten::mm", 110, 20)])
    assert not found.ops and not found.waits and not found.phases
    assert "no GPU work" in found.notes[0]


def test_what_a_busy_device_leaves_is_never_negative() -> None:
    split = {**dict.fromkeys(CLASSES, 0.0), "compute": 80.0, "synchronisation": 15.0, "unexplained": 5.0}
    assert fitted(split, 100e-9) == pytest.approx((80e-9, 0, 15e-9, 0))
    assert fitted(split, 60e-9) == pytest.approx((60e-9, 0, 0, 0))
    assert fitted(split, 90e-9) == pytest.approx((80e-9, 0, 7.5e-9, 0))


def test_shapes_of_lists_are_flattened_and_scalars_have_none() -> None:
    assert inputs('[[[2, 3], [2, 4]], [], 5]|["TensorList", "Scalar", ""]') == (
        ((2, 3), (2, 4), (), ()),
        ("list", "list", "Scalar", ""),
    )
    assert inputs("|") == inputs("not a list|[") == ((), ())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused_with_the_reason() -> None:
    with pytest.raises(FtprofError, match=r"--device cuda:0 cannot be used: (this torch has no CUDA|torch finds no)"):
        require("cuda:0")
