"""What a run will need, said before it starts: time, memory and disk. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ftprof.advisors.memory import WORKING_BYTES
from ftprof.profiler.workload import Task, generates

# A fork server with the packages and a worker with no model (measured: 64 to 200 MB each).
PROCESS_BYTES = 300 * 2**20
# Completion tokens aimed at and prompt positions shown, with room for the last document.
SCORED_TOKENS = 2_600


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """Upper estimates; seconds and bytes."""

    time_s: float
    memory_bytes: int
    disk_bytes: int

    def sentence(self) -> str:
        """For people."""
        return (
            f"This takes up to {self.time_s:.0f} s, about {self.memory_bytes / 2**30:.1f} GiB of memory and "
            f"{self.disk_bytes / 2**30:.1f} GiB of temporary disk."
        )


def estimate(
    task: Task, weight_files: Sequence[int], vocabulary: int | None, budget_s: float, *, save: bool
) -> Estimate:
    """From the sizes of the weight files in bytes and the vocabulary."""
    weights = sum(weight_files)
    scores = SCORED_TOKENS * (vocabulary or 0) * 4 if generates(task) else 2**22
    return Estimate(
        time_s=budget_s,
        memory_bytes=2 * (weights + WORKING_BYTES) + PROCESS_BYTES,
        disk_bytes=scores + (weights if save else 0),
    )
