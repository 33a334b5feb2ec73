"""NVML through its real binding, against a stand-in for the driver's library that is compiled here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ftprof.profiler.nvml import device_use, held_back
from ftprof.profiler.nvml_energy import token_energy
from ftprof.profiler.record import DeviceSample

SOURCE = Path(__file__).parent / "nvml_stub.c"
# In a process of its own: the binding loads the library by its name, once.
SCRIPT = """
import ctypes, json, sys, time
import msgspec
from ftprof.profiler.nvml import Device, Sampler
import pynvml
try:
    device = Device(int(sys.argv[1]))
except pynvml.NVMLError as error:
    print(json.dumps({"refused": str(error)}))
    sys.exit()
sampler = Sampler(device, period_s=0.01)
while len(sampler.samples) < 6 and sampler.lost is None:
    time.sleep(0.01)
samples = sampler.stop()
left = pynvml.nvmlLib.stubSamplesOpen()
print(json.dumps({"samples": msgspec.to_builtins(samples), "lost": sampler.lost, "left": left, "notes": sampler.notes}))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler on Linux")
    folder = tmp_path_factory.mktemp("nvml")
    target = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(target), str(SOURCE)], check=True)
    return folder


def readings(library: Path, index: int = 0, **environment: str) -> dict[str, Any]:
    out = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(index)],
        env={**os.environ, "LD_LIBRARY_PATH": str(library), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(out.stdout)
    return found


def test_everything_that_the_device_answers_is_read(library: Path) -> None:
    found = readings(library)
    first, *_, last = found["samples"]
    assert (first["power_w"], first["memory_bytes"], first["utilisation"]) == (300.0, 10 << 30, 0.97)
    assert (first["sm_clock_mhz"], first["memory_clock_mhz"], first["temperature_c"]) == (1755, 2619, 61)
    assert (first["sm"], first["dram"]) == (0.2, 1.0)
    assert first["tensor"] is None, "one metric that is not answered does not cost the others"
    assert {tuple(sample["held_back"]) for sample in found["samples"]} == {("power cap",), ()}
    assert last["energy_j"] > first["energy_j"]
    assert last["at_s"] > first["at_s"]
    assert (found["lost"], found["left"], found["notes"]) == (None, 0, [])


def test_what_is_missing_is_none_and_costs_nothing_else(library: Path) -> None:
    found = readings(library, STUB_SILENT="1", STUB_MIG="1")
    assert "MIG" in found["notes"][0]
    for sample in found["samples"]:
        assert (sample["power_w"], sample["sm_clock_mhz"], sample["memory_clock_mhz"]) == (300.0, 1755, None)
        assert sample["energy_j"] is sample["utilisation"] is sample["sm"] is None


def test_a_part_without_gpm(library: Path) -> None:
    assert all(sample["sm"] is None for sample in readings(library, STUB_NO_GPM="1")["samples"])


def test_a_lost_device_ends_the_readings_and_keeps_those_before(library: Path) -> None:
    found = readings(library, STUB_LOST="4")
    assert len(found["samples"]) == 3
    assert "lost" in found["lost"].lower()
    assert "readings end there" in found["notes"][0]


def test_a_device_that_is_not_there_is_refused(library: Path) -> None:
    assert "refused" in readings(library, index=3)


def test_no_driver_is_refused(tmp_path: Path) -> None:
    assert "refused" in readings(tmp_path)


def sample(at_s: float, power_w: float | None, **more: Any) -> DeviceSample:
    return DeviceSample(at_s=at_s, power_w=power_w, **more)


def test_energy_is_the_counters_else_integrated_power_else_unknown() -> None:
    counted = device_use([sample(0, 100, energy_j=50.0), sample(2, 100, energy_j=450.0)])
    integrated = device_use([sample(0, 100), sample(1, 300), sample(2, 300)])
    reset = device_use([sample(0, 100, energy_j=900.0), sample(2, 100, energy_j=3.0)])
    unknown = device_use([sample(0, 100), sample(2, None)])
    assert [use and use.energy_j for use in (counted, integrated, reset, unknown)] == [400.0, 500.0, 200.0, None]
    assert device_use([sample(0, 100)]) is None


class Steady:
    """A device at 200 W whose every question and unit takes a quarter of a second, on a clock of its own."""

    def __init__(self, lost: str | None = None, power_w: float | None = 200.0) -> None:
        self.lost, self._power_w, self._now = lost, power_w, 10.0
        self.samples: tuple[DeviceSample, ...] = ()

    def now_s(self) -> float:
        return self._now

    def unit(self) -> int:
        self._now += 0.25
        self.samples = (*self.samples, sample(self._now - 0.1, self._power_w))
        return 5


def test_energy_a_token_is_mean_power_over_what_was_made() -> None:
    device: Any = Steady()
    found = token_energy(device, device.unit, scenario="single", least_s=2.0)
    assert found is not None
    assert (found.tokens, found.seconds) == (40, 2.0)
    assert found.per_token_j == pytest.approx(200.0 * 2.0 / 40)


def test_energy_a_token_is_unknown_where_power_is_or_the_device_is_lost() -> None:
    for device in (Steady(power_w=None), Steady(lost="GPU is lost")):
        asked: Any = device
        assert token_energy(asked, asked.unit, scenario="single", least_s=1.0) is None


def test_reasons_are_shares_of_the_readings_that_had_any_answer() -> None:
    found = device_use([sample(0, 1, held_back=("power cap",)), sample(1, 1, held_back=()), sample(2, 1)])
    assert found is not None
    assert found.held_back == {"power cap": 0.5}
    assert held_back(0x4 | 0x20) == ("power cap", "thermal limit (software)")
