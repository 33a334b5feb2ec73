"""Limits of this machine on their own, for `ftprof machine`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ftprof.advisors.worker import serve
from ftprof.profiler.processes import Handle, prepare
from ftprof.profiler.record import Machine


def measure_limits(budget_s: float) -> Machine:
    """Measured in a worker that holds nothing, for about `budget_s` seconds."""
    prepare("cpu", offline=True)
    with tempfile.TemporaryDirectory(prefix="ftprof-") as scratch:
        handle = Handle(serve, "machine", Path(scratch) / "machine.log", "cpu")
        try:
            found: Machine = handle.call("machine", budget_s, timeout_s=10 * budget_s + 60)
            return found
        finally:
            handle.close()
