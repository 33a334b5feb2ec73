"""The limits of an NVIDIA GPU, measured: arithmetic by element type, read bandwidth by working set, its shortest kernel."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from ftprof.profiler import machine
from ftprof.profiler.record import Bandwidth, Machine

if TYPE_CHECKING:
    import torch

GEMM_SIZES = (4096, 8192)
"""A data-centre part reaches its peak at 8192; smaller parts do at 4096, and would spend the budget on 8192."""
MATRIX_DTYPES = ("float32", "bfloat16", "float16", "int8")
VECTOR_DTYPES = ("float32", "bfloat16")
WORKING_SETS = (64 << 20, 512 << 20, 2 << 30)
"""From hardly beyond the last-level cache (50 MB on an H100) up; smaller products take less time than to launch them."""
_COLUMNS = 8192
_FLOOR_KERNELS = 200
_PEAK_S = 0.2


def measure_cuda(device: str, budget_s: float) -> Machine:
    """Measure everything on `device` ("cuda:0") within about `budget_s` seconds. Runs inside a worker: it computes.

    `dispatch_s` is the length of the shortest kernel, queued without a rest: what no op's device time goes below. Units
    as in `measure_machine`. FtprofError where torch sees no such device.
    """
    import torch

    from ftprof.profiler.calibrate import trace_cost, wrapper_cost

    require(device)
    started = time.perf_counter()
    properties = torch.cuda.get_device_properties(device)
    with torch.inference_mode():
        peaks = _peaks(device, 0.5 * budget_s)
        bandwidth = tuple(_curves(device, 0.35 * budget_s))
        floor = kernel_floor(device)
        inside, outside = trace_cost()
        wrapper = wrapper_cost()
    torch.cuda.empty_cache()
    return Machine(
        device=device,
        cpu=f"{properties.name}, host {machine.cpu_model()}",
        cores=machine.usable_cores(),
        threads=torch.get_num_threads(),
        memory_bytes=int(properties.total_memory),
        flops_per_s=peaks,
        bandwidth=bandwidth,
        dispatch_s=floor,
        isa=(f"sm_{properties.major}{properties.minor}",),
        trace_in_s=inside,
        trace_out_s=outside,
        wrapper_s=wrapper,
        measured_in_s=time.perf_counter() - started,
        fingerprint=_fingerprint(properties.name, int(properties.total_memory)),
    )


def require(device: str) -> None:
    """FtprofError where torch cannot use `device`."""
    import torch

    from ftprof.profiler.errors import FtprofError

    number = int(device.partition(":")[2] or 0)
    if not torch.cuda.is_available():
        built = "this torch has no CUDA" if torch.version.cuda is None else "torch finds no NVIDIA GPU"
        raise FtprofError(
            f"--device {device} cannot be used: {built}", "install a CUDA build of torch, or --device cpu"
        )
    if number >= torch.cuda.device_count():
        raise FtprofError(
            f"--device {device} is not there: torch sees {torch.cuda.device_count()} GPUs", "give one of cuda:0 and up"
        )


def cuda_peak_now(device: str) -> float:
    """FLOP/s of a bfloat16 multiplication right now: against an earlier one it shows drift."""
    import torch

    require(device)
    with torch.inference_mode():
        return _gemm_rate(device, "bfloat16", GEMM_SIZES[0], _PEAK_S) or 0.0


def _fingerprint(name: str, memory_bytes: int) -> str:
    parts = f"{machine.fingerprint()}\n{name}\n{memory_bytes >> 30}"
    return hashlib.sha256(parts.encode()).hexdigest()


def timed(action: Callable[[], object], device: str, budget_s: float) -> float:
    """Shortest median of three in seconds, by events on the device around as many calls as last a few milliseconds."""
    import torch

    deadline = time.perf_counter() + budget_s
    action()
    calls = max(1, min(100, int(5e-3 / max(_span(action, 1, device), 1e-6))))
    best = float("inf")
    while best == float("inf") or time.perf_counter() < deadline:
        best = min(best, median(_span(action, calls, device) for _ in range(3)))
    torch.cuda.synchronize(device)
    return best


def _span(action: Callable[[], object], calls: int, device: str) -> float:
    """Seconds a call between two events, the second one waited for."""
    import torch

    with torch.cuda.device(device):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            action()
        end.record()
        end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3 / calls


def _peaks(device: str, budget_s: float) -> dict[str, float]:
    """Best rate by element type; types without a kernel are left out."""
    share = budget_s / (len(MATRIX_DTYPES) * len(GEMM_SIZES))
    found: dict[str, float] = {}
    for dtype in MATRIX_DTYPES:
        for size in GEMM_SIZES:
            rate = _gemm_rate(device, dtype, size, share)
            if rate is not None:
                found[dtype] = max(rate, found.get(dtype, 0.0))
    return found


def _gemm_rate(device: str, dtype: str, size: int, budget_s: float) -> float | None:
    import torch

    multiply: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = torch._int_mm if dtype == "int8" else torch.mm
    try:
        # The second operand lies transposed, as the weights of a linear layer do; int8 kernels demand it.
        a, b = _random(device, dtype, size, size), _random(device, dtype, size, size).t()
        seconds = timed(lambda: multiply(a, b), device, budget_s)
    except (RuntimeError, NotImplementedError):
        return None
    return 2.0 * size**3 / seconds


def _random(device: str, dtype: str, *shape: int) -> torch.Tensor:
    """Random data: zeros run faster, since they draw less power."""
    import torch

    if dtype == "int8":
        return torch.randint(-128, 127, shape, dtype=torch.int8, device=device)
    return torch.randn(shape, device=device, dtype=getattr(torch, dtype))


def _curves(device: str, budget_s: float) -> Iterator[Bandwidth]:
    """Matrix times vector by element type and working set; sets too large for what is free are left out."""
    import torch

    free = torch.cuda.mem_get_info(device)[0]
    sizes = [size for size in WORKING_SETS if 2 * size <= free] or [WORKING_SETS[0]]
    share = budget_s / (len(sizes) * len(VECTOR_DTYPES))
    for dtype in VECTOR_DTYPES:
        width = getattr(torch, dtype).itemsize
        full = _random(device, dtype, sizes[-1] // (_COLUMNS * width), _COLUMNS)
        vector = _random(device, dtype, _COLUMNS)
        for size in sizes:
            matrix = full[: size // (_COLUMNS * width)]
            seconds = timed(partial(torch.mv, matrix, vector), device, share)
            yield Bandwidth(working_set_bytes=size, dtype=dtype, bytes_per_s=matrix.numel() * width / seconds)


def kernel_floor(device: str) -> float:
    """Seconds of the shortest kernel, replayed from a graph so that no launch call stands between two."""
    import torch

    one = torch.zeros(1, device=device)
    with torch.cuda.device(device):
        one.add_(1.0)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(_FLOOR_KERNELS):
                one.add_(1.0)
        return timed(graph.replay, device, 0.05) / _FLOOR_KERNELS
