"""What makes a merge go wrong in practice: tied tables, replaced modules, transposed and fused layers, repeated ones."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ftprof.profiler.adapter_merge import merge
from ftprof.profiler.adapter_switch import set_adapter
from ftprof.profiler.directory import inspect
from tests.profiler.adapter_models import loaded, outputs, save_adapter, save_base

LLAMA: dict[str, Any] = {"intermediate_size": 64, "num_key_value_heads": 2}
BASES: dict[str, tuple[str, dict[str, Any]]] = {
    "untied": ("Llama", LLAMA),
    "tied": ("Llama", LLAMA | {"tie_word_embeddings": True}),
    "transposed": ("GPT2", {"n_positions": 64}),
    "experts": ("Mixtral", LLAMA | {"num_local_experts": 4}),
}
# Base, kind, settings, and whether embedding and head share a weight after the merge.
CASES: dict[str, tuple[str, str, dict[str, Any], bool]] = {
    "bias": ("transposed", "Lora", {"bias": "all", "target_modules": ["c_attn"]}, True),
    "patterns": (
        "untied",
        "Lora",
        {"rank_pattern": {"layers.0.self_attn.q_proj": 2}, "alpha_pattern": {"layers.1.self_attn.q_proj": 32}},
        False,
    ),
    "replaced embedding and head": ("untied", "Lora", {"modules_to_save": ["lm_head", "embed_tokens"]}, False),
    "replaced head of a tied pair": ("tied", "Lora", {"modules_to_save": ["lm_head"]}, False),
    "replaced and kept tied": (
        "tied",
        "Lora",
        {"modules_to_save": ["embed_tokens"], "ensure_weight_tying": True},
        True,
    ),
    "lora on a tied embedding": ("tied", "Lora", {"target_modules": ["q_proj", "embed_tokens"]}, False),
    "lora on a tied head": ("tied", "Lora", {"target_modules": ["q_proj", "lm_head"]}, False),
    "lora on both of a tied pair": ("tied", "Lora", {"target_modules": ["embed_tokens", "lm_head"]}, False),
    "lora kept tied": ("tied", "Lora", {"target_modules": ["embed_tokens"], "ensure_weight_tying": True}, True),
    "tokens": ("untied", "Lora", {"trainable_token_indices": [5, 6, 7]}, False),
    "tokens of a tied pair": ("tied", "Lora", {"trainable_token_indices": [5, 6, 7]}, True),
    "tokens alone": ("tied", "TrainableTokens", {"token_indices": [5, 6, 7]}, True),
    "transposed": ("transposed", "Lora", {"target_modules": ["c_attn", "c_fc"], "fan_in_fan_out": True}, True),
    "scaled and transposed": ("transposed", "IA3", {"target_modules": ["c_attn"], "feedforward_modules": []}, True),
    "fused experts": (
        "experts",
        "Lora",
        {"target_modules": [], "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]},
        False,
    ),
}
ROUNDED = ("lora on a tied embedding", "tokens of a tied pair", "transposed", "fused experts")


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("bases")
    return {name: save_base(root / name, family, **options) for name, (family, options) in BASES.items()}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _shared(model: Any) -> bool:
    tables = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    return bool(tables[0].data_ptr() == tables[1].data_ptr())


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, "float32") for name in CASES] + [(name, "bfloat16") for name in ROUNDED]
)
def test_a_merge_keeps_the_outputs(bases: dict[str, Path], tmp_path: Path, name: str, dtype: str) -> None:
    base, kind, settings, shared = CASES[name]
    wanted = {"target_modules": ["q_proj"], "r": 4} if kind == "Lora" else {}
    found = inspect(str(save_adapter(tmp_path / "a", bases[base], kind, wanted | settings, 0.1)))
    engine = loaded(found, tmp_path, dtype)
    facts = engine.adapter()
    assert facts is not None and facts.blockers == () and facts.modules > 0
    before = outputs(engine.model, engine)
    set_adapter(engine.model, False)
    assert (outputs(engine.model, engine) - before).abs().max() > 0.05
    set_adapter(engine.model, True)
    merged = engine.with_model(merge(engine.model))
    assert {str(parameter.dtype) for parameter in merged.model.parameters()} == {f"torch.{dtype}"}
    limit = 5e-5 if dtype == "float32" else 0.05 * float(before.abs().max())
    assert (outputs(merged.model, engine) - before).abs().max() < limit
    assert _shared(merged.model) == merged.model.config.tie_word_embeddings == shared
    merged.save(tmp_path / "merged")
    again = loaded(inspect(str(tmp_path / "merged")), tmp_path, dtype)
    assert torch.equal(outputs(again.model, engine), outputs(merged.model, engine))


def test_a_bias_that_no_layer_can_take(bases: dict[str, Path], tmp_path: Path) -> None:
    settings = {"r": 4, "lora_bias": True, "target_modules": ["q_proj"]}
    engine = loaded(inspect(str(save_adapter(tmp_path / "a", bases["untied"], "Lora", settings))), tmp_path)
    assert engine.adapter().blockers == (  # type: ignore[union-attr]
        "the adapter adds a bias (lora_bias) to 2 layers that have none",
    )


def test_repeated_layers_are_not_merged(bases: dict[str, Path], tmp_path: Path) -> None:
    settings = {"r": 4, "layer_replication": [[0, 2], [1, 2]], "target_modules": ["q_proj"]}
    engine = loaded(inspect(str(save_adapter(tmp_path / "a", bases["untied"], "Lora", settings))), tmp_path)
    facts = engine.adapter()
    assert facts is not None and facts.modules == 3 and "layer_replication" in facts.blockers[0]
    assert engine.facts().layers == 3


def test_several_adapters_attached_at_once(bases: dict[str, Path], tmp_path: Path) -> None:
    adapter = save_adapter(tmp_path / "a", bases["untied"], "Lora", {"r": 4, "target_modules": ["q_proj"]})
    engine = loaded(inspect(str(adapter)), tmp_path)
    engine.model.load_adapter(str(adapter), "second")
    assert any("several adapters" in reason for reason in engine.adapter().blockers)  # type: ignore[union-attr]


def test_a_replaced_head_counts_once_among_the_layers(bases: dict[str, Path], tmp_path: Path) -> None:
    plain = loaded(inspect(str(bases["untied"])), tmp_path).facts()
    settings = {"r": 4, "target_modules": ["q_proj"], "modules_to_save": ["lm_head"]}
    facts = loaded(inspect(str(save_adapter(tmp_path / "a", bases["untied"], "Lora", settings))), tmp_path).facts()
    assert (facts.linears, facts.parameters, facts.weight_bytes) == (
        plain.linears,
        plain.parameters,
        plain.weight_bytes,
    )
