"""What the system says about itself: processors, limits of the container, clocks, memory, swap, disks. Reads, changes nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec


class Cpu(msgspec.Struct, frozen=True, kw_only=True):
    """Processors and what limits them. `quota` is the container's share in processors; `load` the mean of a minute."""

    model: str
    online: int
    allowed: int
    quota: float | None = None
    governor: str | None = None
    turbo: bool | None = None
    load: float | None = None
    busy: float | None = None
    """Share of the last ten seconds in which some task waited for a processor (pressure stall information)."""


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """A directory that a run writes to."""

    path: str
    free_bytes: int
    in_memory: bool = False


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about the machine but its noise and its GPUs. Sizes in bytes; None where the system does not say."""

    cpu: Cpu
    memory_bytes: int
    available_bytes: int
    memory_limit_bytes: int | None
    swap_used_bytes: int
    memory_pressure: float | None
    storage: tuple[Storage, ...]
    on_battery: bool | None = None
    variables: dict[str, str] = {}


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """Totals since boot, to be read twice: clock ticks in all and stolen, pages swapped, times the container was held."""

    ticks: int
    stolen: int
    swapped: int
    throttled: int | None = None


# Variables that slow every run or change its threads; what others say is nobody's business.
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_LAUNCH_BLOCKING", "LD_PRELOAD", "PYTHONDEVMODE", "TMPDIR")
IN_MEMORY = ("tmpfs", "ramfs")
UNLIMITED = 2**60
"""The first version of control groups writes a number near 2**63 where there is no limit."""


def host(temporary: Path, output: Path, root: Path = Path("/"), environment: Mapping[str, str] | None = None) -> Host:
    """Look around. `root` is where /proc and /sys lie; `temporary` and `output` are the directories of a run."""
    import psutil

    memory = psutil.virtual_memory()
    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    variables = os.environ if environment is None else environment
    return Host(
        cpu=cpu(root),
        memory_bytes=int(memory.total),
        available_bytes=int(memory.available),
        memory_limit_bytes=_memory_limit(root),
        swap_used_bytes=int(psutil.swap_memory().used),
        memory_pressure=_pressure(root, "memory"),
        storage=tuple(_storage(path, root) for path in dict.fromkeys((temporary, output))),
        on_battery=None if battery is None else not battery.power_plugged,
        variables={name: variables[name] for name in VARIABLES if name in variables},
    )


def cpu(root: Path = Path("/")) -> Cpu:
    """The processors as this process may use them."""
    from ftprof.profiler.machine import cpu_model

    online = os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else online
    return Cpu(
        model=cpu_model(),
        online=online,
        allowed=allowed,
        quota=_quota(root),
        governor=_text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        turbo=_turbo(root),
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        busy=_pressure(root, "cpu"),
    )


def counters(root: Path = Path("/")) -> Counters | None:
    """Totals now; None where the system has no /proc/stat."""
    stat = _text(root / "proc/stat")
    if stat is None:
        return None
    ticks = [int(field) for field in stat.splitlines()[0].split()[1:9]]
    pages = dict(line.split()[:2] for line in (_text(root / "proc/vmstat") or "").splitlines() if " " in line)
    held = [line.split()[1] for line in _cpu_stat(root) if line.startswith("nr_throttled ")]
    return Counters(
        ticks=sum(ticks),
        stolen=ticks[7] if len(ticks) > 7 else 0,
        swapped=int(pages.get("pswpin", 0)) + int(pages.get("pswpout", 0)),
        throttled=int(held[0]) if held else None,
    )


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Directories of this process's control group, of the second version and of the first, the innermost first."""
    fs = root / "sys/fs/cgroup"
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        _, names, path = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        top = fs / controller if names else fs
        inner = top / path.lstrip("/")
        yield from (inner, *(parent for parent in inner.parents if parent == top or top in parent.parents))


def _first(root: Path, controller: str, *names: str) -> str | None:
    found = (_text(group / name) for group in _groups(root, controller) for name in names)
    return next((text for text in found if text is not None), None)


def _quota(root: Path) -> float | None:
    """Processors that the control group grants; None where it does not limit them."""
    both = _first(root, "cpu", "cpu.max")
    if both is not None:
        quota, _, period = both.partition(" ")
        return None if quota == "max" else int(quota) / int(period or 100_000)
    old, length = _first(root, "cpu", "cpu.cfs_quota_us"), _first(root, "cpu", "cpu.cfs_period_us")
    return int(old) / int(length) if old and length and int(old) > 0 else None


def _memory_limit(root: Path) -> int | None:
    text = _first(root, "memory", "memory.max", "memory.limit_in_bytes")
    return int(text) if text and text.isdigit() and int(text) < UNLIMITED else None


def _cpu_stat(root: Path) -> list[str]:
    return (_first(root, "cpu", "cpu.stat") or "").splitlines()


def _turbo(root: Path) -> bool | None:
    cpus = root / "sys/devices/system/cpu"
    no_turbo, boost = _text(cpus / "intel_pstate/no_turbo"), _text(cpus / "cpufreq/boost")
    if no_turbo is not None:
        return no_turbo == "0"
    return None if boost is None else boost == "1"


def _pressure(root: Path, what: str) -> float | None:
    """Share of the last ten seconds in which some task was held up."""
    line = (_text(root / "proc/pressure" / what) or "").partition("\n")[0]
    fields = dict(part.split("=", 1) for part in line.split() if "=" in part)
    return float(fields["avg10"]) / 100 if "avg10" in fields else None


def _storage(path: Path, root: Path) -> Storage:
    there = next(parent for parent in (path.resolve(), *path.resolve().parents) if parent.exists())
    mounts = [line.split()[1:3] for line in (_text(root / "proc/mounts") or "").splitlines() if len(line.split()) > 2]
    above = [(Path(point), kind) for point, kind in mounts if there.is_relative_to(point)]
    kind = max(above, key=lambda entry: len(entry[0].parts))[1] if above else ""
    return Storage(path=str(path), free_bytes=shutil.disk_usage(there).free, in_memory=kind in IN_MEMORY)
