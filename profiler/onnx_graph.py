"""What an ONNX graph says of its weights and operators, without reading a weight. Pure functions over a loaded proto."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

Quantised = Literal["dynamic", "static", "weight-only"]

# Domains whose operators ONNX Runtime brings along; those of any other need a library that the user must load.
_KNOWN_DOMAINS = frozenset(
    (
        *("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "com.microsoft"),
        *("com.microsoft.nchwc", "com.microsoft.experimental", "com.ms.internal.nhwc", "org.pytorch.aten"),
    )
)
_ATTENTION = frozenset(
    (
        "Attention",
        "MultiHeadAttention",
        "GroupQueryAttention",
        "QAttention",
        "PackedAttention",
        "PackedMultiHeadAttention",
    )
)
_DYNAMIC = frozenset(("DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "DynamicQuantizeMatMul", "QAttention"))
_STATIC = frozenset(("QuantizeLinear", "QLinearMatMul", "QLinearConv", "QGemm"))
_WEIGHT_ONLY = frozenset(("MatMulNBits", "MatMulBnb4", "DequantizeLinear"))
# Operators with CPU kernels only (ONNX Runtime's OperatorKernels.md): on CUDA each costs copies to and fro.
_CPU_ONLY = frozenset(
    (
        *("DynamicQuantizeLinear", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "ConvInteger"),
        *("QLinearMatMul", "QLinearConv", "QGemm", "Unique", "StringNormalizer", "TfIdfVectorizer", "ReverseSequence"),
    )
)
# Names of element types, and bytes of an element; two 4-bit numbers share a byte.
_ELEMENTS: dict[int, tuple[str, float]] = {
    1: ("float32", 4),
    2: ("uint8", 1),
    3: ("int8", 1),
    4: ("uint16", 2),
    5: ("int16", 2),
    6: ("int32", 4),
    7: ("int64", 8),
    9: ("bool", 1),
    10: ("float16", 2),
    11: ("float64", 8),
    12: ("uint32", 4),
    13: ("uint64", 8),
    16: ("bfloat16", 2),
    21: ("uint4", 0.5),
    22: ("int4", 0.5),
}
_PRODUCTS = frozenset(("MatMul", "Gemm", "MatMulInteger", "MatMulIntegerToFloat", "DynamicQuantizeMatMul"))
_PASSED = frozenset(("DequantizeLinear", "Identity", "Cast", "Transpose"))


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of what the graph stores. `dtype` is what most bytes are in; `linears` are (in, out, how many)."""

    dtype: str
    size_bytes: int
    parameters: int
    linears: tuple[tuple[int, int, int], ...]
    vocabulary: int | None


class Operators(msgspec.Struct, frozen=True, kw_only=True):
    """Operator counts by name, and what they give away."""

    counts: dict[str, int]
    foreign: tuple[str, ...]
    """Operators of domains that ONNX Runtime does not have: it cannot run them by itself."""
    cpu_only: tuple[str, ...]
    """Operators without a CUDA kernel."""
    quantised: Quantised | None
    attention: int
    """Fused attention operators."""


def element(number: int) -> str:
    """The name of an ONNX element type (1 is float32)."""
    return _ELEMENTS.get(number, ("unknown", 0.0))[0]


def nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """All nodes, those of branches and loop bodies included."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from nodes(inner)


def tensors(graph: GraphProto) -> Iterator[tuple[str, TensorProto]]:
    """Stored tensors by name: initialisers, and what Constant nodes hold; those of inner graphs included."""
    yield from ((tensor.name, tensor) for tensor in graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield node.output[0] if node.output else "", attribute.t
            for inner in (attribute.g, *attribute.graphs):
                yield from tensors(inner)


def size_bytes(tensor: TensorProto) -> int:
    """Bytes of a tensor by its shape, wherever they lie."""
    elements: int = math.prod(tensor.dims)
    return math.ceil(elements * _ELEMENTS.get(tensor.data_type, ("", 0.0))[1])


def weights(model: ModelProto) -> Weights:
    """Sizes of the stored weights."""
    stored = list(tensors(model.graph))
    sizes: Counter[str] = Counter()
    for _, tensor in stored:
        sizes[element(tensor.data_type)] += size_bytes(tensor)
    shapes = {name: tuple(tensor.dims) for name, tensor in stored}
    every = [*nodes(model.graph)]
    shapes |= _passed_on(every, shapes)
    rows = [shapes.get(node.input[0]) for node in every if node.op_type == "Gather"]
    return Weights(
        dtype=sizes.most_common(1)[0][0] if sizes else "unknown",
        size_bytes=sum(sizes.values()),
        parameters=sum(math.prod(tensor.dims) for _, tensor in stored if len(tensor.dims) > 0),
        linears=_linears(every, shapes),
        vocabulary=max((shape[0] for shape in rows if shape and len(shape) == 2), default=None),
    )


def _linears(every: list[NodeProto], shapes: dict[str, tuple[int, ...]]) -> tuple[tuple[int, int, int], ...]:
    found: Counter[tuple[int, int]] = Counter()
    for node in every:
        numbers = {attribute.name: attribute.i for attribute in node.attribute}
        if node.op_type == "MatMulNBits":
            found[(int(numbers.get("K", 0)), int(numbers.get("N", 0)))] += 1
        elif node.op_type in _PRODUCTS and len(node.input) > 1:
            shape = shapes.get(node.input[1], ())
            if len(shape) == 2:
                found[(shape[1], shape[0]) if numbers.get("transB") else (shape[0], shape[1])] += 1
    ordered = sorted(found.items(), key=lambda item: -item[0][0] * item[0][1] * item[1])
    return tuple((k, n, count) for (k, n), count in ordered)


def _passed_on(every: list[NodeProto], shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Shapes of stored tensors under the names that casts, dequantisers and transpositions give them; nodes are in
    order of computation."""
    found: dict[str, tuple[int, ...]] = {}
    for node in every:
        if node.op_type in _PASSED and node.input and node.output:
            shape = shapes.get(node.input[0], found.get(node.input[0]))
            if shape is not None:
                found[node.output[0]] = shape[::-1] if node.op_type == "Transpose" else shape
    return found


def operators(model: ModelProto) -> Operators:
    """Operator counts and what they mean for ONNX Runtime."""
    own = {function.domain for function in model.functions}
    counts: Counter[str] = Counter()
    foreign: dict[str, None] = {}
    for node in nodes(model.graph):
        counts[node.op_type] += 1
        if node.domain not in _KNOWN_DOMAINS | own:
            foreign[f"{node.domain}.{node.op_type}"] = None
    names = set(counts)
    quantised: Quantised | None = None
    if names & _DYNAMIC:
        quantised = "dynamic"
    elif names & _STATIC:
        quantised = "static"
    elif names & _WEIGHT_ONLY:
        quantised = "weight-only"
    return Operators(
        counts=dict(counts.most_common()),
        foreign=tuple(foreign),
        cpu_only=tuple(sorted(names & _CPU_ONLY)),
        quantised=quantised,
        attention=sum(counts[name] for name in _ATTENTION),
    )
