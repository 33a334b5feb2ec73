"""The allocator's state in every process that is timed: that of one that has run for long.

glibc moves its thresholds while a program runs: once a large block was given back, blocks of that size come from the heap,
and the heap is trimmed later. A process that has run large batches therefore spends less time in page faults than a new
one, and two processes of the same model differ by what they happened to do before. The
values here are where glibc itself ends, so every worker starts as it would be after hours.

Method: Before and after (docs/method.md).
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

LARGEST = 32 << 20
"""Where glibc stops raising the size from which blocks are mapped one by one (its limit on 64-bit systems)."""
SETTLED = {"MALLOC_MMAP_THRESHOLD_": str(LARGEST), "MALLOC_TRIM_THRESHOLD_": str(2 * LARGEST)}
LEAVE = "FTPROF_HEAP"
"""Set to "system" it leaves the allocator as it is."""


def settle_heap(environment: MutableMapping[str, str] = os.environ) -> None:
    """Have processes that start from now on begin with settled thresholds; a choice of the user's own stays."""
    own = any(name.startswith("MALLOC_") for name in environment) or "glibc.malloc" in environment.get(
        "GLIBC_TUNABLES", ""
    )
    if not own and environment.get(LEAVE) != "system":
        environment.update(SETTLED)
