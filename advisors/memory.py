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


def fits(loaded: Loaded, limit_bytes: int | None = None, *, more: int = 1) -> bool:
    """Whether `more` workers like this one may be started; two are held at a time.

    `limit_bytes` caps what both may use together (None: no cap beyond what the system has).
    """
    needed = needed_bytes(loaded)
    if loaded.device_free_bytes is not None and more * needed > loaded.device_free_bytes:
        return False
    return more * needed <= available_bytes() and (limit_bytes is None or 2 * needed <= limit_bytes)
