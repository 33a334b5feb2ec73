"""Model facts of a graph: what its config.json or the model it came from says, corrected by what the graph holds."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ftprof.profiler.config_file import read_config_if_there
from ftprof.profiler.model_config import max_context
from ftprof.profiler.onnx_files import OnnxFacts
from ftprof.profiler.record import ModelFacts


def graph_facts(onnx: OnnxFacts, source: ModelFacts) -> ModelFacts:
    """`source` as it stands in the graph: runtime, element type, bytes, and whether attention is one operator."""
    # Of a statically quantised model most bytes may be the embedding's, in fp32.
    integer = onnx.operators.quantised in ("dynamic", "static")
    return msgspec.structs.replace(
        source,
        engine="ort",
        dtype="int8" if integer else onnx.weights.dtype,
        weight_bytes=onnx.weights.size_bytes,
        attention="fused" if onnx.operators.attention else "graph",
        use_cache=None,
        use_cache_source=None,
        quantisation=f"{onnx.operators.quantised} integers" if onnx.operators.quantised else None,
        fixed_shape=(onnx.batch, onnx.length) if onnx.batch or onnx.length else None,
    )


def own_facts(onnx: OnnxFacts) -> ModelFacts:
    """Facts of a user's own graph, from config.json beside it, else from the graph itself."""
    config = read_config_if_there(onnx.directory / "config.json")
    held = onnx.weights
    softmaxes = onnx.operators.counts.get("Softmax", 0) + onnx.operators.attention
    hidden = (config.integer("hidden_size", "dim", "d_model", "n_embd") if config else None) or _width(onnx)
    heads = config.integer("num_attention_heads", "n_heads", "n_head") if config else None
    context = max_context(config, Path(onnx.tokenizer or onnx.directory), "embedding") if config else None
    return ModelFacts(
        architecture=next(iter(config.strings("architectures")), "") if config else "",
        model_type=(config.text("model_type") if config else None) or "onnx",
        layers=(config.integer("num_hidden_layers", "n_layers", "n_layer") if config else None) or softmaxes,
        hidden_size=hidden,
        intermediate_size=config.integer("intermediate_size", "hidden_dim") if config else None,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads if heads else None,
        vocabulary=(config.integer("vocab_size") if config else None) or held.vocabulary or 0,
        parameters=held.parameters,
        weight_bytes=held.size_bytes,
        dtype=held.dtype,
        attention="graph",
        use_cache=None,
        use_cache_source=None,
        max_context=context or onnx.length,
        tied=False,
        linears=held.linears,
    )


def _width(onnx: OnnxFacts) -> int:
    """The width that most products read."""
    sizes = {
        width: sum(count for k, _, count in onnx.weights.linears if k == width) for width, _, _ in onnx.weights.linears
    }
    return max(sizes, key=lambda width: sizes[width]) if sizes else 0
