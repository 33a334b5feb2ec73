"""Names: aten ops by kind of work, which of them do no work themselves, and element types as the profiler spells them."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# As the profiler spells element types, against the names that torch users write and the bytes of an element.
DTYPES: dict[str, tuple[str, int]] = {
    "float": ("float32", 4),
    "double": ("float64", 8),
    "c10::BFloat16": ("bfloat16", 2),
    "c10::Half": ("float16", 2),
    "c10::Float8_e4m3fn": ("float8_e4m3fn", 1),
    "c10::Float8_e5m2": ("float8_e5m2", 1),
    "long int": ("int64", 8),
    "long": ("int64", 8),
    "int": ("int32", 4),
    "short": ("int16", 2),
    "signed char": ("int8", 1),
    "unsigned char": ("uint8", 1),
    "bool": ("bool", 1),
}

_GROUPS: dict[str, str] = {
    "matmul": "mm addmm bmm baddbmm linear matmul addmv addmv_ mv dot addbmm _int_mm mkldnn_linear mkldnn_rnn_layer einsum "
    "convolution _convolution conv1d conv2d mkldnn_convolution _mkldnn_linear _weight_int4pack_mm_for_cpu "
    "_weight_int8pack_mm linear_dynamic tensordot outer chain_matmul inner addr",
    "attention": "scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu "
    "_scaled_dot_product_attention_math _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention "
    "_scaled_dot_product_cudnn_attention _flash_attention_forward _efficient_attention_forward _native_multi_head_attention",
    "norm": "layer_norm native_layer_norm rms_norm _fused_rms_norm group_norm native_group_norm batch_norm "
    "native_batch_norm",
    "softmax": "softmax _softmax log_softmax _log_softmax _safe_softmax",
    "embedding": "embedding embedding_bag _embedding_bag",
    "cast": "to _to_copy type_as float half bfloat16",
    "copy": "copy_ clone contiguous index_select index index_put_ index_put index_copy_ index_copy gather scatter "
    "scatter_ masked_fill_ masked_fill repeat repeat_interleave roll flip fill_ zero_ zeros ones full full_like "
    "zeros_like ones_like arange scalar_tensor new_zeros new_ones tril triu constant_pad_nd pad _unsafe_index take "
    "masked_select nonzero",
    "cat": "cat stack hstack vstack concat",
    "reduce": "sum mean max min argmax argmin amax amin all any prod norm linalg_vector_norm cumsum logsumexp topk "
    "sort var std var_mean std_mean aminmax count_nonzero cumprod median",
    "view": "view reshape _reshape_alias transpose t permute expand expand_as unsqueeze squeeze slice select as_strided "
    "narrow split split_with_sizes chunk unbind flatten unflatten alias detach view_as resolve_conj resolve_neg "
    "transpose_ unsqueeze_ squeeze_ _unsafe_view empty empty_like empty_strided new_empty resize_ result_type "
    "is_nonzero item _local_scalar_dense size numel set_ movedim swapaxes mT T broadcast_tensors unsafe_split "
    "_has_compatible_shallow_copy_type is_same_size lift new_empty_strided lift_fresh detach_",
    "elementwise": "add add_ sub sub_ mul mul_ div div_ pow pow_ rsqrt rsqrt_ sqrt neg neg_ exp log sin cos tanh tanh_ "
    "sigmoid sigmoid_ silu silu_ gelu gelu_ relu relu_ where eq ne gt ge lt le logical_and logical_or logical_not "
    "bitwise_and bitwise_or bitwise_not abs clamp clamp_ clamp_min clamp_max maximum minimum rsub addcmul addcmul_ "
    "addcdiv reciprocal square erf hardtanh leaky_relu floor ceil round isnan isinf isin remainder floor_divide "
    "dropout native_dropout bitwise_or_ bitwise_and_ __and__ __or__ _foreach_add_ _foreach_mul_ glu softplus "
    "mish elu lerp normal_ uniform_ random_ bernoulli_ exponential_ multinomial randn rand",
}

KINDS: dict[str, str] = {name: kind for kind, names in _GROUPS.items() for name in names.split()}

# These leave the work to ops that are events of their own; where one is a leaf in some release, its own cost counts.
COMPOSITES: frozenset[str] = _words(
    "linear matmul mv einsum tensordot inner conv1d conv2d convolution _convolution scaled_dot_product_attention "
    "_scaled_dot_product_attention_math layer_norm rms_norm _fused_rms_norm softmax log_softmax _safe_softmax "
    "embedding mean stack hstack vstack concat pad repeat group_norm batch_norm masked_fill index_put scatter square "
    "_efficient_attention_forward norm"
)

# These allocate and leave the rest to `copy_` or `fill_`; with neither inside, nothing was moved.
ALLOCATIONS: frozenset[str] = _words(
    "to _to_copy type_as clone contiguous zeros ones full full_like zeros_like ones_like new_zeros new_ones dropout "
    "item randn rand float half bfloat16"
)
