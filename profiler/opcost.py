"""FLOPs and bytes of aten ops from their shapes, and what kind of work each op is: data tables and closed forms.

Bytes are the nominal traffic of a cold run (every operand read once, every result written once); the measured roofs
are nominal in the same way. FLOPs count a multiply-add as two. Only kernels carry a cost: composite ops (`linear`,
`matmul`, `to`, ...) dispatch to kernels that are events of their own, and views move nothing.

Method: Time (docs/method.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from ftprof.profiler.op_tables import ALLOCATIONS, COMPOSITES, DTYPES, KINDS
from ftprof.profiler.record import Accuracy

Shape = tuple[int, ...]


class Cost(NamedTuple):
    """What one call does: floating-point operations, bytes moved, and how far that can be trusted."""

    flops: float | None
    bytes: float | None
    accuracy: Accuracy


class Operand(NamedTuple):
    """One tensor input: its shape and the bytes of one element."""

    shape: Shape
    width: int

    @property
    def elements(self) -> int:
        """How many elements; a scalar tensor has one."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size of the operand."""
        return self.elements * self.width


def base_name(name: str) -> str:
    """`aten::mm` as `mm`; other name spaces keep theirs."""
    return name.removeprefix("aten::")


def kind(name: str, dtypes: Sequence[str] = ()) -> str:
    """The kind of work of an op: matmul, attention, norm, softmax, elementwise, reduce, copy, cast, cat, embedding,
    view or other. A `copy_` between two element types (given as the profiler spells them) is a cast.
    """
    short = base_name(name)
    if short == "copy_" and len(dtypes) > 1 and dtypes[0] != dtypes[1] and dtypes[0] in DTYPES and dtypes[1] in DTYPES:
        return "cast"
    return KINDS.get(short, "other")


def is_composite(name: str) -> bool:
    """Whether an op only dispatches to other ops."""
    return base_name(name) in COMPOSITES


def dtype_name(dtypes: Sequence[str], default: str = "") -> str:
    """The torch name of the first floating-point input, else of the first tensor, else `default`."""
    known = [DTYPES[d][0] for d in dtypes if d in DTYPES]
    floating = [name for name in known if "float" in name]
    return (floating or known or [default])[0]


def operands(shapes: Sequence[Sequence[int]], dtypes: Sequence[str]) -> tuple[Operand, ...]:
    """The tensor inputs, in order: those whose element type is known."""
    return tuple(
        Operand(tuple(shape), DTYPES[dtype][1]) for shape, dtype in zip(shapes, dtypes, strict=False) if dtype in DTYPES
    )


def cost(name: str, shapes: Sequence[Sequence[int]], dtypes: Sequence[str], *, causal: bool = False) -> Cost:
    """FLOPs and bytes of one call of `name` on inputs of these shapes and element types (profiler spelling).

    `causal` halves fused attention. Views cost nothing. An op without a formula is charged its inputs and a result as
    large as the largest input ("estimated"); without any known tensor both are None ("unknown").
    """
    short = base_name(name)
    if KINDS.get(short) == "view" or short in ALLOCATIONS:
        return Cost(0.0, 0.0, "exact")
    given = operands(shapes, dtypes)
    if not given:
        return Cost(None, None, "unknown")
    formula = _FORMULAS.get(short)
    try:
        found = formula(given, causal) if formula else None
    except (IndexError, ValueError):
        found = None
    if found is not None:
        return Cost(float(found[0]), float(found[1]), "exact")
    return _by_kind(KINDS.get(short, "other"), given)


Formula = Callable[[tuple[Operand, ...], bool], tuple[float, float] | None]


def _product(a: Operand, b: Operand, extra: int, batch: int = 1) -> tuple[float, float]:
    """(.., m, k) times (.., k, n): 2mkn per batch entry; both operands and the result once."""
    m, k = a.shape[-2:]
    n = b.shape[-1]
    if b.shape[-2] != k:
        raise ValueError("inner sizes differ")
    return 2.0 * batch * m * k * n, a.bytes + b.bytes + batch * m * n * a.width + extra


def _mm(x: tuple[Operand, ...], causal: bool) -> tuple[float, float]:
    return _product(x[0], x[1], 0)


def _addmm(x: tuple[Operand, ...], causal: bool) -> tuple[float, float]:
    return _product(x[1], x[2], x[0].bytes)


def _bmm(x: tuple[Operand, ...], causal: bool) -> tuple[float, float]:
    return _product(x[0], x[1], 0, x[0].shape[0])


