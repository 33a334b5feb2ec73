"""A tiny Llama as a GGUF file, written with the package that llama.cpp's own converter writes with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

LETTERS = ["<pad>", "<unk>", "</s>", *"abcdefghijklmnopqrstuvwxyz", "Ġ", "th", "the"]
MERGES = ["t h", "th e"]
HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, CONTEXT = 64, 128, 2, 4, 2, 96
_WHOLE = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
_IN_LAYER = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def model() -> Any:
    """The Llama that the file holds."""
    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=len(LETTERS),
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=CONTEXT,
        initializer_range=0.2,
    )
    return LlamaForCausalLM(config).eval()


def write_gguf(path: Path, architecture: str = "llama", kind: str | None = None) -> Path:
    """The file: matrices in Q8_0, norms in F32. `kind` is the general.type where it is no model."""
    writer: Any = gguf.GGUFWriter(str(path), architecture)
    if kind is not None:
        writer.add_type(kind)
    writer.add_name("tiny")
    _add_sizes(writer)
    _add_tokenizer(writer)
    for name, tensor in model().state_dict().items():
        _add_tensor(writer, name.removesuffix(".weight"), tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_sizes(writer: Any) -> None:
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)


def _add_tokenizer(writer: Any) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(LETTERS)
    writer.add_token_types([1] * len(LETTERS))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(1)
    writer.add_pad_token_id(0)


def _add_tensor(writer: Any, name: str, values: np.ndarray[Any, Any]) -> None:
    if name in _WHOLE:
        stored = _WHOLE[name]
    else:
        _, _, layer, rest = name.split(".", 3)
        stored = f"blk.{layer}.{_IN_LAYER[rest]}"
    if stored.endswith(("attn_q", "attn_k")):  # llama.cpp pairs the halves of a head for its rotary embedding
        heads = HEADS if stored.endswith("q") else KV_HEADS
        halves = values.reshape(heads, 2, values.shape[0] // heads // 2, -1)
        values = halves.swapaxes(1, 2).reshape(values.shape)
    if values.ndim == 1:
        writer.add_tensor(f"{stored}.weight", values)
        return
    kind = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor(f"{stored}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)
