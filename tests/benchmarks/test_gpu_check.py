"""The script for a machine with a GPU, rehearsed on the CPU: its logic runs, and it never says ok of what did not run."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
import torch

from benchmarks.gpu_check.diagnose import audit_lines
from benchmarks.gpu_check.rows import Line, Missing, line, run, status, table
from ftprof.profiler.nvml import DeviceUse
from tests.reports import example

ROOT = Path(__file__).resolve().parents[2]


def gpu_check(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.gpu_check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def test_a_rehearsal_runs_every_check_and_marks_what_needs_a_gpu(tmp_path: Path) -> None:
    done = gpu_check("--rehearse", "--out", str(tmp_path), "--only", "nvml", "--only", "graph", "--only", "engine",
                     "--only", "trace")  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [row.strip("| ").split(" | ") for row in done.stdout.splitlines()[2:]]
    verdicts = {row[0]: row[-1] for row in rows}
    for name in ("nvml", "graph", "limits of the GPU", "7B: split of host and device", "7B: energy a token"):
        assert verdicts[name] == "not exercised"
    assert verdicts["1B: ledger of decode"] == verdicts["7B: ledger of prefill"] == "ok"
    assert verdicts["PEFT trace peft-lora.json.gz"] == "ok"
    assert (tmp_path / "peft-lora.json.gz").stat().st_size > 1000
    assert (tmp_path / "table.md").read_text() == done.stdout


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_refuses() -> None:
    done = gpu_check()
    assert done.returncode == 4
    assert "no NVIDIA GPU" in done.stderr


def test_an_audit_without_device_readings_fails_on_a_gpu() -> None:
    audit = example.full()
    found = {one.what: one for one in audit_lines("1B", audit, "cuda:0")}
    assert found["1B: diagnose, device readings"].verdict == "FAILED"
    assert "not meaningful" in found["1B: diagnose, trials"].measured
    assert found["1B: diagnose, single decode"].verdict == "ok"
    use = DeviceUse(seconds=9, readings=90, power_w=300.0, energy_j=2700.0, peak_memory_bytes=1, sm=0.5, tensor=0.1,
                    dram=0.6, held_back={}, token_energy_j=0.5)  # fmt: skip
    seen = msgspec.structs.replace(audit, model=msgspec.structs.replace(audit.model, device=use))
    assert all(one.verdict == "ok" for one in audit_lines("1B", seen, "cuda:0"))


def test_what_breaks_is_a_line_and_fails_the_whole() -> None:
    def broken() -> list[Line]:
        raise ValueError("a | b\nmore")

    def absent() -> list[Line]:
        raise Missing("no GPU")

    later = time.monotonic() + 60
    lines = [*run("one", broken, later), *run("two", absent, later), *run("three", absent, 0.0), line("four", 4, True)]
    assert [one.verdict for one in lines] == ["FAILED", "not exercised", "not exercised", "ok"]
    assert "ValueError: a / b" in table(lines)
    assert status(lines, rehearse=True) == status(lines[1:], rehearse=False) == 1
    assert status(lines[1:], rehearse=True) == status(lines[3:], rehearse=False) == 0
