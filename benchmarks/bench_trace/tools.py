"""What is compared, each in a process of its own: wall time from its start to its end, and its peak resident memory."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# Everything HTA offers that ftprof's report holds as well: busy and idle, kernels, queue, and memory bandwidth.
HTA = """
import sys, warnings
warnings.filterwarnings("ignore")
from pathlib import Path
from hta.trace_analysis import TraceAnalysis
path = Path(sys.argv[1])
found = TraceAnalysis(trace_files={0: path.name}, trace_dir=str(path.parent))
found.get_temporal_breakdown(visualize=False)
found.get_idle_time_breakdown(visualize=False)
found.get_gpu_kernel_breakdown(visualize=False)
found.get_queue_length_summary()
"""
READ = """
import sys
from pathlib import Path
from ftprof.profiler.traces.open_trace import open_trace
assert len(open_trace(Path(sys.argv[1])).host)
"""
ANALYSE = """
import sys
from ftprof.profiler.traces.analyse import analyse
assert analyse(sys.argv[1]).files[0].devices
"""


class Run(NamedTuple):
    """One process: seconds, peak bytes, and the first line of its error where it failed."""

    wall_s: float
    peak_bytes: int
    error: str | None = None


def commands(path: Path, hta_python: str | None) -> dict[str, list[str]]:
    """Commands by tool; HTA only where an interpreter has it, gunzip only for compressed files."""
    found = {
        "ftprof: whole command": [sys.executable, "-m", "ftprof", "trace", str(path), "--json"],
        "ftprof: analysis alone": [sys.executable, "-c", ANALYSE, str(path)],
        "ftprof: reading alone": [sys.executable, "-c", READ, str(path)],
    }
    if hta_python:
        found["HTA"] = [hta_python, "-c", HTA, str(path)]
    if path.suffix == ".gz":
        found["gunzip"] = ["gzip", "--decompress", "--stdout", str(path)]
    return found


def has_hta(python: str) -> bool:
    """Whether this interpreter can import HTA."""
    done = subprocess.run([python, "-c", "import hta.trace_analysis"], capture_output=True, check=False)
    return done.returncode == 0


# A forked process starts with its parent's resident size as its peak, so the parent must be small.
_LAUNCHER = """
import os, sys, time
began = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ,
    file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
_, code, usage = os.wait4(pid, 0)
print(time.perf_counter() - began, usage.ru_maxrss, os.waitstatus_to_exitcode(code))
"""


def measure(command: list[str]) -> Run:
    """Runs it to its end, output thrown away. Linux and macOS only: the peak comes from wait4."""
    program = shutil.which(command[0]) or command[0]
    launched = [sys.executable, "-I", "-S", "-c", _LAUNCHER, program, *command[1:]]
    done = subprocess.run(launched, capture_output=True, text=True, errors="replace", cwd=ROOT, check=False)
    said = done.stderr.strip().splitlines() or ["no message"]
    try:
        wall, peak, code = done.stdout.split()
    except ValueError:
        return Run(0.0, 0, said[-1][:200])
    unit = 1 if sys.platform == "darwin" else 1024
    return Run(float(wall), int(peak) * unit, None if code == "0" else said[-1][:200])
