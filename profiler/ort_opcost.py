"""ONNX and com.microsoft operators: the kind of work, FLOPs and bytes, from what a profile says of their tensors.

Weights that ONNX Runtime has repacked are missing from a profile's inputs, so a product's inner size is told from its
first input and its result. Bytes and FLOPs are counted as in `opcost`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, prod
from typing import NamedTuple

from ftprof.profiler.opcost import Cost

# Element types as a profile spells them: the name used in records, and the bytes of an element.
DTYPES: dict[str, tuple[str, float]] = {
    "float": ("float32", 4),
    "double": ("float64", 8),
    "float16": ("float16", 2),
    "bfloat16": ("bfloat16", 2),
    "int64": ("int64", 8),
    "uint64": ("int64", 8),
    "int32": ("int32", 4),
    "uint32": ("int32", 4),
    "int16": ("int16", 2),
    "int8": ("int8", 1),
    "uint8": ("uint8", 1),
    "bool": ("bool", 1),
    "int4": ("int4", 0.5),
    "uint4": ("int4", 0.5),
}

_GROUPS: dict[str, str] = {
    "matmul": "MatMul Gemm MatMulNBits FusedMatMul FusedGemm TransposeMatMul GemmFastGelu MatMulBnb4 MatMulFpQ4 "
    "MatMulInteger MatMulInteger16 MatMulIntegerToFloat DynamicQuantizeMatMul QLinearMatMul QGemm Einsum Conv "
    "FusedConv ConvInteger QLinearConv NhwcConv MoE QMoE LSTM GRU RNN DynamicQuantizeLSTM",
    "attention": "Attention MultiHeadAttention GroupQueryAttention DecoderMaskedMultiHeadAttention "
    "DecoderMaskedSelfAttention DecoderAttention QAttention QOrderedAttention PackedAttention "
    "PackedMultiHeadAttention SparseAttention PagedAttention LongformerAttention LinearAttention GatedDeltaNet "
    "GatedRelativePositionBias",
    "norm": "LayerNormalization SimplifiedLayerNormalization SkipLayerNormalization SkipSimplifiedLayerNormalization "
    "RMSNormalization InstanceNormalization GroupNormalization GroupNorm SkipGroupNorm BatchNormalization "
    "LpNormalization MeanVarianceNormalization",
    "softmax": "Softmax LogSoftmax BiasSoftmax QLinearSoftmax",
    "embedding": "GatherBlockQuantized EmbedLayerNormalization QEmbedLayerNormalization",
    "cast": "Cast CastLike QuantizeLinear DequantizeLinear DynamicQuantizeLinear",
    "copy": "Identity Transpose Expand Tile Pad Slice Split SplitToSequence Gather GatherND GatherElements Scatter "
    "ScatterND ScatterElements TensorScatter Constant ConstantOfShape Range OneHot Trilu EyeLike NonZero Compress "
    "MemcpyFromHost MemcpyToHost ReorderInput ReorderOutput DepthToSpace SpaceToDepth Resize ReverseSequence "
    "RemovePadding RestorePadding",
    "cat": "Concat ConcatFromSequence QLinearConcat",
    "reduce": "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
    "ReduceSumSquare QLinearReduceMean ArgMax ArgMin TopK CumSum MaxPool AveragePool GlobalAveragePool GlobalMaxPool",
    "view": "Reshape Unsqueeze Squeeze Flatten Shape Size SequenceAt Optional OptionalGetElement",
    "elementwise": "Add Sub Mul Div Pow Sqrt Exp Log Erf Tanh Sigmoid Gelu QuickGelu FastGelu BiasGelu Relu LeakyRelu "
    "Elu Selu Celu HardSigmoid HardSwish Softplus Softsign Mish Swish Silu ThresholdedRelu PRelu Clip Neg Abs Sign "
    "Floor Ceil Round Reciprocal Mod Min Max Mean Sum Where Equal Greater GreaterOrEqual Less LessOrEqual And Or Not "
    "Xor BitShift BitwiseAnd BitwiseOr BitwiseNot IsNaN IsInf Sin Cos Dropout RotaryEmbedding BiasAdd BiasSplitGelu "
    "BiasDropout QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu",
}
KINDS: dict[str, str] = {name: kind for kind, names in _GROUPS.items() for name in names.split()}

# Products whose weights are one byte wide, and which compute in 8-bit integers.
_INTEGER = frozenset(
    ("MatMulInteger", "MatMulInteger16", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QLinearMatMul", "QGemm")
)
_INTEGER_OTHER = frozenset(("ConvInteger", "QLinearConv", "QAttention"))
# The plain products, whose sizes follow from the first input and the result; convolutions and experts do not.
_PRODUCTS = _INTEGER | frozenset(
    ("MatMul", "Gemm", "FusedMatMul", "FusedGemm", "TransposeMatMul", "GemmFastGelu", "MatMulNBits")
)

# Weights that were repacked hide their scales too; blocks of 32 are the default of all builders.
DEFAULT_BLOCK = 32
# FLOPs per element, as in `opcost`.
_PER_ELEMENT = {"softmax": 5.0, "norm": 8.0, "elementwise": 1.0, "reduce": 1.0}


class Tensor(NamedTuple):
    """One input or output: its element type as the profile spells it, and its shape."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """How many elements; a scalar has one."""
        return prod(self.shape)

    @property
    def bytes(self) -> float:
        """Size in bytes; 0 for types that have none (strings, sequences)."""
        return self.elements * DTYPES.get(self.dtype, ("", 0))[1]


class Packed(NamedTuple):
    """What the graph says of one MatMulNBits node: bits of a weight, and whether it computes in 8-bit integers."""

    bits: int
    integer: bool = True


class Call(NamedTuple):
    """One execution of a node, with what only the caller can know.

    `packed` is the node's entry in the graph; `context` how many keys attention looks at, None where not known.
    """

    op: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    packed: Packed | None = None
    context: int | None = None


def kind(op: str, inputs: Sequence[Tensor] = ()) -> str:
    """The kind of work, in the words of `op_tables`; a Gather from a table of floats is an embedding."""
    if op == "Gather" and len(inputs) > 1 and len(inputs[0].shape) == 2 and "float" in inputs[0].dtype:
        return "embedding"
    return KINDS.get(op, "other")


def dtype(call: Call) -> str:
    """The element type that the arithmetic is in: int8 for integer products, else the first floating input's."""
    if call.op in _INTEGER | _INTEGER_OTHER or (
        call.op == "MatMulNBits" and (call.packed is None or call.packed.integer)
    ):
        return "int8"
    known = [DTYPES[tensor.dtype][0] for tensor in (*call.inputs, *call.outputs) if tensor.dtype in DTYPES]
    return next((name for name in known if "float" in name), known[0] if known else "float32")


