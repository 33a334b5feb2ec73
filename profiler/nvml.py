"""What an NVIDIA device does while a model runs on it: NVML readings at a fixed rate, in a thread of their own.

NVML answers by device and driver: whatever is missing is None from then on, and a device that is lost ends the readings
and keeps those before. "GPU utilisation" says no more than that some kernel ran (G, finding 11); SM, tensor and DRAM
shares come from GPM where the part has it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import msgspec

from ftprof.profiler.record import DeviceSample

PERIOD_S = 0.1
"""NVML itself renews power and clocks about ten times a second on data-centre parts."""

# Bits of the clock event reasons that cost speed; idleness (1) and what the user set do not count as faults.
REASONS = {
    0x4: "power cap",
    0x8: "hardware slow-down",
    0x20: "thermal limit (software)",
    0x40: "thermal limit (hardware)",
    0x80: "power brake",
}
_GONE = (1, 15)
"""NVML_ERROR_UNINITIALIZED and NVML_ERROR_GPU_IS_LOST."""
_SM_CLOCK, _MEMORY_CLOCK, _TEMPERATURE_GPU = 1, 2, 0
_GPM = {"sm": 2, "tensor": 5, "dram": 10}
"""NVML_GPM_METRIC_SM_UTIL, ANY_TENSOR_UTIL and DRAM_BW_UTIL, in percent."""


def held_back(reasons: int) -> tuple[str, ...]:
    """Why the clock is below what was asked, in words."""
    return tuple(word for bit, word in REASONS.items() if reasons & bit)


def asked(pynvml: Any, question: str, *arguments: Any) -> Any:
    """The answer, or None: slices of a device and old drivers do not answer everything. A lost device raises."""
    try:
        return getattr(pynvml, question)(*arguments)
    except AttributeError:
        return None
    except pynvml.NVMLError as error:
        if getattr(error, "value", None) in _GONE:
            raise
        return None


class Device:
    """One device, open for readings. OSError-like faults of NVML come out as `pynvml.NVMLError`."""

    def __init__(self, index: int = 0, uuid: str | None = None) -> None:
        """`uuid` names the device where the order of CUDA and NVML may differ (CUDA_VISIBLE_DEVICES)."""
        import pynvml

        self._nvml: Any = pynvml
        pynvml.nvmlInit()
        self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid) if uuid else pynvml.nvmlDeviceGetHandleByIndex(index)
        mode = asked(pynvml, "nvmlDeviceGetMigMode", self._handle)
        self.sliced = bool(mode and mode[0])
        """Whether the device is cut up by MIG: readings of the whole then say little about one slice."""
        self._silent: set[tuple[str, tuple[Any, ...]]] = set()
        self._gpm = self._open_gpm()
        self._began = time.monotonic()

    def _open_gpm(self) -> Any:
        support = asked(self._nvml, "nvmlGpmQueryDeviceSupport", self._handle)
        if self.sliced or support is None or not support.isSupportedDevice:
            return None
        first = asked(self._nvml, "nvmlGpmSampleAlloc")
        return first and asked(self._nvml, "nvmlGpmSampleGet", self._handle, first)

    def _ask(self, question: str, *arguments: Any) -> Any:
        """What was not answered once is not asked again."""
        if (question, arguments) in self._silent:
            return None
        answer = asked(self._nvml, question, self._handle, *arguments)
        if answer is None:
            self._silent.add((question, arguments))
        return answer

    def now_s(self) -> float:
        """Seconds on the clock of `DeviceSample.at_s`."""
        return time.monotonic() - self._began

    def read(self) -> DeviceSample:
        """One reading now; NVMLError where the device is lost."""
        power, energy = self._ask("nvmlDeviceGetPowerUsage"), self._ask("nvmlDeviceGetTotalEnergyConsumption")
        memory, rates = self._ask("nvmlDeviceGetMemoryInfo"), self._ask("nvmlDeviceGetUtilizationRates")
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:
            reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")  # its name before driver 535
        return DeviceSample(
            at_s=self.now_s(),
            power_w=None if power is None else power / 1e3,
            energy_j=None if energy is None else energy / 1e3,
            memory_bytes=None if memory is None else int(memory.used),
            utilisation=None if rates is None else rates.gpu / 100,
            sm_clock_mhz=self._ask("nvmlDeviceGetClockInfo", _SM_CLOCK),
            memory_clock_mhz=self._ask("nvmlDeviceGetClockInfo", _MEMORY_CLOCK),
            temperature_c=self._ask("nvmlDeviceGetTemperature", _TEMPERATURE_GPU),
            held_back=None if reasons is None else held_back(reasons),
            **self._shares(),
        )

    def _shares(self) -> dict[str, float]:
        """Busy shares since the reading before; empty without GPM."""
        if self._gpm is None:
            return {}
        now = asked(self._nvml, "nvmlGpmSampleAlloc")
        if now is None or asked(self._nvml, "nvmlGpmSampleGet", self._handle, now) is None:
            return {}
        wanted = self._nvml.c_nvmlGpmMetricsGet_t()
        wanted.version, wanted.numMetrics = self._nvml.NVML_GPM_METRICS_GET_VERSION, len(_GPM)
        wanted.sample1, wanted.sample2 = self._gpm, now
        for place, metric in enumerate(_GPM.values()):
            wanted.metrics[place].metricId = metric
        answer = asked(self._nvml, "nvmlGpmMetricsGet", wanted)
        asked(self._nvml, "nvmlGpmSampleFree", self._gpm)
        self._gpm = now
        if answer is None:
            return {}
        found = {name: answer.metrics[place] for place, name in enumerate(_GPM)}
        return {name: metric.value / 100 for name, metric in found.items() if metric.nvmlReturn == 0}

    def close(self) -> None:
        if self._gpm is not None:
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlGpmSampleFree(self._gpm)
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()


class Sampler:
    """Reads a device every `period_s` until it is stopped; `lost` says why readings ended before that."""

    def __init__(self, device: Device, period_s: float = PERIOD_S) -> None:
        self._device, self._period_s = device, period_s
        self._samples: list[DeviceSample] = []
        self._stop = threading.Event()
        self.lost: str | None = None
        self._thread = threading.Thread(target=self._run, name="ftprof nvml", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            try:
                self._samples.append(self._device.read())
            except Exception as error:  # noqa: BLE001 - whatever a driver answers must not end the run
                self.lost = str(error) or type(error).__name__
                return
            due += self._period_s

    def now_s(self) -> float:
        """Seconds on the clock of the readings."""
        return self._device.now_s()

    @property
    def notes(self) -> tuple[str, ...]:
        """What to hold against the readings, in sentences."""
        sliced = "The device is cut up by MIG: power, energy and clocks are those of the whole, not of this slice."
        lost = f"NVML stopped answering ({self.lost}); readings end there."
        return (*([sliced] if self._device.sliced else []), *([lost] if self.lost else []))

    @property
    def samples(self) -> tuple[DeviceSample, ...]:
        """What was read so far, in order."""
        return tuple(self._samples)

    def stop(self) -> tuple[DeviceSample, ...]:
        """End the thread, close the device and return all readings."""
        self._stop.set()
        self._thread.join(timeout=5.0)
        self._device.close()
        return self.samples


def watch(device: str) -> Sampler | None:
    """Start reading the device that torch calls `device` ("cuda", "cuda:1"); None where NVML does not answer.

    It is found by its UUID, since CUDA_VISIBLE_DEVICES and the two libraries may number devices otherwise.
    """
    import pynvml
    import torch

    try:
        uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
        return Sampler(Device(uuid=f"GPU-{uuid}") if uuid else Device(index=torch.device(device).index or 0))
    except (pynvml.NVMLError, RuntimeError, AssertionError):
        return None


class DeviceUse(msgspec.Struct, frozen=True, kw_only=True):
    """Readings of a span, summed up: mean power, joules, peaks, and the reasons that held the clock back, with the share
    of readings that named each."""

    seconds: float
    readings: int
    power_w: float | None
    energy_j: float | None
    peak_memory_bytes: int | None
    sm: float | None
    tensor: float | None
    dram: float | None
    held_back: dict[str, float]
    token_energy_j: float | None = None
    """Joules a token (a row, for encoders) of the first scenario, measured on its own."""
    notes: tuple[str, ...] = ()


def device_use(
    samples: Sequence[DeviceSample], token_energy_j: float | None = None, notes: tuple[str, ...] = ()
) -> DeviceUse | None:
    """None for fewer than two readings, which span no time.

    Energy is the counter's difference where there is one, else power integrated between readings.
    """
    if len(samples) < 2:
        return None
    named = [sample.held_back for sample in samples if sample.held_back is not None]
    words = {word for found in named for word in found}
    memory = [sample.memory_bytes for sample in samples if sample.memory_bytes is not None]
    return DeviceUse(
        seconds=samples[-1].at_s - samples[0].at_s,
        readings=len(samples),
        power_w=_mean([sample.power_w for sample in samples]),
        energy_j=_energy(samples),
        peak_memory_bytes=max(memory, default=None),
        sm=_mean([sample.sm for sample in samples]),
        tensor=_mean([sample.tensor for sample in samples]),
        dram=_mean([sample.dram for sample in samples]),
        held_back={word: sum(word in found for found in named) / len(named) for word in sorted(words)},
        token_energy_j=token_energy_j,
        notes=notes,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _energy(samples: Sequence[DeviceSample]) -> float | None:
    first, last = samples[0].energy_j, samples[-1].energy_j
    # The counter starts again when the driver is loaded anew.
    if first is not None and last is not None and last >= first:
        return last - first
    steps = [
        0.5 * (a.power_w + b.power_w) * (b.at_s - a.at_s)
        for a, b in pairwise(samples)
        if a.power_w is not None and b.power_w is not None
    ]
    return sum(steps) if len(steps) == len(samples) - 1 else None
