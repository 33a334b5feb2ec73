"""Tiny model and adapter directories, as save_pretrained() lays them out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

Shapes = Mapping[str, tuple[int, ...]]

HIDDEN, WIDE, VOCABULARY, LAYERS, RANK = 8, 16, 32, 2, 2
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": WIDE,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "vocab_size": VOCABULARY,
}
BERT = LLAMA | {"architectures": ["BertModel"], "model_type": "bert"}


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def llama_shapes(layers: int = LAYERS, hidden: int = HIDDEN) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, hidden)}
    for layer in range(layers):
        shapes[f"model.layers.{layer}.self_attn.q_proj.weight"] = (hidden, hidden)
        shapes[f"model.layers.{layer}.mlp.up_proj.weight"] = (WIDE, hidden)
    return shapes


def bert_shapes(prefix: str = "") -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {f"{prefix}embeddings.word_embeddings.weight": (VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        shapes[f"{prefix}encoder.layer.{layer}.attention.self.query.weight"] = (HIDDEN, HIDDEN)
    return shapes


def save(path: Path, shapes: Shapes, dtype: str = "float32") -> None:
    save_file({name: np.zeros(shape, dtype=dtype) for name, shape in shapes.items()}, path)


def write_tokenizer(directory: Path, added: int = 0) -> None:
    tokens = [{"id": VOCABULARY + number, "content": f"<{number}>"} for number in range(added)]
    write_json(directory / "tokenizer.json", {"added_tokens": tokens, "model": {"vocab": {"a": 0}}})


def write_model(
    directory: Path, config: Mapping[str, object] = LLAMA, shapes: Shapes | None = None, *, tokenizer: bool = True
) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / "config.json", dict(config))
    save(directory / "model.safetensors", llama_shapes() if shapes is None else shapes)
    if tokenizer:
        write_tokenizer(directory)
    return directory


def lora_shapes(modules: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a saved LoRA on `modules`, each given as (outputs, inputs)."""
    shapes: dict[str, tuple[int, ...]] = {}
    for module, (outputs, inputs) in modules.items():
        shapes[f"base_model.model.{module}.lora_A.weight"] = (RANK, inputs)
        shapes[f"base_model.model.{module}.lora_B.weight"] = (outputs, RANK)
    return shapes


def llama_lora(layers: int = LAYERS, hidden: int = HIDDEN) -> dict[str, tuple[int, ...]]:
    return lora_shapes({f"model.layers.{layer}.self_attn.q_proj": (hidden, hidden) for layer in range(layers)})


def bert_lora() -> dict[str, tuple[int, ...]]:
    return lora_shapes(
        {f"bert.encoder.layer.{layer}.attention.self.query": (HIDDEN, HIDDEN) for layer in range(LAYERS)}
    )


def write_adapter(directory: Path, base: str | None, shapes: Shapes | None = None, **settings: object) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    shapes = llama_lora() if shapes is None else shapes
    common = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": RANK,
        "lora_alpha": 4,
        "lora_dropout": 0.1,
        "inference_mode": True,
        "target_modules": ["q_proj"],
    }
    write_json(directory / "adapter_config.json", common | settings)
    save(directory / "adapter_model.safetensors", shapes)
    return directory
