"""What a worker on a GPU answers, with stand-ins for the GPU: nothing here touches CUDA."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch

from ftprof.advisors import memory, worker_device
from ftprof.advisors.worker import Service
from ftprof.advisors.worker_device import SILENT, DeviceService
from ftprof.profiler import cuda_machine, torch_engine
from ftprof.profiler.cuda_trace import DeviceTrace
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.narrow import narrow_engine
from ftprof.profiler.record import DeviceSample, OpTrace, PhaseWaits
from ftprof.profiler.torch_engine import TorchEngine
from ftprof.profiler.workload import Call, Scenario, Workload
from tests.profiler import tiny_models

CUDA = "cuda:0"
PLAN = Workload(
    model="m", task="causal-lm", rows="", rows_digest="", new_tokens=4, device=CUDA,
    scenarios=(Scenario(name="single", units=((0, 1),), repeats=2),),
)  # fmt: skip


class Sampler:
    """Readings at 100 W, one for each unit of half a second."""

    lost, notes = None, ("Readings end there.",)

    def __init__(self) -> None:
        self.samples: tuple[DeviceSample, ...] = ()

    def now_s(self) -> float:
        return 0.5 * len(self.samples)

    def unit(self, scenario: str, unit: int) -> None:
        self.samples = (*self.samples, DeviceSample(at_s=self.now_s() + 0.25, power_w=100.0))


def service(sampler: Any, engine: Any = None, device: str = CUDA) -> Any:
    plan = msgspec.structs.replace(PLAN, device=device)
    unit = getattr(sampler, "unit", None)
    return SimpleNamespace(sampler=sampler, holds=(engine or SimpleNamespace(), plan), unit=unit)


def test_energy_counts_every_token_of_every_repeat() -> None:
    sampler = Sampler()
    # 100 W for half a second a unit, which makes 2 rows x 4 tokens, twice.
    assert DeviceService(service(sampler)).token_energy("single") == pytest.approx(50.0 / 16)


def test_without_nvml_there_is_no_energy_and_a_note_says_so() -> None:
    asked = DeviceService(service(None, SimpleNamespace(device_notes=("no CUPTI",))))
    assert asked.token_energy("single") is None
    assert asked.device_samples() == ()
    assert asked.device_notes() == (SILENT, "no CUPTI")
    assert DeviceService(service(None, device="cpu")).device_notes() == ()
    assert DeviceService(service(Sampler())).device_notes() == ("Readings end there.",)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_limits_of_a_gpu_are_refused_where_there_is_none() -> None:
    asked = DeviceService(Service())
    with pytest.raises(FtprofError, match="cannot be used"):
        asked.machine(1.0, CUDA)
    with pytest.raises(FtprofError, match="cannot be used"):
        asked.peak(CUDA)


def test_two_variants_need_room_on_the_gpu_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 1 << 40)
    for free, fit in ((None, True), (20 << 30, True), (10 << 30, False)):
        loaded: Any = SimpleNamespace(
            device_free_bytes=free, adapter=None, model=SimpleNamespace(weight_bytes=13 << 30)
        )
        assert memory.fits(loaded) is fit
    assert worker_device.bytes_before(CUDA) == 0 < worker_device.bytes_before("cpu")
    assert worker_device.device_free_bytes("cpu") is None


def engine() -> TorchEngine:
    words = SimpleNamespace(eos_token_id=2, pad_token_id=0, model_max_length=512)
    return TorchEngine(tiny_models.llama(), words, Call(), "causal-lm")


def test_the_engine_splits_device_time_on_a_gpu_and_keeps_the_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = PhaseWaits(scenario="single", phase="decode", io_s=0.0, sync_s=1e-5)
    trace = OpTrace(scenario="single", phase="decode", ops=(), host_s=1.0, traced_s=1.0, untraced_s=1.0, events=0)
    asked: dict[str, Any] = {}

    def stand_in(run: Any, **options: Any) -> DeviceTrace:
        asked.update(options)
        return DeviceTrace((trace,), (wait,), (), ("no CUPTI",))

    monkeypatch.setattr(torch_engine, "trace_device", stand_in)
    made = engine()
    made.device, made.device_waits = torch.device(CUDA), {}
    batch: Any = SimpleNamespace()
    for _ in range(2):
        found = made.op_traces(
            batch,
            4,
            scenario="single",
            untraced={"decode": 1.0},
            machine=tiny_models.machine(),
            repeats=1,
        )
    assert found == (trace,)
    assert asked["phases"] == ("prefill", "decode") and asked["causal"] is True
    assert (made.device_waits, made.device_notes) == ({"single": (wait,)}, ("no CUPTI",))
    held = Service()
    held._engine = made
    assert held.waits("single", 0, 4) == (wait,)
    assert held.waits("batch", 0, 4) == ()


def test_a_twin_lies_where_its_model_does() -> None:
    made = engine()
    made.device = torch.device("meta")
    assert next(narrow_engine(made).model.parameters()).device.type == "meta"


def test_the_floor_of_gemm_rates_leaves_types_without_a_kernel_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_machine, "GEMM_SIZES", (16, 32))
    monkeypatch.setattr(cuda_machine, "_random", lambda device, dtype, *shape: dtype)
    rates = {"float32": 1.0, "bfloat16": 2.0, "float16": None, "int8": 4.0}
    monkeypatch.setattr(cuda_machine, "_gemm_rate", lambda device, dtype, size, share: rates[dtype])
    assert cuda_machine._peaks(CUDA, 1.0) == {"float32": 1.0, "bfloat16": 2.0, "int8": 4.0}


def test_an_engine_on_the_cpu_traces_on_the_cpu() -> None:
    assert engine().device_waits is None
