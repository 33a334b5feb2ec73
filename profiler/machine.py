"""The limits of this machine, measured: arithmetic by element type, read bandwidth by working set, cost of one op.

Everything is taken by behaviour (flags can lie in virtual machines), in this process and with its threads. Noise only
ever slows a run down, so a limit is the best of several medians.

Method: Time (docs/method.md).
"""

from __future__ import annotations

import hashlib
import os
import platform
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from ftprof.profiler.record import Bandwidth, Machine, ThreadGain
from ftprof.profiler.thread_scaling import threads_set

if TYPE_CHECKING:
    import torch

MIB = 1 << 20

# Flags that decide which kernels a runtime may use; the rest of /proc/cpuinfo says nothing about speed here.
ISA_FLAGS = (
    *("avx2", "fma", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_bf16", "amx_int8"),
    *("asimd", "asimddp", "bf16", "i8mm", "sve"),
)

# Small enough to finish within the budget on one core, large enough to reach the peak.
GEMM_SIZES = (768, 1536)

# From inside one core's cache to well beyond it; the visible last-level cache is shared with strangers, so only the
# measured curve counts.
WORKING_SETS = (4 * MIB, 32 * MIB, 128 * MIB, 256 * MIB)
MEMORY_FRACTION = 8
"""At most one part in eight of the free memory is used for a working set."""

_COLUMNS = 2048
_MATRIX_DTYPES = ("float32", "bfloat16", "int8")
_VECTOR_DTYPES = ("float32", "bfloat16")
_DISPATCH_CALLS = 2000


def measure_machine(threads: int | None = None, budget_s: float = 3.0) -> Machine:
    """Measure everything within about `budget_s` seconds. Runs inside a worker: it computes.

    `threads` sets the intra-op threads of this process first. Units: FLOP/s (operations per second for int8), bytes/s,
    seconds.
    """
    import torch

    from ftprof.profiler.calibrate import trace_cost, wrapper_cost

    started = time.perf_counter()
    if threads is not None:
        torch.set_num_threads(threads)
    with torch.inference_mode():
        peaks = gemm_peaks(0.40 * budget_s)
        bandwidth = bandwidth_curve(0.30 * budget_s)
        gain = thread_gain(0.15 * budget_s)
        dispatch = dispatch_cost()
        inside, outside = trace_cost()
        wrapper = wrapper_cost()
    return Machine(
        device="cpu",
        cpu=cpu_model(),
        cores=usable_cores(),
        threads=torch.get_num_threads(),
        memory_bytes=_memory()[0],
        flops_per_s=peaks,
        bandwidth=bandwidth,
        dispatch_s=dispatch,
        isa=isa_flags(),
        trace_in_s=inside,
        trace_out_s=outside,
        wrapper_s=wrapper,
        thread_gain=gain,
        measured_in_s=time.perf_counter() - started,
        fingerprint=fingerprint(),
    )


def gemm_peaks(budget_s: float) -> dict[str, float]:
    """Best matrix-multiplication rate by element type, operations/s; types without a kernel are left out."""
    share = budget_s / (len(_MATRIX_DTYPES) * len(GEMM_SIZES))
    peaks: dict[str, float] = {}
    for dtype in _MATRIX_DTYPES:
        for size in GEMM_SIZES:
            rate = _gemm_rate(dtype, size, share)
            if rate is not None:
                peaks[dtype] = max(rate, peaks.get(dtype, 0.0))
    return peaks


def _gemm_rate(dtype: str, size: int, budget_s: float) -> float | None:
    import torch

    multiply: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = torch._int_mm if dtype == "int8" else torch.mm
    a, b = _random(dtype, size, size), _random(dtype, size, size)
    try:
        seconds = best_of_medians(lambda: multiply(a, b), budget_s)
    except (RuntimeError, NotImplementedError):
        return None
    return 2.0 * size**3 / seconds


def _random(dtype: str, *shape: int) -> torch.Tensor:
    """Random data: zeros and regular patterns run faster than real weights on some hardware."""
    import torch

    if dtype == "int8":
        return torch.randint(-128, 127, shape, dtype=torch.int8)
    return torch.randn(shape, dtype=torch.float32).to(getattr(torch, dtype))


def bandwidth_curve(budget_s: float) -> tuple[Bandwidth, ...]:
    """Read bandwidth by matrix times vector, by element type and working set; sets too large for memory are left out."""
    free = _memory()[1]
    sizes = [size for size in WORKING_SETS if size <= free // MEMORY_FRACTION] or [WORKING_SETS[0]]
    share = budget_s / (len(sizes) * len(_VECTOR_DTYPES))
    return tuple(point for dtype in _VECTOR_DTYPES for point in _curve(dtype, sizes, share))


def _curve(dtype: str, sizes: list[int], budget_s: float) -> Iterator[Bandwidth]:
    """One allocation of the largest size serves all: its leading rows are the smaller ones."""
    import torch

    width = getattr(torch, dtype).itemsize
    block = _random(dtype, 1, _COLUMNS)
    full = block.expand(max(sizes) // (_COLUMNS * width), _COLUMNS).contiguous()
    vector = _random(dtype, _COLUMNS)
    for size in sizes:
        matrix = full[: size // (_COLUMNS * width)]
        seconds = best_of_medians(partial(torch.mv, matrix, vector), budget_s)
        yield Bandwidth(working_set_bytes=size, dtype=dtype, bytes_per_s=matrix.numel() * width / seconds)


def thread_gain(budget_s: float) -> ThreadGain | None:
    """What all threads gain over one at arithmetic and at reading, by element type; None where there is one only."""
    import torch

    if torch.get_num_threads() < 2:
        return None
    share = budget_s / (4 * len(_VECTOR_DTYPES))
    size = min(WORKING_SETS[-1], max(WORKING_SETS[0], _memory()[1] // MEMORY_FRACTION))
    rows = size // (_COLUMNS * 4)
    found = ThreadGain(compute={}, memory={})
    for dtype in _VECTOR_DTYPES:
        a, b = _random(dtype, GEMM_SIZES[0], GEMM_SIZES[0]), _random(dtype, GEMM_SIZES[0], GEMM_SIZES[0])
        found.compute[dtype] = _gain(partial(torch.mm, a, b), share)
        matrix = _random(dtype, 1, _COLUMNS).expand(rows, _COLUMNS).contiguous()
        found.memory[dtype] = _gain(partial(torch.mv, matrix, _random(dtype, _COLUMNS)), share)
    return found


def _gain(action: Callable[[], object], budget_s: float) -> float:
    with threads_set(1):
        alone = best_of_medians(action, budget_s)
    return alone / best_of_medians(action, budget_s)


def dispatch_cost() -> float:
    """Seconds of one tiny op called from Python: the floor below which no op's time says anything about its work."""
    import torch

    one, other = torch.zeros(1), torch.zeros(1)

    def calls() -> None:
        for _ in range(_DISPATCH_CALLS):
            one.add_(other)

    return best_of_medians(calls, 0.05) / _DISPATCH_CALLS


def peak_now() -> float:
    """FLOP/s of a float32 multiplication right now, in about 0.1 s: against an earlier one it shows drift."""
    import torch

    with torch.inference_mode():
        rate = _gemm_rate("float32", GEMM_SIZES[0], 0.1)
    return rate or 0.0


def best_of_medians(action: Callable[[], object], budget_s: float) -> float:
    """Shortest median of three runs of `action` in seconds: one median at least, after a warm-up, then to the budget."""
    deadline = time.perf_counter() + budget_s
    action()
    best = float("inf")
    while best == float("inf") or time.perf_counter() < deadline:
        best = min(best, median(_timed(action) for _ in range(3)))
    return best


def _timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def cpu_model() -> str:
    """The processor's name as the system gives it."""
    for key in ("model name", "Model", "Hardware"):
        if name := _cpuinfo().get(key):
            return name
    return platform.processor() or platform.machine()


def isa_flags() -> tuple[str, ...]:
    """The instruction-set flags that matter to matrix kernels, as the system lists them."""
    info = _cpuinfo()
    present = set((info.get("flags") or info.get("Features") or "").split())
    return tuple(flag for flag in ISA_FLAGS if flag in present)


def _cpuinfo() -> dict[str, str]:
    """First processor's entries of /proc/cpuinfo; empty where there is none."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    lines = (line.partition(":") for line in text.splitlines())
    found: dict[str, str] = {}
    for key, _, value in lines:
        found.setdefault(key.strip(), value.strip())
    return found


def usable_cores() -> int:
    """Processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory() -> tuple[int, int]:
    """Total and free memory, bytes."""
    import psutil

    memory = psutil.virtual_memory()
    return int(memory.total), int(memory.available)


def fingerprint() -> str:
    """SHA-256 over what moves the figures: processor, cores, flags, memory, and the versions that compute."""
    import torch

    parts = [
        cpu_model(),
        str(usable_cores()),
        " ".join(isa_flags()),
        # Whole GiB: the kernel's own share shifts the byte count between boots.
        str(_memory()[0] >> 30),
        platform.python_version(),
        torch.__version__,
        platform.release(),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
