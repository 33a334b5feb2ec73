"""`ftprof diagnose` as a user runs it, on a random model: all stages, quality not meaningful."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu_check.models import Shape, directories
from benchmarks.gpu_check.rows import Line, Missing, line

NEEDED = ("typer", "rich", "jinja2", "psutil", "scipy", "peft", "transformers")
ROOT = Path(__file__).resolve().parents[2]


def diagnose_lines(name: str, shape: Shape, device: str, budget_s: int, folder: Path) -> Iterator[Line]:
    """Builds the directories, runs the command in a process of its own and reads its audit."""
    from importlib.util import find_spec

    absent = [module for module in NEEDED if find_spec(module) is None]
    if absent:
        raise Missing(f"not installed: {', '.join(absent)}")
    base, adapter = directories(shape, device, folder)
    _release(device)
    out = folder / "out"
    arguments = [str(adapter), "--base", str(base), "--device", device, "--budget", f"{budget_s}s", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "ftprof", "diagnose", *arguments, "--runtime", "torch", "--max-loss", "rounding"],
        capture_output=True,
        text=True,
        timeout=budget_s + 90,
        cwd=ROOT,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    sys.stderr.write(done.stdout[-4000:] + done.stderr[-4000:])
    yield line(f"{name}: ftprof diagnose", f"exit {done.returncode}", done.returncode == 0)
    audit = out / "audit.json"
    if not audit.is_file():
        yield line(f"{name}: audit", "none was written", False)
        return
    from ftprof.reports.write import load_audit

    yield from audit_lines(name, load_audit(audit), device)


def audit_lines(name: str, audit: Any, device: str) -> Iterator[Line]:
    """Ledgers of the model's phases, what was tried, the device's part; quality of random weights means nothing."""
    for phase in audit.phases:
        if phase.ledger is None or phase.name not in ("prefill", "decode"):
            continue
        groups = {key: value / phase.time_s.median for key, value in phase.ledger.grouped().items()}
        said = ", ".join(f"{key} {value:.0%}" for key, value in groups.items() if value >= 0.005)
        closes = abs(phase.ledger.total_s / phase.time_s.median - 1) < 1e-6
        yield line(f"{name}: diagnose, {phase.scenario} {phase.name}", said, closes)
    if not any(phase.ledger is not None and phase.name == "decode" for phase in audit.phases):
        yield line(f"{name}: diagnose, decode", "no ledger", False)
    tried = ", ".join(f"{trial.rule} {trial.status}" for trial in audit.trials) or "no trial"
    yield Line(f"{name}: diagnose, trials", f"{tried}; quality not meaningful on random weights", "ok")
    if device == "cpu":
        yield Line(f"{name}: diagnose, device readings", "no GPU", "not exercised")
        return
    use = audit.model.device
    told = f"{use.readings} readings, {use.power_w} W, {use.token_energy_j} J a token" if use else "none"
    yield line(f"{name}: diagnose, device readings", told, use is not None and use.token_energy_j is not None)


def _release(device: str) -> None:
    """The model's memory, for the command's own workers."""
    import gc

    import torch

    gc.collect()
    if device != "cpu":
        torch.cuda.empty_cache()
