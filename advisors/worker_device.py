"""The worker's answers about its machine and its GPU: limits, what NVML read, energy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ftprof.profiler.workload import generates

if TYPE_CHECKING:
    from ftprof.advisors.worker import Service
    from ftprof.profiler.record import DeviceSample, Machine

SILENT = "NVML does not answer here: power, energy and clocks of the GPU are not measured."


def _resident_bytes() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)


def _peak_resident_bytes() -> int:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return _resident_bytes()


def bytes_before(device: str) -> int:
    """Bytes that this process held before the load, where the model will lie: on a GPU none."""
    return 0 if device.startswith("cuda") else _resident_bytes()


def device_free_bytes(device: str) -> int | None:
    """What the GPU could still hold; None on the CPU."""
    import torch

    return int(torch.cuda.mem_get_info(device)[0]) if device.startswith("cuda") else None


class DeviceService:
    """The requests that are not about what a model computes."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def machine(self, budget_s: float, device: str = "cpu") -> Machine:
        """Limits of this machine or its GPU; for a worker that holds no model."""
        from ftprof.profiler.cuda_machine import measure_cuda
        from ftprof.profiler.machine import measure_machine

        return measure_machine(budget_s=budget_s) if device == "cpu" else measure_cuda(device, budget_s)

    def peak(self, device: str = "cpu") -> float:
        """Floating-point operations a second right now."""
        from ftprof.profiler.cuda_machine import cuda_peak_now
        from ftprof.profiler.machine import peak_now

        return peak_now() if device == "cpu" else cuda_peak_now(device)

    def peak_memory(self) -> int:
        """Peak bytes of this worker where its model lies: resident memory, or what the GPU's allocator held at most."""
        import torch

        device = self._service.holds[1].device
        return int(torch.cuda.max_memory_reserved(device)) if device.startswith("cuda") else _peak_resident_bytes()

    def device_samples(self) -> tuple[DeviceSample, ...]:
        """NVML readings since the load; empty on the CPU, and where NVML does not answer."""
        return self._service.sampler.samples if self._service.sampler else ()

    def device_notes(self) -> tuple[str, ...]:
        """What to hold against what the device was asked; empty on the CPU."""
        engine, workload = self._service.holds
        if not workload.device.startswith("cuda"):
            return ()
        sampler = self._service.sampler
        traced: tuple[str, ...] = getattr(engine, "device_notes", ())
        return (*(sampler.notes if sampler else (SILENT,)), *traced)

    def token_energy(self, scenario: str) -> float | None:
        """Joules a token (a row, for encoders) of a scenario's first unit; None where NVML does not answer that."""
        from ftprof.profiler.nvml_energy import token_energy

        if self._service.sampler is None:
            return None
        _, workload = self._service.holds
        planned = workload.scenario(scenario)
        made = len(planned.units[0]) * planned.repeats
        made *= workload.tokens(scenario) if generates(workload.task) else 1

        def unit() -> int:
            self._service.unit(scenario, 0)
            return made

        found = token_energy(self._service.sampler, unit, scenario=scenario)
        return found.per_token_j if found else None
