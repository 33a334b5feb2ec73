"""Limits by element type and working set, and how one op's time is split."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ftprof.profiler.bounds import add, bandwidth_limit, fit, flops_limit, is_anomalous, op_ledger, working_set
from ftprof.profiler.diagnosis import Ledger
from ftprof.profiler.record import Bandwidth, OpTotal
from tests.profiler.tiny_models import machine

MIB = 1 << 20


def op(**changes: Any) -> OpTotal:
    """A product that takes 1 s: 20 GFLOP and 8 GB, so 0.2 s of arithmetic and 0.8 s of memory on `machine()`."""
    fields: dict[str, Any] = {
        "name": "aten::mm",
        "kind": "matmul",
        "shapes": "1x1, 1x1",
        "dtype": "float32",
        "calls": 10.0,
        "self_s": 1.0,
        "flops": 2e10,
        "bytes": 8e9,
        "accuracy": "exact",
    }
    return OpTotal(**{**fields, **changes})


def test_bandwidth_goes_from_cache_to_memory_without_a_step() -> None:
    rates = [bandwidth_limit(machine(), "float32", size * MIB) for size in (1, 4, 32, 256, 4096)]
    assert rates == pytest.approx([4e10, 4e10, 2.5e10, 1e10, 1e10])


def test_a_disturbed_measurement_in_the_cache_cannot_lie_below_memorys() -> None:
    points = ((4 * MIB, 1e9), (32 * MIB, 3e10), (256 * MIB, 1e10))
    curve = tuple(Bandwidth(working_set_bytes=s, dtype="float32", bytes_per_s=r) for s, r in points)
    assert bandwidth_limit(machine(bandwidth=curve), "float32", MIB) == 3e10


def test_types_without_a_measurement_take_float32s() -> None:
    assert flops_limit(machine(), "int64") == 1e11
    assert bandwidth_limit(machine(), "int64", MIB) == 4e10
    assert flops_limit(machine(flops_per_s={}), "float32") is None
    assert bandwidth_limit(machine(bandwidth=()), "float32", MIB) is None


def test_weights_are_streamed_from_wherever_the_whole_phase_fits() -> None:
    small = op(bytes=2.0 * MIB, calls=1.0, flops=1.0)
    assert op_ledger(small, machine(), 512.0 * MIB).memory_s == pytest.approx(2 * MIB / 1e10)
    nearby = op(kind="elementwise", bytes=2.0 * MIB, calls=1.0, flops=1.0)
    assert op_ledger(nearby, machine(), 512.0 * MIB).memory_s == pytest.approx(2 * MIB / 4e10)


def test_an_op_is_filed_under_its_larger_limit() -> None:
    streaming = op_ledger(op(), machine(), 8e9)
    assert streaming.memory_s == pytest.approx(0.8)
    assert streaming.memory_inefficiency_s == pytest.approx(0.2)
    assert op_ledger(op(flops=9e10), machine(), 8e9).compute_s == pytest.approx(0.9)


@pytest.mark.parametrize("changes", [{"kind": "view"}, {"self_s": 1.9e-5}, {"flops": 0.0, "bytes": 0.0}])
def test_dispatch_is_latency(changes: dict[str, Any]) -> None:
    found = op_ledger(op(**changes), machine(), 8e9)
    assert found.latency_s == found.total_s > 0


def test_a_floor_above_both_limits_is_latency_and_the_rest_inefficiency() -> None:
    found = op_ledger(op(self_s=5e-5, flops=1e3, bytes=1e4), machine(), 1e4)
    assert found.latency_s == pytest.approx(1e-5)
    assert found.memory_s == pytest.approx(1e4 / 4e10)
    assert found.total_s == pytest.approx(5e-5)


def test_an_unknown_op_is_not_guessed_at() -> None:
    assert op_ledger(op(flops=None, bytes=None), machine(), 8e9) == Ledger(unattributed_s=1.0)


def test_faster_than_the_limit_is_an_anomaly_and_never_a_negative_inefficiency() -> None:
    quick = op(self_s=0.5)
    assert is_anomalous(quick, machine(), 8e9)
    assert op_ledger(quick, machine(), 8e9) == Ledger(memory_s=0.5)
    assert not is_anomalous(op(self_s=0.75), machine(), 8e9)


TIME = st.floats(1e-9, 1e3)
AMOUNT = st.one_of(st.none(), st.floats(0, 1e15))


@given(TIME, AMOUNT, AMOUNT, st.floats(0.1, 1e5), st.sampled_from(["matmul", "norm", "view", "other"]))
def test_the_parts_of_an_op_are_never_negative_and_sum_to_it(
    self_s: float, flops: float | None, moved: float | None, calls: float, kind: str
) -> None:
    found = op_ledger(op(self_s=self_s, flops=flops, bytes=moved, calls=calls, kind=kind), machine(), 1e9)
    assert found.total_s == pytest.approx(self_s)
    assert all(getattr(found, name) >= 0 for name in Ledger.__struct_fields__)


@given(TIME, TIME, TIME)
def test_fitting_sums_to_the_time_and_keeps_the_proportions(memory: float, host: float, time_s: float) -> None:
    fitted, closure = fit(Ledger(memory_s=memory, host_s=host), time_s)
    assert fitted.total_s == pytest.approx(time_s)
    assert closure == pytest.approx((memory + host) / time_s)
    assert fitted.memory_s * host == pytest.approx(fitted.host_s * memory)
    assert fitted.unattributed_s >= 0


def test_ledgers_add_with_weights() -> None:
    assert add([Ledger(io_s=1.0), Ledger(io_s=2.0, sync_s=1.0)], [1.0, 3.0]) == Ledger(io_s=7.0, sync_s=3.0)


def test_the_working_set_is_what_is_streamed() -> None:
    assert working_set([op(), op(kind="elementwise"), op(bytes=None), op(kind="cat", bytes=5.0)]) == 8e9 + 5.0
