"""Measured limits: sane, complete, and comparable; never how fast this machine is."""

from __future__ import annotations

import pytest
import torch

from ftprof.profiler import machine as limits
from ftprof.profiler.frames import sample_frames, short_path
from ftprof.profiler.record import Machine
from tests.profiler.tiny_models import busy_wait


@pytest.fixture(scope="module")
def measured() -> Machine:
    before = torch.get_num_threads()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(limits, "GEMM_SIZES", (64, 256))
            patch.setattr(limits, "WORKING_SETS", (1 << 20, 8 << 20))
            return limits.measure_machine(threads=1, budget_s=0.3)
    finally:
        torch.set_num_threads(before)


def test_every_limit_is_there_and_positive(measured: Machine) -> None:
    assert {"float32", "bfloat16"} <= set(measured.flops_per_s)
    assert all(rate > 0 for rate in measured.flops_per_s.values())
    assert [(point.dtype, point.working_set_bytes >> 20) for point in measured.bandwidth] == [
        ("float32", 1),
        ("float32", 8),
        ("bfloat16", 1),
        ("bfloat16", 8),
    ]
    assert all(point.bytes_per_s > 0 for point in measured.bandwidth)
    assert 0 < measured.dispatch_s < 1e-3
    assert 0 < measured.trace_in_s < measured.trace_in_s + measured.trace_out_s < 1e-3
    assert measured.threads == 1
    assert measured.cpu
    assert measured.memory_bytes > 0


def test_a_product_does_more_work_a_byte_than_a_stream(measured: Machine) -> None:
    streaming = max(point.bytes_per_s for point in measured.bandwidth) / 4 * 2
    assert measured.flops_per_s["float32"] > streaming


def test_the_fingerprint_is_the_machines_and_stable(measured: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured.fingerprint == limits.fingerprint()
    assert len(measured.fingerprint) == 64
    monkeypatch.setattr(limits, "cpu_model", lambda: "another")
    assert measured.fingerprint != limits.fingerprint()


def test_a_working_set_never_takes_the_machines_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_memory", lambda: (64 << 20, 32 << 20))
    assert {point.working_set_bytes for point in limits.bandwidth_curve(0.02)} == {4 << 20}


def test_the_best_median_ignores_a_burst() -> None:
    waits = iter([0.0, 0.0, 0.02, 0.0, *[0.02] * 50])
    assert limits.best_of_medians(lambda: busy_wait(next(waits)), 0.0) < 0.02


def test_a_kernel_that_does_not_exist_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> torch.Tensor:
        raise RuntimeError("not implemented for 'Char'")

    monkeypatch.setattr(torch, "_int_mm", missing)
    monkeypatch.setattr(limits, "GEMM_SIZES", (32,))
    assert set(limits.gemm_peaks(0.01)) == {"float32", "bfloat16"}


def test_the_quick_peak_is_a_rate() -> None:
    assert limits.peak_now() > 0


def slow_function() -> None:
    busy_wait(0.1)


def test_sampling_names_the_slow_function_and_no_path_of_the_user() -> None:
    frames = sample_frames(slow_function)
    assert frames[0].function in ("busy_wait", "slow_function")
    assert frames[0].file == "tiny_models.py"
    assert sum(frame.share for frame in frames) <= 1.0 + 1e-9


def test_paths_are_shortened_to_the_package() -> None:
    assert (
        short_path("/home/me/.venv/lib/python3.11/site-packages/peft/tuners/lora/layer.py")
        == "peft/tuners/lora/layer.py"
    )
    assert short_path(torch.__file__) == "torch/__init__.py"
    assert short_path("/home/me/secret/train.py") == "train.py"
