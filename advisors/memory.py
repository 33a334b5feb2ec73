"""Whether two variants fit in memory side by side."""

from __future__ import annotations

from pathlib import Path

from ftprof.advisors.worker import Loaded

# Activations, the KV cache and allocator slack of a second worker beyond its weights; measured on a 135M decoder
# the resident size with a model is about 0.4 GB over its weights.
WORKING_BYTES = 500 * 2**20
CGROUP = Path("/sys/fs/cgroup")


def available_bytes() -> int:
    """Memory that this process could still get: the system's, or the control group's where that is less."""
    import psutil

    free = int(psutil.virtual_memory().available)
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        used = int((CGROUP / "memory.current").read_text())
        if limit != "max":
            free = min(free, max(0, int(limit) - used))
    except (OSError, ValueError):
        pass
    return free


def needed_bytes(loaded: Loaded) -> int:
    """What one more worker like this needs. Mapped weights are shared, changed copies are not: count them in full."""
    adapter = loaded.adapter.parameters * 4 if loaded.adapter else 0
    return loaded.model.weight_bytes + adapter + WORKING_BYTES


def fits_two(loaded: Loaded, limit_bytes: int | None = None) -> bool:
    """Whether a second worker may be started beside this one; `limit_bytes` caps what may be used (None: no cap)."""
    free = available_bytes()
    if limit_bytes is not None:
        free = min(free, limit_bytes - needed_bytes(loaded))
    return needed_bytes(loaded) <= free
