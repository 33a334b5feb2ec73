from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from ftprof.advisors.doctor import Health, diagnose_host, verdict
from ftprof.advisors.doctor_gpu import Gpu, gpus
from ftprof.advisors.doctor_host import Cpu, Host, Storage, counters, cpu, host
from ftprof.advisors.doctor_noise import Noise, measure_noise
from ftprof.profiler import nvml
from ftprof.profiler.comparison import Ratio
from ftprof.reports import doctor as views
from tests.reports.on_console import console_text

GIB = 2**30
STEADY = Ratio(speedup=1.001, low=0.995, high=1.007, pairs=40, verdict="equivalent")
QUIET = Noise(ratio=STEADY, provable=0.02, seconds=10.0, stolen=0.0, swapped_pages=0, throttled=0)
GPU = Gpu(name="H200", driver="580.1", memory_bytes=139 * GIB, used_bytes=GIB, others=0, persistence=True)


def well(**changes: object) -> Host:
    """A quiet machine."""
    plain = Host(
        cpu=Cpu(model="Xeon", online=8, allowed=8, governor="performance", turbo=False, load=0.1, busy=0.0),
        memory_bytes=64 * GIB,
        available_bytes=60 * GIB,
        memory_limit_bytes=None,
        swap_used_bytes=0,
        memory_pressure=0.0,
        storage=(Storage(path="/tmp", free_bytes=100 * GIB),),
        on_battery=False,
    )
    return msgspec.structs.replace(plain, **changes)


def with_cpu(**changes: object) -> Host:
    return well(cpu=msgspec.structs.replace(well().cpu, **changes))


def test_a_quiet_machine_has_no_trouble() -> None:
    assert list(diagnose_host(well(), (GPU,), QUIET)) == []
    assert verdict(()) == 0


@pytest.mark.parametrize(
    ("noise", "word"),
    [
        (msgspec.structs.replace(QUIET, provable=0.2), "changes from 20% on"),
        (msgspec.structs.replace(QUIET, ratio=msgspec.structs.replace(STEADY, low=1.06, high=1.1)), "two processes"),
        (msgspec.structs.replace(QUIET, ratio=msgspec.structs.replace(STEADY, low=0.9, high=0.94)), "two processes"),
    ],
)
def test_noise_forbids_measuring(noise: Noise, word: str) -> None:
    found = list(diagnose_host(well(), (), noise))
    assert [one.severity for one in found] == ["forbids"]
    assert word in found[0].what and found[0].fix
    assert verdict(found) == 3


@pytest.mark.parametrize(
    ("seen", "severity", "what", "fix"),
    [
        (with_cpu(quota=2.0), "spoils", "the container grants 2", "threads = 2"),
        (with_cpu(load=4.0), "spoils", "a load of 4.0 on 8", "end them"),
        (with_cpu(busy=0.5), "spoils", "waited for a processor 50%", "end them"),
        (with_cpu(governor="powersave"), "note", "powersave", "performance"),
        (with_cpu(turbo=True), "note", "turbo", "small changes"),
        (well(on_battery=True), "spoils", "battery", "plug"),
        (well(available_bytes=GIB // 2), "forbids", "0.5 GiB of memory", "free memory"),
        (well(memory_limit_bytes=GIB // 2), "forbids", "0.5 GiB of memory", "limit"),
        (well(memory_pressure=0.2), "spoils", "waited for memory 20%", "free memory"),
        (well(swap_used_bytes=3 * GIB), "note", "3.0 GiB of swap", "swapoff"),
        (well(storage=(Storage(path="/tmp", free_bytes=GIB),)), "spoils", "1.0 GiB are free in /tmp", "TMPDIR"),
        (well(storage=(Storage(path="/tmp", free_bytes=9 * GIB, in_memory=True),)), "note", "in memory", "TMPDIR"),
        (well(variables={"OMP_NUM_THREADS": "32"}), "spoils", "OMP_NUM_THREADS is 32", "unset"),
        (well(variables={"OMP_NUM_THREADS": "1"}), "note", "OMP_NUM_THREADS is 1", "unset"),
        (well(variables={"CUDA_LAUNCH_BLOCKING": "1"}), "spoils", "CUDA_LAUNCH_BLOCKING", "unset"),
    ],
)
def test_each_trouble_is_named_with_its_figure_and_its_remedy(seen: Host, severity: str, what: str, fix: str) -> None:
    found = list(diagnose_host(seen, (), QUIET))
    assert [one.severity for one in found] == [severity]
    assert what in found[0].what and fix in found[0].fix and found[0].why


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"others": 2}, "2 other processes"),
        ({"held_back": ("power cap",)}, "power cap"),
        ({"persistence": False}, "off"),
    ],
)
def test_gpu_troubles(changes: dict[str, object], what: str) -> None:
    found = list(diagnose_host(well(), (GPU, msgspec.structs.replace(GPU, **changes)), QUIET))
    assert len(found) == 1 and what in found[0].what and "GPU 1" in found[0].what


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"stolen": 0.1}, "hypervisor took 10%"),
        ({"swapped_pages": 7}, "7 pages"),
        ({"throttled": 3}, "held back 3 times"),
    ],
)
def test_what_happened_during_the_noise_run(changes: dict[str, object], what: str) -> None:
    found = list(diagnose_host(well(), (), msgspec.structs.replace(QUIET, **changes)))
    assert len(found) == 1 and what in found[0].what and found[0].severity == "spoils"


