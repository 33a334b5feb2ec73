"""NVIDIA GPUs by NVML alone: asking never takes memory on the device or wakes it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from ftprof.profiler.nvml import asked, held_back


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One device. `others` are processes on it; `held_back` the reasons for which its clock is below what was asked."""

    name: str
    driver: str
    memory_bytes: int
    used_bytes: int
    others: int | None = None
    temperature_c: int | None = None
    persistence: bool | None = None
    held_back: tuple[str, ...] = ()


def gpus() -> tuple[tuple[Gpu, ...], str]:
    """The devices, and why there are none ("" where there are some)."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return (), f"no NVIDIA GPU can be used: {error}"
    try:
        driver = _words(pynvml.nvmlSystemGetDriverVersion())
        found = tuple(_gpu(pynvml, index, driver) for index in range(pynvml.nvmlDeviceGetCount()))
    except pynvml.NVMLError as error:
        return (), f"NVML does not answer: {error}"
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()
    return found, "" if found else "NVML lists no GPU"


def _gpu(pynvml: Any, index: int, driver: str) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    reasons = asked(pynvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    running = asked(pynvml, "nvmlDeviceGetComputeRunningProcesses", handle)
    persistence = asked(pynvml, "nvmlDeviceGetPersistenceMode", handle)
    return Gpu(
        name=_words(pynvml.nvmlDeviceGetName(handle)),
        driver=driver,
        memory_bytes=int(memory.total),
        used_bytes=int(memory.used),
        others=None if running is None else len(running),
        temperature_c=asked(pynvml, "nvmlDeviceGetTemperature", handle, 0),
        persistence=None if persistence is None else bool(persistence),
        held_back=held_back(reasons or 0),
    )


def _words(text: str | bytes) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else text