def spell(call: Call) -> str:
    """`1x576, 576x960 4-bit`: the inputs; the weight of a product even where the profile has lost it."""
    sizes = _sizes(call) if call.op in _PRODUCTS else None
    if sizes is None or (call.op != "MatMulNBits" and len(call.inputs) > 1):
        return ", ".join("x".join(map(str, tensor.shape)) for tensor in call.inputs if tensor.shape)
    bits = f" {call.packed.bits}-bit" if call.packed else ""
    return f"{'x'.join(map(str, call.inputs[0].shape))}, {sizes[0]}x{sizes[1]}{bits}"


def cost(call: Call) -> Cost:
    """FLOPs and bytes of one call; both None ("unknown") where its tensors do not tell."""
    what = kind(call.op, call.inputs)
    if what == "view":
        return Cost(0.0, 0.0, "exact")
    if not call.inputs or not call.outputs:
        return Cost(None, None, "unknown")
    formula: Callable[[Call], Cost | None] | None = _product if call.op in _PRODUCTS else _BY_KIND.get(what)
    found = formula(call) if formula else None
    return found or _plain(what, call)


def _sizes(call: Call) -> tuple[int, int] | None:
    """(inner, columns) of a product; the first input may be transposed, so its elements are what counts."""
    if not call.inputs or not call.outputs or not call.outputs[0].shape:
        return None
    columns = call.outputs[0].shape[-1]
    rows = call.outputs[0].elements // columns if columns else 0
    return (call.inputs[0].elements // rows, columns) if rows else None


def _product(call: Call) -> Cost | None:
    """2mkn; the first input, the weights and the result once."""
    sizes = _sizes(call)
    if sizes is None:
        return None
    inner, columns = sizes
    flops = 2.0 * call.outputs[0].elements * inner
    moved = call.inputs[0].bytes + call.outputs[0].bytes
    if call.op == "MatMulNBits":
        bits = call.packed.bits if call.packed else 8
        return Cost(flops, moved + _packed_bytes(call, inner, columns, bits), "exact" if call.packed else "estimated")
    second = next((tensor for tensor in call.inputs[1:] if len(tensor.shape) > 1), None)
    width = 1.0 if call.op in _INTEGER else DTYPES.get(call.inputs[0].dtype, ("", 4.0))[1]
    return Cost(flops, moved + (second.bytes if second else inner * columns * width), "exact")


def _packed_bytes(call: Call, inner: int, columns: int, bits: int) -> float:
    """Packed weights and their scales; the scales' own size where the profile still has them."""
    scales = next((tensor for tensor in call.inputs[1:] if "float" in tensor.dtype), None)
    scale_bytes = scales.bytes if scales else columns * ceil(inner / DEFAULT_BLOCK) * 4.0
    return inner * columns * bits / 8 + scale_bytes


def _attention(call: Call) -> Cost | None:
    """Queries, keys and values may be packed in one input; the cache may be a buffer that is longer than its content."""
    result = call.outputs[0]
    if len(result.shape) != 3:
        return None
    batch, queries, width = result.shape
    caches = [tensor for tensor in call.inputs[1:] if len(tensor.shape) == 4]
    keys = call.context or (caches[0].shape[2] if caches else queries)
    key_width = caches[0].shape[1] * caches[0].shape[3] if caches else width
    # A cache means a decoder, whose prompt looks back only.
    flops = 4.0 * batch * queries * keys * width / (2 if caches and queries > 1 else 1)
    element = DTYPES.get(result.dtype, ("", 4.0))[1]
    moved = call.inputs[0].bytes + result.bytes + 2.0 * batch * keys * key_width * element
    if call.op == "Attention":  # projects its own input: the weights are its second input, or repacked
        own = call.inputs[0].shape[-1]
        flops, moved = flops + 6.0 * batch * queries * own * width, moved + 3.0 * own * width * element
    return Cost(flops, moved, "exact" if call.context or not caches else "estimated")


def _embedding(call: Call) -> Cost:
    """Rows picked from a table: each is read as it is stored and written as floats."""
    table, result = call.inputs[0], call.outputs[0]
    rows = result.elements // max(result.shape[-1], 1) if result.shape else 1
    stored = table.bytes / table.shape[0] if table.shape and table.shape[0] else 0.0
    return Cost(0.0, rows * stored + result.bytes + sum(tensor.bytes for tensor in call.inputs[1:2]), "exact")


def _moved(call: Call) -> Cost:
    """Copies, casts and concatenations: what is written is also read."""
    written = sum(tensor.bytes for tensor in call.outputs)
    read = min(written, sum(tensor.bytes for tensor in call.inputs)) if call.op in ("Expand", "Tile") else None
    if kind(call.op, call.inputs) == "cast":
        read = call.inputs[0].bytes
    return Cost(0.0, written + (written if read is None else read), "exact")


_BY_KIND: dict[str, Callable[[Call], Cost | None]] = {
    "attention": _attention,
    "embedding": _embedding,
    "cast": _moved,
    "copy": _moved,
    "cat": _moved,
}


def _plain(what: str, call: Call) -> Cost:
    """Every input read once and every output written once; FLOPs by the larger side's elements."""
    moved = sum(tensor.bytes for tensor in (*call.inputs, *call.outputs))
    largest = max(tensor.elements for tensor in (call.inputs if what == "reduce" else call.outputs))
    known = what in _PER_ELEMENT
    return Cost(
        _PER_ELEMENT[what] * largest if known else None if what in ("matmul", "attention", "other") else 0.0,
        float(moved),
        "exact" if known else "estimated",
    )
