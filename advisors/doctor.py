"""`ftprof doctor`: can this machine measure, what would spoil a measurement, and how to mend it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from ftprof.advisors.doctor_gpu import Gpu, gpus
from ftprof.advisors.doctor_host import Host, Storage, host
from ftprof.advisors.doctor_noise import Noise, measure_noise
from ftprof.advisors.environment import PACKAGES, environment
from ftprof.profiler.errors import Exit

Severity = Literal["forbids", "spoils", "note"]
GIB = 2**30

LARGEST_PROVABLE = 0.10
"""A run that cannot show a change of 10 % cannot tell whether most fixes help."""
LARGEST_BIAS = 0.05
"""Two processes that do the same must not differ by more, or every comparison of two processes would be void."""
BUSY = 0.3
"""Load per processor that is no background noise any more."""
STOLEN, PRESSURE, WAITING = 0.02, 0.01, 0.10
"""Shares of time: taken by the hypervisor, spent waiting for memory, waiting for a processor."""
LEAST_MEMORY_BYTES, LEAST_DISK_BYTES = GIB, 2 * GIB
"""A worker with torch and a small model takes half a GiB; scores and a saved copy take some GiB of disk."""


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Something that spoils measurements: what was seen with its figure, why it matters, and how to mend it."""

    severity: Severity
    what: str
    why: str
    fix: str


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The whole examination. `gpu_note` says why there is no GPU; `noise` is None where it could not be measured."""

    host: Host
    python: str
    platform: str
    packages: dict[str, str]
    absent: tuple[str, ...]
    gpus: tuple[Gpu, ...]
    gpu_note: str
    noise: Noise | None
    troubles: tuple[Trouble, ...]
    exit_code: int


def examine(budget_s: float, stage: Callable[[str], None], output: Path | None = None) -> Health:
    """Look at the machine, then run the same operation against itself for about `budget_s` seconds.

    `stage` is told what is being done. FtprofError where the processes of the noise run cannot be had.
    """
    stage("looking at the machine")
    # Before the noise run: afterwards the load would be our own.
    seen = host(Path(tempfile.gettempdir()), output or Path.cwd())
    devices, why_none = gpus()
    stage(f"the same operation in two processes, for {budget_s:.0f} s")
    noise = measure_noise(budget_s)
    around = environment("cpu")
    troubles = tuple(diagnose_host(seen, devices, noise))
    return Health(
        host=seen,
        python=around.python,
        platform=around.platform,
        packages=around.packages,
        absent=tuple(name for name in PACKAGES if name not in around.packages),
        gpus=devices,
        gpu_note=why_none,
        noise=noise,
        troubles=troubles,
        exit_code=verdict(troubles),
    )


def verdict(troubles: Sequence[Trouble]) -> int:
    """Exit code: 3 where something forbids measuring."""
    return int(Exit.UNRELIABLE if any(one.severity == "forbids" for one in troubles) else Exit.DONE)


def diagnose_host(seen: Host, devices: Sequence[Gpu], noise: Noise | None) -> Iterator[Trouble]:
    """All troubles. Pure."""
    yield from _noise(noise) if noise else ()
    yield from _processors(seen)
    yield from _clocks(seen)
    yield from _memory(seen)
    for storage in seen.storage:
        yield from _disk(storage)
    yield from _variables(seen)
    for index, device in enumerate(devices):
        yield from _gpu(index, device)


def _noise(noise: Noise) -> Iterator[Trouble]:
    wait = "stop what else runs, wait, or use another machine; then run ftprof doctor again"
    ratio = noise.ratio
    if noise.provable > LARGEST_PROVABLE:
        yield Trouble(
            severity="forbids",
            what=f"noise: a usual run could only show changes from {noise.provable:.0%} on",
            why=f"{ratio.pairs} pairs of the same operation scatter that much",
            fix=wait,
        )
    if ratio.low > 1 + LARGEST_BIAS or ratio.high < 1 - LARGEST_BIAS:
        yield Trouble(
            severity="forbids",
            what=f"two processes that do the same differ: {ratio.speedup:.3f}x ({ratio.low:.3f} to {ratio.high:.3f})",
            why="whichever variant gets the better process would win",
            fix=wait,
        )
    if noise.stolen is not None and noise.stolen > STOLEN:
        yield Trouble(
            severity="spoils",
            what=f"the hypervisor took {noise.stolen:.0%} of the time",
            why="other virtual machines share the processors",
            fix="use dedicated processors, or measure at a quiet hour",
        )
    if noise.swapped_pages:
        yield Trouble(
            severity="spoils",
            what=f"{noise.swapped_pages} pages were swapped during ten seconds of arithmetic",
            why="weights that lie in swap are read from the disk",
            fix="free memory, then swapoff -a; swapon -a",
        )
    if noise.throttled:
        yield Trouble(
            severity="spoils",
            what=f"the container was held back {noise.throttled} times",
            why="its quota of processor time was used up before its period ended",
            fix="raise the container's CPU limit, or set threads in the call file to what it grants",
        )


def _processors(seen: Host) -> Iterator[Trouble]:
    cpu = seen.cpu
    if cpu.quota is not None and cpu.quota < cpu.allowed:
        yield Trouble(
            severity="spoils",
            what=f"{cpu.allowed} processors are visible, the container grants {cpu.quota:g}",
            why="a thread for each visible processor uses up the quota and then all wait",
            fix=f"set threads = {max(1, int(cpu.quota))} in the call file, or raise the limit",
        )
    if cpu.load is not None and cpu.load > BUSY * cpu.allowed:
        yield Trouble(
            severity="spoils",
            what=f"a load of {cpu.load:.1f} on {cpu.allowed} processors before anything was measured",
            why="other processes take processor time, caches and memory bandwidth",
            fix="end them, or wait",
        )
    elif cpu.busy is not None and cpu.busy > WAITING:
        yield Trouble(
            severity="spoils",
            what=f"tasks waited for a processor {cpu.busy:.0%} of the last ten seconds",
            why="other processes compete for the processors",
            fix="end them, or wait",
        )


def _clocks(seen: Host) -> Iterator[Trouble]:
    if seen.cpu.governor in ("powersave", "ondemand", "conservative", "schedutil"):
        yield Trouble(
            severity="note",
            what=f"the CPU governor is {seen.cpu.governor}",
            why="the clock follows the load, so the first samples are slower than the later ones",
            fix="sudo cpupower frequency-set -g performance",
        )
    if seen.cpu.turbo:
        yield Trouble(
            severity="note",
            what="turbo is on",
            why="the clock falls as the package warms up, which looks like drift",
            fix="leave it on for figures as users see them; turn it off to compare small changes",
        )
    if seen.on_battery:
        yield Trouble(
            severity="spoils",
            what="the machine runs on its battery",
            why="clocks are lowered to save it",
            fix="plug it in",
        )


def _memory(seen: Host) -> Iterator[Trouble]:
    free = min(seen.available_bytes, seen.memory_limit_bytes or seen.available_bytes)
    if free < LEAST_MEMORY_BYTES:
        yield Trouble(
            severity="forbids",
            what=f"{free / GIB:.1f} GiB of memory are free",
            why="two workers with a model each need more; one will be killed",
            fix="free memory, or raise the container's limit",
        )
    if seen.memory_pressure is not None and seen.memory_pressure > PRESSURE:
        yield Trouble(
            severity="spoils",
            what=f"tasks waited for memory {seen.memory_pressure:.0%} of the last ten seconds",
            why="pages are being reclaimed or swapped while samples are taken",
            fix="free memory",
        )
    if seen.swap_used_bytes > GIB:
        yield Trouble(
            severity="note",
            what=f"{seen.swap_used_bytes / GIB:.1f} GiB of swap are in use",
            why="memory was short; what was swapped out comes back at a bad moment",
            fix="free memory, then swapoff -a; swapon -a",
        )


def _disk(storage: Storage) -> Iterator[Trouble]:
    if storage.free_bytes < LEAST_DISK_BYTES:
        yield Trouble(
            severity="spoils",
            what=f"{storage.free_bytes / GIB:.1f} GiB are free in {storage.path}",
            why="log-probabilities of the quality gate and a saved copy are written there",
            fix="make room, or set TMPDIR to a larger disk",
        )
    if storage.in_memory:
        yield Trouble(
            severity="note",
            what=f"{storage.path} lies in memory",
            why="scratch files there take memory from the model",
            fix="set TMPDIR to a directory on a disk where memory is short",
        )


def _variables(seen: Host) -> Iterator[Trouble]:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        threads = seen.variables.get(name, "")
        if threads.isdigit() and int(threads) > seen.cpu.allowed:
            yield Trouble(
                severity="spoils",
                what=f"{name} is {threads}, but {seen.cpu.allowed} processors may be used",
                why="more threads than processors wait for each other at every operation",
                fix=f"unset {name}",
            )
        elif threads == "1" and seen.cpu.allowed > 1:
            yield Trouble(
                severity="note",
                what=f"{name} is 1 on {seen.cpu.allowed} processors",
                why="everything runs on one thread",
                fix=f"unset {name}, unless that is how the model is served",
            )
    slow = {"CUDA_LAUNCH_BLOCKING": "1", "PYTHONDEVMODE": "1"}
    for name, value in slow.items():
        if seen.variables.get(name) == value:
            yield Trouble(
                severity="spoils",
                what=f"{name} is {value}",
                why="a debugging aid that slows every call",
                fix=f"unset {name}",
            )


def _gpu(index: int, device: Gpu) -> Iterator[Trouble]:
    if device.others:
        yield Trouble(
            severity="spoils",
            what=f"{device.others} other processes are on GPU {index} ({device.used_bytes / GIB:.1f} GiB in use)",
            why="they share its clock, memory and bandwidth",
            fix="end them, or choose another GPU with --device",
        )
    if device.held_back:
        yield Trouble(
            severity="spoils",
            what=f"the clock of GPU {index} is held back: {', '.join(device.held_back)}",
            why="its speed changes with its temperature and power",
            fix="improve its cooling, or lock its clock: nvidia-smi --lock-gpu-clocks",
        )
    if device.persistence is False:
        yield Trouble(
            severity="note",
            what=f"persistence mode of GPU {index} is off",
            why="its driver is loaded anew for each process, which shows as seconds of cold start",
            fix="sudo nvidia-smi -pm 1",
        )