def _baddbmm(x: tuple[Operand, ...], causal: bool) -> tuple[float, float]:
    return _product(x[1], x[2], x[0].bytes, x[1].shape[0])


def _mv(x: tuple[Operand, ...], causal: bool) -> tuple[float, float]:
    matrix, vector = x[-2:]
    return 2.0 * matrix.elements, matrix.bytes + vector.bytes + matrix.shape[0] * matrix.width


def _linear(x: tuple[Operand, ...], causal: bool) -> tuple[float, float]:
    """(.., k) times (n, k) transposed, with an optional bias of n."""
    tokens, weight = prod(x[0].shape[:-1]), x[1]
    n, k = weight.shape
    bias = x[2].bytes if len(x) > 2 else 0
    return 2.0 * tokens * k * n, x[0].bytes + weight.bytes + tokens * n * x[0].width + bias


def _attention(x: tuple[Operand, ...], causal: bool) -> tuple[float, float]:
    """(batch, heads, length, size) queries, keys, values: two products; fused, so no score ever leaves the cache."""
    q, k, v = x[:3]
    batch, heads, queries, size = q.shape
    keys = k.shape[-2]
    flops = 2.0 * batch * heads * queries * keys * (size + v.shape[-1])
    mask = sum(extra.bytes for extra in x[3:])
    return flops / (2 if causal and queries > 1 else 1), 2 * q.bytes + k.bytes + v.bytes + mask


def _embedding(x: tuple[Operand, ...], causal: bool) -> tuple[float, float]:
    """Rows picked from a table: each is read and written once, and the indices read."""
    table, index = x[0], x[-1]
    row = table.elements // max(table.shape[0], 1) * table.width
    return 0.0, 2.0 * index.elements * row + index.bytes


def _index_copy(x: tuple[Operand, ...], causal: bool) -> tuple[float, float]:
    return 0.0, 2.0 * x[-1].bytes + x[-2].bytes


def _copy(x: tuple[Operand, ...], causal: bool) -> tuple[float, float]:
    """Destination, source. A broadcast source is read once."""
    return 0.0, x[0].bytes + (x[1].bytes if len(x) > 1 else 0)


def _fill(x: tuple[Operand, ...], causal: bool) -> tuple[float, float]:
    return 0.0, float(x[0].bytes)


def _select_first(x: tuple[Operand, ...], causal: bool) -> tuple[float, float] | None:
    """`index_select` over the first dimension is a row lookup; over another it is estimated."""
    return _embedding(x, causal) if len(x[0].shape) == 2 else None


def _cat(x: tuple[Operand, ...], causal: bool) -> tuple[float, float]:
    return 0.0, 2.0 * sum(part.bytes for part in x)


_FORMULAS: dict[str, Formula] = {
    "mm": _mm,
    "_int_mm": _mm,
    "addmm": _addmm,
    "bmm": _bmm,
    "baddbmm": _baddbmm,
    "mv": _mv,
    "addmv": _mv,
    "addmv_": _mv,
    "linear": _linear,
    "mkldnn_linear": _linear,
    "_mkldnn_linear": _linear,
    "scaled_dot_product_attention": _attention,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention": _attention,
    "_scaled_dot_product_efficient_attention": _attention,
    "embedding": _embedding,
    "index_select": _select_first,
    "index_copy_": _index_copy,
    "copy_": _copy,
    "fill_": _fill,
    "zero_": _fill,
    "cat": _cat,
    "stack": _cat,
}

# FLOPs per element, and how many times the largest operand is moved beyond reading every input once.
_PER_ELEMENT: dict[str, float] = {"softmax": 5.0, "norm": 8.0, "elementwise": 1.0, "reduce": 1.0}


def _by_kind(what: str, x: tuple[Operand, ...]) -> Cost:
    """Elementwise, softmax and norms read their inputs and write one result of the broadcast size; reductions read."""
    largest = max(x, key=lambda operand: operand.bytes)
    count = _broadcast([operand.shape for operand in x]) if what == "elementwise" else largest.elements
    read = sum(operand.bytes for operand in x)
    written = 0 if what == "reduce" else count * largest.width
    accuracy: Accuracy = "exact" if what in _PER_ELEMENT else "estimated"
    return Cost(_PER_ELEMENT.get(what, 0.0) * count, float(read + written), accuracy)


def _broadcast(shapes: Sequence[Shape]) -> int:
    """Elements of the result of broadcasting these shapes together."""
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return prod(max(sizes) if 0 not in sizes else 0 for sizes in zip(*padded, strict=True))
