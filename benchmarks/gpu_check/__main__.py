"""`python -m benchmarks.gpu_check` from the checkout, nothing installed: one table; exit 1 where anything is not shown.

`--rehearse` runs the same script on the CPU with tiny models; what needs a GPU is then marked "not exercised".
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.gpu_check.rows import Line, run, status, table

if TYPE_CHECKING:
    from benchmarks.gpu_check.models import Shape
    from ftprof.profiler.record import Machine

CHECKS = ("nvml", "graph", "engine", "trace", "diagnose")
REQUIRED = ("torch", "transformers", "peft", "numpy", "msgspec", "psutil", "safetensors", "tokenizers")
MINUTES = 7.5
LIMITS_S, DIAGNOSE_S = 8.0, 150
REHEARSED_S = (1.0, 20)


def main() -> int:
    parser = argparse.ArgumentParser(prog="gpu-check", description=__doc__)
    parser.add_argument("--rehearse", action="store_true", help="on the CPU with tiny models")
    parser.add_argument("--only", action="append", choices=CHECKS, help="this check alone; may be repeated")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="begin no check after this many")
    parser.add_argument("--out", type=Path, default=Path("build/gpu-check"), help="where the PEFT trace and table go")
    options = parser.parse_args()
    absent = [name for name in REQUIRED if importlib.util.find_spec(name) is None]
    if absent:
        print(f"gpu-check: not installed: {', '.join(absent)}", file=sys.stderr)
        return 1
    import torch

    if not options.rehearse and not torch.cuda.is_available():
        print("gpu-check: torch finds no NVIDIA GPU; nothing was exercised", file=sys.stderr)
        print("hint: run it on a machine with one, or --rehearse the script on the CPU", file=sys.stderr)
        return 4
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    options.out.mkdir(parents=True, exist_ok=True)
    device = "cpu" if options.rehearse else options.device
    lines = list(_all(device, options.only or CHECKS, options.out, time.monotonic() + 60 * options.minutes))
    text = table(lines)
    (options.out / "table.md").write_text(text + "\n", encoding="utf-8")
    print(text)
    failing = status(lines, rehearse=options.rehearse)
    if failing:
        bad = [one.what for one in lines if one.verdict != "ok" and not (options.rehearse and one.verdict != "FAILED")]
        print(f"gpu-check: FAILED: {len(bad)} of {len(lines)}: {'; '.join(bad)}", file=sys.stderr)
    return failing


def _all(device: str, wanted: Iterable[str], out: Path, deadline: float) -> Iterator[Line]:
    from benchmarks.gpu_check.device import graph_lines, machine_lines, nvml_lines
    from benchmarks.gpu_check.diagnose import diagnose_lines
    from benchmarks.gpu_check.models import SHAPES, TINY

    cpu = device == "cpu"
    limits_s, diagnose_s = REHEARSED_S if cpu else (LIMITS_S, DIAGNOSE_S)
    machine: Machine | None = None
    shapes = dict.fromkeys(SHAPES, TINY) if cpu else SHAPES

    def limits() -> Iterable[Line]:
        nonlocal machine
        machine, found = machine_lines(device, limits_s)
        return found

    yield _environment(device)
    yield from run("limits", limits, deadline)
    checks: dict[str, Callable[[], Iterable[Line]]] = {
        "nvml": lambda: nvml_lines(device, machine),
        "graph": lambda: graph_lines(device),
    }
    for name in CHECKS[:2]:
        if name in wanted:
            yield from run(name, checks[name], deadline)
    if {"engine", "trace"} & set(wanted):
        for size, shape in shapes.items():
            check = partial(_engine, size, shape, device, machine, wanted, out)
            yield from run(f"{size} in this process", check, deadline)
    if "diagnose" in wanted:
        with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
            yield from run(
                "1B diagnose",
                lambda: diagnose_lines("1B", shapes["1B"], device, diagnose_s, Path(folder)),
                deadline,
            )


def _engine(
    size: str, shape: Shape, device: str, machine: Machine | None, wanted: Iterable[str], out: Path
) -> Iterator[Line]:
    import torch

    from benchmarks.gpu_check.engine import engine_lines, engine_of, peft_trace_lines

    began = time.perf_counter()
    engine = engine_of(shape, device)
    weights = sum(weight.numel() for weight in engine.model.parameters())
    yield Line(f"{size}: model", f"{weights / 1e9:.3g} G parameters in {time.perf_counter() - began:.1f} s", "ok")
    if "engine" in wanted:
        yield from engine_lines(size, engine, machine, device)
    if "trace" in wanted and size == "1B":
        yield from peft_trace_lines(engine, device, out / "peft-lora.json.gz")
    del engine
    gc.collect()
    if device != "cpu":
        torch.cuda.empty_cache()


def _environment(device: str) -> Line:
    import peft
    import torch
    import transformers

    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}"
    if device == "cpu":
        return Line("machine", f"rehearsal on the CPU; {versions}", "not exercised")
    return Line("machine", f"{torch.cuda.get_device_name(device)}; {versions}", "ok")


if __name__ == "__main__":
    sys.exit(main())
