"""Checks of the device itself: limits, NVML, graph replay."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu_check.rows import Line, Missing, line

REPLAYS, GRAPH_KERNELS = 20, 12
NVML_S = 3.0


def machine_lines(device: str, budget_s: float) -> tuple[Any, list[Line]]:
    """Limits by behaviour, and whether they are of this world."""
    from ftprof.profiler.cuda_machine import measure_cuda
    from ftprof.profiler.machine import measure_machine

    if device == "cpu":
        return measure_machine(budget_s=budget_s), [
            Line("limits of the GPU", "no GPU; the CPU's were measured instead", "not exercised")
        ]
    found = measure_cuda(device, budget_s)
    rates = ", ".join(f"{dtype} {rate / 1e12:.0f}" for dtype, rate in found.flops_per_s.items())
    curve = ", ".join(
        f"{point.bytes_per_s / 1e9:.0f} at {point.working_set_bytes >> 20} MiB"
        for point in found.bandwidth
        if point.dtype == "bfloat16"
    )
    return found, [
        line("limits of the GPU: TFLOP/s", rates, min(found.flops_per_s.values(), default=0) > 1e11),
        line("limits of the GPU: read GB/s in bfloat16", curve, all(p.bytes_per_s > 5e10 for p in found.bandwidth)),
        line("shortest kernel", f"{found.dispatch_s * 1e6:.2f} us", 2e-7 < found.dispatch_s < 2e-5),
    ]


def nvml_lines(device: str, machine: Any) -> Iterator[Line]:
    """NVML and GPM while the memory is read as fast as it goes: power, clocks, energy, and bytes against bytes."""
    import torch

    from ftprof.profiler.nvml import device_use, watch

    if device == "cpu":
        raise Missing("no GPU")
    sampler = watch(device)
    if sampler is None:
        raise Missing("NVML does not answer")
    matrix = torch.zeros(1 << 30, dtype=torch.bfloat16, device=device).view(-1, 1 << 15)
    vector = torch.zeros(1 << 15, dtype=torch.bfloat16, device=device)
    passes, began = 0, time.perf_counter()
    while time.perf_counter() - began < NVML_S:
        for _ in range(20):
            torch.mv(matrix, vector)
        torch.cuda.synchronize(device)
        passes += 20
    rate = passes * matrix.numel() * 2 / (time.perf_counter() - began)
    samples = sampler.stop()
    steady = [one for one in samples if one.at_s > 1.0]
    use = device_use(steady)
    if use is None:
        yield line("NVML readings", f"{len(samples)} readings, {sampler.lost or 'device not lost'}", False)
        return
    last = steady[-1]
    yield line("NVML readings", f"{len(samples)} in {NVML_S:.0f} s", len(samples) > 0.5 * NVML_S / 0.1)
    yield line("NVML power and energy", f"{use.power_w} W, {use.energy_j} J", bool(use.power_w and use.energy_j))
    yield line(
        "NVML clocks, memory, reasons",
        f"SM {last.sm_clock_mhz} MHz, memory {last.memory_clock_mhz} MHz, {last.memory_bytes} B, {last.held_back}",
        None not in (last.sm_clock_mhz, last.memory_bytes, last.held_back),
    )
    if use.dram is None:
        yield Line("GPM memory bandwidth against the bytes read", "this part or driver has no GPM", "not exercised")
        return
    best = max(point.bytes_per_s for point in machine.bandwidth)
    said = f"DRAM busy {use.dram:.0%} while {rate / 1e9:.0f} of measured {best / 1e9:.0f} GB/s were read"
    # GPM counts against the data-sheet's rate, of which reads reach 85 to 95 %.
    yield line("GPM memory bandwidth against the bytes read", said, abs(use.dram - 0.9 * rate / best) < 0.2)
    yield line("GPM SM and tensor shares", f"SM {use.sm}, tensor {use.tensor}", use.sm is not None)


def graph_lines(device: str) -> Iterator[Line]:
    """A replayed CUDA graph under the profiler: its launches must own exactly its kernels."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from ftprof.profiler.traces.analyse import analyse

    if device == "cpu":
        raise Missing("no GPU")
    values = torch.ones(1 << 20, device=device)
    values.mul_(1.0)
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(GRAPH_KERNELS):
            values.mul_(1.0)
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        path = Path(folder) / "graph.json"
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            for _ in range(REPLAYS):
                graph.replay()
            torch.cuda.synchronize(device)
        profiler.export_chrome_trace(str(path))
        found = analyse(path).files[0]
    launches = found.device.launches if found.device else None
    if launches is None:
        yield line("graph replay", "no launches in the trace", False)
        return
    said = f"{launches.graph_launches} launches own {launches.graph_kernels} kernels"
    holds = (launches.graph_launches, launches.graph_kernels) == (REPLAYS, REPLAYS * GRAPH_KERNELS)
    yield line(f"graph replay: {REPLAYS} of {GRAPH_KERNELS} kernels", said, holds)
    whole = found.whole
    assert whole is not None
    total = sum(round(1e9 * value) for value in whole.parts().values())
    yield line("graph replay: parts sum to the window", f"{total} ns", total == round(1e9 * whole.total_s))
