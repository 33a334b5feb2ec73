"""The Python line that a reader would look for: the innermost frame outside torch's own files."""

from __future__ import annotations

import re

import numpy as np

from ftprof.profiler.traces import schema
from ftprof.profiler.traces.columns import Trace
from ftprof.profiler.traces.intervals import Ints
from ftprof.profiler.traces.nests import Nest, nearest

_FRAME = re.compile(r"[^<].*\.py\(\d+\): ")
_INTERNAL = re.compile(
    r"(?:.*/)?torch/|(?:threading|contextlib|functools|runpy|_ops|warnings|copy|inspect|typing)\.py\(|"
    r"(?:.*/)?lib/python3\.\d+/(?!(?:site|dist)-packages/)|<frozen "
)


def lines(trace: Trace, found: Nest) -> Ints:
    """For each host event the row of its nearest such frame; -1 for none."""
    python = trace.host.kind == schema.HostKind.PYTHON
    frame = python & trace.named(_FRAME) & ~trace.named(_INTERNAL)
    return nearest(frame, found)


def stack_line(stack: str) -> str | None:
    """The nearest such frame of a recorded stack (innermost first, as the profilers of 2021 wrote it)."""
    frames = [frame.strip() for frame in stack.split(";") if _FRAME.match(frame.strip())]
    own = [frame for frame in frames if not _INTERNAL.match(frame)]
    return shortened(own[0]) if own else None


def shortened(frame: str) -> str:
    """The frame without the path up to the package directory."""
    return re.sub(r"^.*/(?:site|dist)-packages/", "", frame)


def line_texts(trace: Trace, frames: Ints, ops: Ints) -> list[str | None]:
    """Texts for pairs of (frame row, op row): the frame's name, else the line in the op's stack, else None."""
    host = trace.host
    texts: list[str | None] = []
    for frame, op in zip(frames.tolist(), ops.tolist(), strict=True):
        stack = int(host.stack[op]) if op >= 0 else -1
        if frame >= 0:
            texts.append(shortened(trace.names[host.name[frame]]))
        else:
            texts.append(stack_line(trace.stacks[stack]) if stack >= 0 else None)
    return texts


def at(column: Ints, rows: Ints) -> Ints:
    """column[rows], -1 where the row is -1."""
    return np.where(rows >= 0, column[rows], -1) if len(column) else np.full(len(rows), -1, dtype=np.int64)
