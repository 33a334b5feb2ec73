"""Which part of a file the page cache holds, and asking the kernel to drop it (Linux; elsewhere nothing is claimed)."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path


def resident_share(path: Path) -> float | None:
    """Share of the file's pages in the page cache, 0 to 1; None where mincore is not to be had or refuses."""
    size = path.stat().st_size
    if size == 0 or os.name != "posix":
        return None
    pages = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE
    vector = (ctypes.c_ubyte * pages)()
    try:
        mincore = ctypes.CDLL(None, use_errno=True).mincore
        # A private writable mapping, because ctypes takes addresses of writable buffers only; nothing is written.
        with path.open("rb") as file, mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=3) as mapped:
            anchor = ctypes.c_char.from_buffer(mapped)
            failed = mincore(ctypes.c_void_p(ctypes.addressof(anchor)), ctypes.c_size_t(size), vector)
            del anchor
    except (AttributeError, OSError, ValueError, BufferError):
        return None
    return None if failed else sum(value & 1 for value in vector) / pages


def evict(paths: Iterable[Path]) -> bool:
    """Ask the kernel to drop these files from the page cache; True if each is then less than 10 % resident."""
    gone = True
    for path in paths:
        try:
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        except (AttributeError, OSError):
            return False
        share = resident_share(path)
        gone = gone and share is not None and share < 0.1
    return gone


def read_bytes() -> int | None:
    """Bytes that this process has caused to be read from storage so far (/proc/self/io); None elsewhere."""
    try:
        for line in Path("/proc/self/io").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "read_bytes":
                return int(value)
    except OSError:
        return None
    return None
