"""The op trace: it finds what was planted, where it was planted, and stands for the untraced time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from ftprof.profiler.calibrate import trace_cost, wrapper_cost
from ftprof.profiler.op_totals import KEPT_ROWS, Event, PhaseTotal, add_window, totals
from ftprof.profiler.record import OpTrace
from ftprof.profiler.trace import trace_ops
from ftprof.profiler.windows import Run, Window
from tests.profiler.tiny_models import LAYERS, bert, busy_wait, forward_pass, generation, llama, machine


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for each other on a busy machine would drown what is planted."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def by_kind(trace: OpTrace) -> dict[str, float]:
    spent: dict[str, float] = {}
    for op in trace.ops:
        spent[op.kind] = spent.get(op.kind, 0.0) + op.self_s
    return spent


def traced(run: Run, untraced: dict[str, float]) -> tuple[OpTrace, ...]:
    return trace_ops(
        run, scenario="single", phases=("prefill", "decode"), untraced=untraced, machine=machine(), repeats=1
    )


def test_phases_of_a_generation_are_told_apart() -> None:
    prefill, decode = traced(generation(llama(), new_tokens=3), {})
    products = {op.shapes: op.calls for op in prefill.ops if op.name == "aten::mm"}
    assert products["8x64, 64x128"] == 2 * LAYERS
    step = {op.shapes: op.calls for op in decode.ops if op.name == "aten::mm"}
    assert step["1x64, 64x128"] == 2 * LAYERS
    assert not any(shapes.startswith("8x") for shapes in step)
    attention = [op for op in decode.ops if op.kind == "attention" and op.flops]
    assert sum(op.calls for op in attention) == pytest.approx(LAYERS)


def test_what_is_traced_stands_for_the_untraced_seconds() -> None:
    for trace in traced(generation(llama()), {"prefill": 2.0, "decode": 3.0}):
        assert trace.untraced_s == {"prefill": 2.0, "decode": 3.0}[trace.phase]
        total = trace.host_s + sum(op.self_s for op in trace.ops)
        # The corrections are a made-up machine's, and the machine may be busy: near, not equal.
        assert 0.2 * trace.untraced_s < total < 3.0 * trace.untraced_s


def test_a_slow_op_is_found_in_its_kind() -> None:
    model = llama()
    down = model.model.layers[0].mlp.down_proj
    original = down.forward

    def sorting(x: torch.Tensor) -> torch.Tensor:
        torch.sort(torch.arange(600_000.0).flip(0) % 977)
        out: torch.Tensor = original(x)
        return out

    down.forward = sorting
    _, decode = traced(generation(model), {})
    assert max(by_kind(decode), key=by_kind(decode).__getitem__) == "reduce"
    assert max(decode.ops, key=lambda op: op.self_s).name == "aten::sort"


def test_slow_python_is_host_time() -> None:
    model = llama()
    layer = model.model.layers[0]
    original = layer.forward

    def waiting(*args: object, **kwargs: object) -> object:
        busy_wait(0.02)
        return original(*args, **kwargs)

    layer.forward = waiting
    decode = traced(generation(model), {"decode": 1.0})[1]
    assert decode.host_s > 0.5


def test_an_encoder_has_one_phase() -> None:
    (trace,) = trace_ops(forward_pass(bert()), scenario="batch", phases=("forward",), untraced={}, machine=machine())
    assert (trace.scenario, trace.phase) == ("batch", "forward")
    assert {"matmul", "norm", "attention", "elementwise"} <= set(by_kind(trace))


def event(name: str, start: int, end: int, *shape: int) -> Event:
    return Event(name, start, end, (shape,), ("float",))


def test_rows_are_means_per_occurrence_with_recording_taken_off() -> None:
    free = machine(trace_in_s=10e-9, trace_out_s=20e-9)
    total = PhaseTotal()
    events = [event("aten::softmax", 0, 100, 4), event("aten::_softmax", 10, 60, 4)]
    add_window(total, events, Window("decode", 0, 200, 2))
    outer, inner = sorted(totals(total.rows, 1.0, 2, free), key=lambda op: op.name, reverse=True)
    assert (outer.name, inner.name) == ("aten::softmax", "aten::_softmax")
    assert inner.self_s == pytest.approx((50 - 10) / 2 * 1e-9)
    assert outer.self_s == pytest.approx((50 - 10 - 20) / 2 * 1e-9)
    assert (inner.calls, inner.flops, outer.flops) == (0.5, 5 * 4 / 2, 0.0)


def test_a_composite_without_a_kernel_inside_is_charged_itself() -> None:
    total = PhaseTotal()
    add_window(total, [event("aten::softmax", 0, 100, 4)], Window("forward", 0, 200, 1))
    (row,) = totals(total.rows, 1.0, 1, machine())
    assert row.flops == 5 * 4


def test_the_tail_is_joined_without_losing_anything() -> None:
    total = PhaseTotal()
    count = KEPT_ROWS + 50
    events = [event("aten::silu", 1000 * i, 1000 * i + 500 + i, i + 1) for i in range(count)]
    add_window(total, events, Window("forward", 0, 1000 * count, 1))
    found = totals(total.rows, 1.0, 1, machine(trace_in_s=0.0, trace_out_s=0.0))
    assert len(found) == KEPT_ROWS + 1
    assert found[-1].shapes == "50 shapes"
    assert sum(op.self_s for op in found) == pytest.approx(sum(500 + i for i in range(count)) * 1e-9)
    assert sum(op.flops or 0 for op in found) == count * (count + 1) / 2


def test_the_cost_of_looking_is_small_and_not_negative() -> None:
    inside, outside = trace_cost()
    assert 0 < inside < 1e-4
    assert 0 <= outside < 1e-3
    assert 0 <= wrapper_cost() < 1e-4
