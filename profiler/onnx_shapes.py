"""A graph that is fixed to one batch or length, rewritten to take any; kept only where its outputs stay the same.

Exporters without dynamic axes bake the sizes into shapes and masks. Shapes get the inputs' real sizes instead, and
stored tables as long as the sequence are cut to it. Whether that was right is tried, never assumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ftprof.profiler.errors import FtprofError
from ftprof.profiler.onnx_files import OnnxFacts, Port
from ftprof.profiler.onnx_rewrite import Axes, freed, rewrite

if TYPE_CHECKING:
    from ftprof.profiler.ort_engine import OrtEngine

# Largest difference relative to the largest output, by how the graph computes. Integers computed from a scale that the
# padding helps to set differ by rounding; a wrong mask or size differs by a tenth and more.
_TOLERANCE = {None: 1e-4, "weight-only": 1e-4, "static": 2e-2, "dynamic": 5e-2}
_HALF_TOLERANCE = 1e-2


def with_dynamic_axes(engine: OrtEngine) -> OrtEngine:
    """The engine's graph with as many of its fixed axes made to vary as its outputs bear out.

    Tries batch and sequence together, then the sequence alone, then the batch. FtprofError with the reason where
    nothing can be rewritten, or where every rewritten graph fails or answers otherwise than the original.
    """
    fixed = Axes(batch=engine.onnx.batch, length=engine.onnx.length)
    if fixed.batch is None and fixed.length is None:
        raise FtprofError(f"{engine.onnx.path} already takes any batch and length", "nothing needs to be done")
    tries = [fixed, Axes(batch=None, length=fixed.length), Axes(batch=fixed.batch, length=None)]
    reasons = []
    for axes in dict.fromkeys(axes for axes in tries if axes.words):
        try:
            other = engine.rewritten(described(engine.onnx, axes), partial(rewrite, Path(engine.onnx.path), axes))
            reason = difference(engine, other)
        except FtprofError as error:
            reason = error.message
        if reason is None:
            return other
        reasons.append(f"{axes.words}: {reason}")
    raise FtprofError(
        f"the fixed sizes of {engine.onnx.path} cannot be undone in the file ({'; '.join(reasons)})",
        "export it again with dynamic axes: ftprof explain fixed-shape-export",
    )


def difference(engine: OrtEngine, other: OrtEngine) -> str | None:
    """Why `other` must not replace `engine`, by running both on rows of several lengths and counts; None if alike."""
    import numpy as np

    worst = 0.0
    for rows in _trial_rows(engine):
        ids = [list(row) for row in rows]
        compute = "embed" if engine.task == "embedding" else "logits"
        before, after = getattr(engine, compute)(ids), getattr(other, compute)(ids)
        if before.shape != after.shape or not np.isfinite(after).all():
            return f"outputs have shape {after.shape}, not {before.shape}"
        worst = max(worst, float(np.abs(before - after).max() / max(float(np.abs(before).max()), 1e-6)))
    limit = _TOLERANCE[engine.onnx.operators.quantised]
    if engine.onnx.weights.dtype in ("float16", "bfloat16"):
        limit = max(limit, _HALF_TOLERANCE)
    return None if worst <= limit else f"outputs differ by {worst:.1%}"


def _trial_rows(engine: OrtEngine) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Random rows: one, and more than the fixed batch; short, half as long as may be, and full."""
    import random

    draw = random.Random(0)
    longest, many = engine.longest, (engine.onnx.batch or 1) + 2
    tokens = engine.facts().vocabulary or len(engine.tokenizer)
    for count, length in ((1, min(3, longest)), (many, max(2, longest // 2)), (many, longest)):
        # The last row is shorter, so that masks count.
        sizes = [length] * (count - 1) + [max(1, length - length // 3)]
        yield tuple(tuple(draw.randrange(tokens) for _ in range(size)) for size in sizes)


def described(onnx: OnnxFacts, axes: Axes) -> OnnxFacts:
    """Facts of the rewritten graph."""
    return msgspec.structs.replace(
        onnx,
        inputs=tuple(_freed(port, axes) for port in onnx.inputs),
        outputs=tuple(_freed(port, axes) for port in onnx.outputs),
        batch=None if axes.batch is not None else onnx.batch,
        length=None if axes.length is not None else onnx.length,
    )


def _freed(port: Port, axes: Axes) -> Port:
    return msgspec.structs.replace(port, dims=tuple(freed(place, dim, axes) for place, dim in enumerate(port.dims)))
