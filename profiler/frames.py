"""Names of the Python frames that a run spends its time in, by sampling. For naming only, never for timing."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

from ftprof.profiler.record import HostFrame

if TYPE_CHECKING:
    from pyinstrument.frame import Frame

KEPT_FRAMES = 12


def sample_frames(run: Callable[[], object], interval: float = 0.001) -> tuple[HostFrame, ...]:
    """Sample one run every `interval` seconds; the Python frames with most self time, as shares of all sampled time.

    Native functions (the ops themselves) count in the total and are not listed. The sampler slows the run by a quarter.
    """
    from pyinstrument import Profiler

    profiler = Profiler(interval=interval, async_mode="disabled")
    with profiler:
        run()
    session = profiler.last_session
    root = session.root_frame() if session else None
    return _heaviest(root) if root else ()


def _heaviest(root: Frame) -> tuple[HostFrame, ...]:
    spent: defaultdict[tuple[str, str], float] = defaultdict(float)
    for frame in _walk(root):
        spent[frame.function, short_path(frame.file_path or "")] += frame.total_self_time
    total = sum(spent.values())
    if total <= 0:
        return ()
    python = ((frame, time) for frame, time in spent.items() if time > 0 and not frame[1].startswith("<"))
    ranked = sorted(python, key=lambda item: -item[1])[:KEPT_FRAMES]
    return tuple(HostFrame(function=name, file=file, share=time / total) for (name, file), time in ranked)


def _walk(frame: Frame) -> Iterator[Frame]:
    """The real frames; synthetic ones hold the self time that `total_self_time` reads."""
    if not frame.is_synthetic:
        yield frame
    for child in frame.children:
        yield from _walk(child)


def short_path(path: str) -> str:
    """The path from the package on (`transformers/generation/utils.py`); for a user's own file just its name."""
    parts = PurePath(path).parts
    for marker in ("site-packages", "dist-packages"):
        if marker in parts:
            return "/".join(parts[len(parts) - parts[::-1].index(marker) :])
    stdlib = PurePath(sys.base_prefix, sys.platlibdir, f"python{sys.version_info.major}.{sys.version_info.minor}")
    if PurePath(path).is_relative_to(stdlib):
        return PurePath(path).relative_to(stdlib).as_posix()
    return PurePath(path).name
