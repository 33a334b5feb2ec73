"""NVIDIA GPUs by NVML alone: asking never takes memory on the device or wakes it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec


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


# Bits of NVML's clock event reasons that cost speed; idleness (1) and what the user set do not count as faults.
REASONS = {
    0x4: "power cap",
    0x8: "hardware slow-down",
    0x20: "thermal limit (software)",
    0x40: "thermal limit (hardware)",
    0x80: "power brake",
}


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
    reasons = _asked(pynvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    running = _asked(pynvml, "nvmlDeviceGetComputeRunningProcesses", handle)
    persistence = _asked(pynvml, "nvmlDeviceGetPersistenceMode", handle)
    return Gpu(
        name=_words(pynvml.nvmlDeviceGetName(handle)),
        driver=driver,
        memory_bytes=int(memory.total),
        used_bytes=int(memory.used),
        others=None if running is None else len(running),
        temperature_c=_asked(pynvml, "nvmlDeviceGetTemperature", handle, 0),
        persistence=None if persistence is None else bool(persistence),
        held_back=tuple(word for bit, word in REASONS.items() if (reasons or 0) & bit),
    )


def _asked(pynvml: Any, question: str, *arguments: Any) -> Any:
    """The answer, or None: slices of a device and old drivers do not answer everything."""
    try:
        return getattr(pynvml, question)(*arguments)
    except (pynvml.NVMLError, AttributeError):
        return None


def _words(text: str | bytes) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else text
