"""LoRA's share of the device work, by whatever the trace shows: kernel names, names, PEFT's layers, or shapes.

Kernel names: serving engines run adapters by kernels of their own. Names: annotations or ops that say lora_A, lora_B.
Layers: everything under the `forward` of a PEFT LoRA layer except its base layer's call (the first module call in
it). Shapes: three products in a row on one thread, the base layer's (in to out), one down (in to r) and one up (r to
out), with the scaling and the sum after; a narrow layer alone is no adapter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ftprof.profiler.traces import schema
from ftprof.profiler.traces.columns import Trace
from ftprof.profiler.traces.intervals import Marks, covered, distinct, ints, union
from ftprof.profiler.traces.links import Links
from ftprof.profiler.traces.nests import nearest
from ftprof.profiler.traces.partition import seconds
from ftprof.profiler.traces.scope import Scope
from ftprof.profiler.traces.steps import shapes_of
from ftprof.profiler.traces.tables import Lora

# Ranks in use end at 256 (PEFT's default is 8); a pair that is not narrow on both sides is no adapter.
LARGEST_RANK = 256
NARROW = 4

_NAMES = re.compile(r"(?i)lora_[AB]\b|lora\.[AB]\b|\blora_(?:shrink|expand)\b|punica")
_LAYER = re.compile(r"(?:.*/)?peft/tuners/(?:lora|\w*lora)/\w+\.py\(\d+\): forward")
_PRODUCT = re.compile(r"aten::(?:linear|mm|addmm)\Z")
_BACKWARD = re.compile(r"autograd::|\w*Backward\d*")
_AFTER = frozenset({"aten::mul", "aten::mul_", "aten::add", "aten::add_"})


def lora(scope: Scope) -> Lora | None:
    """The share, by the first way that finds anything; None where the trace shows no adapter."""
    kernels = scope.taxonomy.is_class("lora")[scope.trace.device.name[scope.rows]]
    if kernels.any():
        return _result(scope, "kernel names", kernels, ints([]), ())
    host = scope.trace.host
    by_name = (host.kind != schema.HostKind.RUNTIME) & scope.trace.searched(_NAMES)
    found: Sequence[tuple[str, Marks]] = (("names", by_name), ("layers", _in_layers(scope.trace, scope.links)))
    pairs = _pairs(scope.trace, scope.links)
    ranks = tuple(sorted({pair.rank for pair in pairs}))
    for how, rows in found:
        if rows.any():
            return _by_rows(scope, "names" if how == "names" else "layers", rows, ranks)
    rows = np.zeros(len(host), dtype=np.bool_)
    rows[[row for pair in pairs for row in pair.rows]] = True
    return _by_rows(scope, "shapes", rows, ranks) if pairs else None


def _by_rows(scope: Scope, how: str, rows: Marks, ranks: tuple[int, ...]) -> Lora | None:
    """Device work launched inside any of these host rows."""
    inside = nearest(rows, scope.links.nest)
    around = np.where(scope.links.launch[scope.rows] >= 0, scope.links.launch[scope.rows], scope.links.op[scope.rows])
    hits = np.where(around >= 0, inside[around] >= 0, False)
    calls = np.flatnonzero(rows)
    calls = calls[(scope.trace.host.start[calls] >= scope.low) & (scope.trace.host.start[calls] < scope.high)]
    return _result(scope, how, hits, calls, ranks) if len(calls) else None


def _result(
    scope: Scope, how: str, hits: Marks, calls: np.ndarray[tuple[int], np.dtype[np.int64]], ranks: tuple[int, ...]
) -> Lora:
    spent = int(scope.durations[hits].sum())
    host = scope.trace.host
    on_host = union(host.start[calls], host.end[calls])
    return Lora(
        how=how,  # type: ignore[arg-type]
        device_s=seconds(spent),
        device_share=spent / max(int(scope.durations.sum()), 1),
        kernels=int(hits.sum()),
        calls=len(calls),
        host_s=seconds(int(covered(on_host, ints([scope.low]), ints([scope.high]))[0])),
        ranks=ranks,
    )


def _in_layers(trace: Trace, links: Links) -> Marks:
    """Direct children of PEFT's layer calls, except the first module call in each: that is the base layer."""
    host = trace.host
    layer: Marks = (host.kind == schema.HostKind.PYTHON) & trace.named(_LAYER)
    if not layer.any():
        return layer
    parent = links.nest.parent
    child: Marks = np.where(parent >= 0, layer[parent], False)
    module = child & trace.named(schema.MODULE)
    rows = np.flatnonzero(module)
    _, first = np.unique(parent[rows], return_index=True)
    child[rows[first]] = False
    return child


@dataclass(frozen=True, slots=True)
class _Pair:
    rank: int
    rows: tuple[int, ...]


def _pairs(trace: Trace, links: Links) -> list[_Pair]:
    """Down and up products right after a base product of the same ends, with the ops that scale and add the result."""
    host = trace.host
    ops = np.flatnonzero((host.kind == schema.HostKind.OP) & (host.shape >= 0))
    products = ops[trace.named(_PRODUCT)[ops]]
    outer = links.host_outer_op[products]
    products = products[~trace.named(_BACKWARD)[outer]]
    sizes = {int(shape): _size(trace.shapes[shape]) for shape in distinct(host.shape[products])}
    pairs: list[_Pair] = []
    for thread in distinct(host.thread[products]):
        for name in distinct(host.name[products]):
            mine = products[(host.thread[products] == thread) & (host.name[products] == name)].tolist()
            for base, down, up in zip(mine, mine[1:], mine[2:], strict=False):
                rank = _rank(*(sizes[int(host.shape[row])] for row in (base, down, up)))
                if rank:
                    pairs.append(_Pair(rank, (down, up, *_following(trace, ops, up))))
    return pairs


@dataclass(frozen=True, slots=True)
class _Size:
    rows: int
    inner: int
    outer: int


def _size(shape: str) -> _Size | None:
    """Of a product: linear's weight is [outer, inner], mm's second operand [inner, outer]; a bias may come first."""
    dims = [dim for dim in shapes_of(shape) if len(dim) >= 2]
    if len(dims) < 2:
        return None
    left, right = dims[-2:]
    rows = math.prod(left[:-1])
    if left[-1] == right[0] and left[-1] != right[-1]:
        return _Size(rows, right[0], right[-1])
    return _Size(rows, right[-1], right[0]) if left[-1] == right[-1] else None


def _rank(base: _Size | None, down: _Size | None, up: _Size | None) -> int | None:
    """The rank where down and up go round a base product of the same rows; None where they do not."""
    if not base or not down or not up or not base.rows == down.rows == up.rows:
        return None
    rank = down.outer
    if up.inner != rank or (base.inner, base.outer) != (down.inner, up.outer):
        return None
    return rank if 2 <= rank <= LARGEST_RANK and min(base.inner, base.outer) >= NARROW * rank else None


def _following(trace: Trace, ops: np.ndarray[tuple[int], np.dtype[np.int64]], up: int) -> list[int]:
    """The scaling and the sum right after the up product on the same thread."""
    host = trace.host
    at = int(np.searchsorted(ops, up))
    later = [row for row in ops[at + 1 : at + 40].tolist() if host.start[row] >= host.end[up]]
    later = [row for row in later if host.thread[row] == host.thread[up]]
    rows: list[int] = []
    for row in later[:2]:
        if trace.names[host.name[row]] not in _AFTER:
            break
        rows.append(row)
    return rows
