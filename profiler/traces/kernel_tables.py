"""Device work of the window by kernel name and by class: matrix units, alignment, attention, casts, copies."""

from __future__ import annotations

import re

import numpy as np

from ftprof.profiler.traces import schema, taxonomy
from ftprof.profiler.traces.intervals import Marks
from ftprof.profiler.traces.partition import seconds
from ftprof.profiler.traces.scope import Scope, totals_by
from ftprof.profiler.traces.tables import Attention, Casts, Class, CopyRow, Kernel, TensorCores

# More names than any reader reads; the rest of the time is in the classes.
_MOST_KERNELS = 100
_ELIGIBLE = ("gemm", "attention", "convolution", "lora")
_BATCHED_PRODUCT = re.compile(r"aten::(?:bmm|baddbmm)\Z")


def _all(scope: Scope) -> int:
    return max(int(scope.durations.sum()), 1)


def kernels(scope: Scope) -> tuple[Kernel, ...]:
    """Names by time, the longest first, copies and fills included."""
    keys, counts, sums = totals_by(scope.trace.device.name[scope.rows], scope.durations)
    table = zip(keys[:_MOST_KERNELS].tolist(), counts.tolist(), sums.tolist(), strict=False)
    whole = _all(scope)
    return tuple(
        Kernel(
            name=(name := scope.trace.names[key]),
            kind=taxonomy.kernel_class(name),
            tensor_core=taxonomy.tensor_core(name),
            misaligned=taxonomy.is_misaligned(name),
            calls=count,
            total_s=seconds(total),
            share=total / whole,
        )
        for key, count, total in table
    )


def classes(scope: Scope) -> tuple[Class, ...]:
    """Classes by time."""
    kinds = sorted(set(scope.taxonomy.classes))
    by_name = np.array([kinds.index(kind) for kind in scope.taxonomy.classes] or [0], dtype=np.int64)
    keys, counts, sums = totals_by(by_name[scope.trace.device.name[scope.rows]], scope.durations)
    whole, of_kernels = _all(scope), max(_time(scope, scope.kernels), 1)
    return tuple(
        Class(
            kind=kinds[key],
            calls=count,
            total_s=seconds(total),
            share=total / whole,
            share_of_kernels=None if kinds[key] in ("memcpy", "memset") else total / of_kernels,
        )
        for key, count, total in zip(keys.tolist(), counts.tolist(), sums.tolist(), strict=True)
    )


def _time(scope: Scope, marks: Marks) -> int:
    return int(scope.durations[marks].sum())


def _are(scope: Scope, *kinds: str) -> Marks:
    return scope.taxonomy.is_class(*kinds)[scope.trace.device.name[scope.rows]]


def tensor_cores(scope: Scope) -> TensorCores | None:
    """Kernel time on matrix units, off them, and unknown; None without kernels."""
    uses = np.array(scope.taxonomy.tensor or ("",))[scope.trace.device.name[scope.rows]]
    whole = _time(scope, scope.kernels)
    if not whole:
        return None
    yes, no, unknown = (_time(scope, scope.kernels & (uses == use)) for use in ("yes", "no", "unknown"))
    return TensorCores(
        yes_s=seconds(yes),
        no_s=seconds(no),
        unknown_s=seconds(unknown),
        eligible_no_s=seconds(_time(scope, scope.kernels & (uses == "no") & _are(scope, *_ELIGIBLE))),
        share=yes / whole,
    )


def misaligned_share(scope: Scope) -> float | None:
    """Share of kernel time in products that read unaligned operands; None without kernels."""
    hits = np.array([taxonomy.is_misaligned(name) for name in scope.trace.names] or [False])
    whole = _time(scope, scope.kernels)
    return _time(scope, scope.kernels & hits[scope.trace.device.name[scope.rows]]) / whole if whole else None


def attention(scope: Scope) -> Attention | None:
    """Fused attention by form, and the pieces of unfused attention: softmax, and batched products beside it."""
    whole = _time(scope, scope.kernels)
    if not whole:
        return None
    forms = np.array([taxonomy.attention_form(name) or "" for name in scope.trace.names] or [""])
    form = forms[scope.trace.device.name[scope.rows]]
    flash, efficient = (_time(scope, form == name) for name in ("flash", "memory-efficient"))
    softmax = _time(scope, _are(scope, "softmax"))
    products = _time(scope, _batched_products(scope)) if softmax else 0
    eager = softmax + products
    return Attention(
        flash_s=seconds(flash),
        memory_efficient_s=seconds(efficient),
        eager_s=seconds(eager),
        softmax_s=seconds(softmax),
        share=(flash + efficient + eager) / whole,
        eager_share=eager / whole,
    )


def _batched_products(scope: Scope) -> Marks:
    op = scope.links.op[scope.rows]
    batched = scope.trace.named(_BATCHED_PRODUCT)
    found = np.zeros(len(op), dtype=np.bool_)
    found[op >= 0] = batched[op[op >= 0]]
    return found & _are(scope, "gemm")


def casts(scope: Scope) -> Casts | None:
    """Kernels that only convert element types; None without kernels."""
    whole = _time(scope, scope.kernels)
    marks = _are(scope, "cast")
    return (
        Casts(kernels=int(marks.sum()), total_s=seconds(_time(scope, marks)), share=_time(scope, marks) / whole)
        if whole
        else None
    )


def copies(scope: Scope) -> tuple[CopyRow, ...]:
    """Copies by direction and kind of host memory."""
    device = scope.trace.device
    rows = scope.rows[device.kind[scope.rows] == schema.DeviceKind.MEMCPY]
    groups: dict[tuple[str, bool], list[int]] = {}
    for row in rows.tolist():
        name = scope.trace.names[device.name[row]]
        found = schema.COPY_DIRECTION.match(name)
        key = (found["direction"] if found else "unknown", bool(schema.PAGEABLE_COPY.search(name)))
        groups.setdefault(key, []).append(row)
    table = [_copy_row(scope, direction, pageable, mine) for (direction, pageable), mine in groups.items()]
    return tuple(sorted(table, key=lambda row: -row.total_s))


def _copy_row(scope: Scope, direction: str, pageable: bool, rows: list[int]) -> CopyRow:
    device = scope.trace.device
    total = int((device.end[rows] - device.start[rows]).sum())
    moved = device.bytes[rows]
    size = int(moved.sum()) if (moved >= 0).all() else None
    return CopyRow(
        direction=direction,
        pageable=pageable,
        calls=len(rows),
        total_s=seconds(total),
        bytes=size,
        bytes_per_s=size / seconds(total) if size is not None and total else None,
    )


def sm_efficiency(scope: Scope) -> float | None:
    """An estimate without counters: kernel time weighted by min(1, blocks per multiprocessor); None where not told."""
    blocks = scope.trace.device.blocks_per_sm[scope.rows].astype(np.float64)
    known = np.isfinite(blocks) & scope.kernels & (scope.durations > 0)
    if not known.any():
        return None
    weights = scope.durations[known]
    return float((np.clip(blocks[known], 0.0, 1.0) * weights).sum() / weights.sum())