def plant(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_limits_of_the_second_version_of_control_groups(tmp_path: Path) -> None:
    root = plant(
        tmp_path,
        proc__self__cgroup="0::/job/step\n",
        sys__fs__cgroup__job__cpu_DOT_max="150000 100000\n",
        sys__fs__cgroup__job__step__memory_DOT_max="2147483648\n",
        sys__fs__cgroup__job__cpu_DOT_stat="usage_usec 1\nnr_throttled 12\n",
        proc__stat="cpu  10 0 5 80 2 0 0 3 0 0\ncpu0 1\n",
        proc__vmstat="nr_free 5\npswpin 2\npswpout 3\n",
        proc__pressure__memory="some avg10=1.50 avg60=0.00 avg300=0.00 total=0\n",
        proc__pressure__cpu="some avg10=40.00 avg60=0.00 avg300=0.00 total=0\n",
        sys__devices__system__cpu__cpu0__cpufreq__scaling_governor="ondemand\n",
        sys__devices__system__cpu__intel_pstate__no_turbo="0\n",
        proc__mounts=f"none {tmp_path} tmpfs rw 0 0\n",
    )
    seen = host(tmp_path, tmp_path / "new" / "out", root, {"OMP_NUM_THREADS": "3", "HF_TOKEN": "x"})
    assert (seen.cpu.quota, seen.cpu.governor, seen.cpu.turbo, seen.cpu.busy) == (1.5, "ondemand", True, 0.4)
    assert (seen.memory_limit_bytes, seen.memory_pressure) == (2 * GIB, 0.015)
    assert [one.in_memory for one in seen.storage] == [True, True]
    assert seen.variables == {"OMP_NUM_THREADS": "3"}, "and no other"
    now = counters(root)
    assert now is not None
    assert (now.ticks, now.stolen, now.swapped, now.throttled) == (100, 3, 5, 12)


def test_limits_of_the_first_version(tmp_path: Path) -> None:
    root = plant(
        tmp_path,
        proc__self__cgroup="5:cpu,cpuacct:/box\n4:memory:/\n",
        **{"sys__fs__cgroup__cpu,cpuacct__box__x": ""},
        sys__fs__cgroup__cpu__box__cpu_DOT_cfs_quota_us="50000\n",
        sys__fs__cgroup__cpu__box__cpu_DOT_cfs_period_us="100000\n",
        sys__fs__cgroup__memory__memory_DOT_limit_in_bytes="9223372036854771712\n",
    )
    assert cpu(root).quota == 0.5
    assert host(tmp_path, tmp_path, root, {}).memory_limit_bytes is None, "near 2**63 is no limit"


def test_a_system_that_says_nothing(tmp_path: Path) -> None:
    seen = host(tmp_path, tmp_path, tmp_path, {})
    assert (seen.cpu.quota, seen.cpu.governor, seen.cpu.turbo, seen.memory_limit_bytes) == (None,) * 4
    assert counters(tmp_path) is None
    json.dumps(msgspec.to_builtins(seen))


def test_gpus_by_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the library with one device, which does not answer about its persistence mode."""

    class NVMLError(Exception):
        pass

    def refuse(handle: object) -> int:
        raise NVMLError("Not Supported")

    stand_in = SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlSystemGetDriverVersion=lambda: b"580.1",
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=80 * GIB, used=GIB),
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: 0x1 | 0x4 | 0x40,
        nvmlDeviceGetComputeRunningProcesses=lambda handle: ["a", "b"],
        nvmlDeviceGetPersistenceMode=refuse,
        nvmlDeviceGetName=lambda handle: "H200",
        nvmlDeviceGetTemperature=lambda handle, sensor: 41,
    )
    monkeypatch.setitem(__import__("sys").modules, "pynvml", stand_in)
    found, why_none = gpus()
    assert why_none == ""
    assert found == (
        Gpu(
            name="H200",
            driver="580.1",
            memory_bytes=80 * GIB,
            used_bytes=GIB,
            others=2,
            temperature_c=41,
            persistence=None,
            held_back=("power cap", "thermal limit (hardware)"),
        ),
    )

    def broken() -> None:
        raise NVMLError("Driver Not Loaded")

    stand_in.nvmlInit = broken
    assert gpus() == ((), "no NVIDIA GPU can be used: Driver Not Loaded")
    assert nvml.REASONS[0x4] == "power cap"


def test_a_real_noise_run_is_bounded_and_paired() -> None:
    noise = measure_noise(0.6)
    assert noise.ratio.pairs >= 4
    assert noise.ratio.low <= noise.ratio.speedup <= noise.ratio.high
    assert noise.provable >= 0
    assert noise.stolen is None or 0 <= noise.stolen <= 1


def test_views() -> None:
    noisy = msgspec.structs.replace(QUIET, provable=0.2)
    troubles = tuple(diagnose_host(with_cpu(turbo=True), (), noisy))
    health = Health(
        host=well(),
        python="3.11",
        platform="Linux",
        packages={"torch": "2.13.0"},
        absent=("peft",),
        gpus=(GPU,),
        gpu_note="",
        noise=noisy,
        troubles=troubles,
        exit_code=verdict(troubles),
    )
    text = console_text(lambda console: views.render(health, console))
    assert text.startswith("NOT FIT TO MEASURE")
    assert text.index("forbids measuring") < text.index("good to know")
    assert "H200, driver 580.1" in text and "not installed" in text
    assert json.loads(views.as_json(health))["exit_code"] == 3
    fit = msgspec.structs.replace(health, troubles=(), exit_code=0)
    assert console_text(lambda console: views.render(fit, console)).startswith("FIT TO MEASURE\n")
