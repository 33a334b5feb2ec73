"""How noisy is this machine now? One small operation in two processes, interleaved as a real comparison is."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import msgspec

from ftprof.advisors.doctor_host import Counters, counters
from ftprof.advisors.duel import Samples, duel, ratios
from ftprof.profiler.comparison import Ratio
from ftprof.profiler.paired import DETECTABLE_SDS, log_ratios
from ftprof.profiler.processes import Handle, quiet_start, settle
from ftprof.profiler.spread import robust_sd

CUBE = 512
"""Side of the matrices: a product of about a millisecond on one core, in no cache's interest."""
SAMPLE_S = 0.04
"""Time of one sample: short enough for dozens of pairs in ten seconds, long enough for a clock's jitter not to count."""
TYPICAL_PAIRS = 12
"""Pairs at which a run's precision is first looked at."""
START_S = 120.0


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """`ratio` is one process against the other, which run the same; `provable` the smallest relative change that a run
    of TYPICAL_PAIRS pairs could show here. `stolen` is the share of time that a hypervisor gave to others."""

    ratio: Ratio
    provable: float
    seconds: float
    stolen: float | None = None
    swapped_pages: int | None = None
    throttled: int | None = None


class _Arm:
    """One of the two processes."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def enter(self, scenario: str, unit: int) -> None:
        settle()
        self._handle.call("sample", timeout_s=START_S)

    def sample(self, scenario: str, unit: int) -> dict[str, float]:
        seconds: float = self._handle.call("sample", timeout_s=START_S)
        return {"e2e": seconds}

    def leave(self) -> None:
        self._handle.rest()


def measure_noise(budget_s: float) -> Noise:
    """Measured for about `budget_s` seconds, after the processes have started. FtprofError where one dies."""
    with tempfile.TemporaryDirectory(prefix="ftprof-") as scratch, ExitStack() as workers:
        handles = [
            workers.enter_context(Handle(serve, name, Path(scratch) / f"{name}.log", "cpu")) for name in ("A", "B")
        ]
        count = max(handle.call("ready", timeout_s=START_S) for handle in handles)
        for handle in handles:
            handle.call("repeat", count)
            handle.rest()
        before, begin = counters(), time.monotonic()
        first, second = (_Arm(handle) for handle in handles)
        samples = duel(
            first, second, "", quads=200, least=2, deadline=begin + budget_s, now=time.monotonic, half_width=0.0
        )
        return _noise(samples, before, counters())


def _noise(samples: Samples, before: Counters | None, after: Counters | None) -> Noise:
    logs = log_ratios(*samples.pairs("e2e"))
    spread = robust_sd(logs)
    stolen = swapped = throttled = None
    if before is not None and after is not None:
        passed = after.ticks - before.ticks
        stolen = (after.stolen - before.stolen) / passed if passed > 0 else None
        swapped = after.swapped - before.swapped
        if before.throttled is not None and after.throttled is not None:
            throttled = after.throttled - before.throttled
    return Noise(
        ratio=ratios(samples)["e2e"],
        provable=DETECTABLE_SDS * spread / TYPICAL_PAIRS**0.5,
        seconds=samples.seconds,
        stolen=stolen,
        swapped_pages=swapped,
        throttled=throttled,
    )


def serve(pipe: Connection, log: str) -> None:
    """A worker that multiplies two matrices on request: `ready`, `repeat` and `sample`."""
    quiet_start(log)
    import torch

    one, other = torch.randn(CUBE, CUBE), torch.randn(CUBE, CUBE)
    repeats = 1

    def sample() -> float:
        start = time.perf_counter()
        for _ in range(repeats):
            torch.mm(one, other)
        return time.perf_counter() - start

    while True:
        try:
            method, arguments, _ = pipe.recv()
        except EOFError:
            return
        if method == "repeat":
            repeats = int(arguments[0])
        pipe.send(_repeats(sample) if method == "ready" else sample() if method == "sample" else None)


def _repeats(sample: Callable[[], float]) -> int:
    """Products that take about SAMPLE_S together."""
    sample()
    return max(1, round(SAMPLE_S / median(sample() for _ in range(5))))
