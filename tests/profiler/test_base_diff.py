"""What the fine-tune changed, from files alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ftprof.profiler.base_diff import FileDifference, differences
from ftprof.profiler.directory import inspect
from tests.profiler.model_files import (
    HIDDEN,
    LLAMA,
    VOCABULARY,
    llama_lora,
    llama_shapes,
    save,
    write_adapter,
    write_json,
    write_model,
)


def table(found: tuple[FileDifference, ...]) -> dict[str, tuple[str, str]]:
    assert len({entry.what for entry in found}) == len(found)
    return {entry.what: (entry.base, entry.tuned) for entry in found}


def merged(tmp_path: Path, base: Mapping[str, object], tuned: Mapping[str, object]) -> dict[str, tuple[str, str]]:
    """Differences of two models that share their weights and differ in config.json as given."""
    base_directory = write_model(tmp_path / "base", LLAMA | dict(base))
    model = write_model(tmp_path / "tuned", LLAMA | dict(tuned))
    return table(differences(inspect(str(model), base=str(base_directory))))


def test_equal_models_do_not_differ(tmp_path: Path) -> None:
    assert merged(tmp_path, {}, {}) == {}


def test_merged_model_without_a_base_gives_nothing(tmp_path: Path) -> None:
    assert differences(inspect(str(write_model(tmp_path / "m")))) == ()


def test_settings_that_matter(tmp_path: Path) -> None:
    changed = {"vocab_size": VOCABULARY + 8, "use_cache": False, "sliding_window": 16, "pad_token_id": 0, "n": 1}
    assert merged(tmp_path, {}, changed) == {
        "vocabulary": ("32", "40"),
        "use_cache in config.json": ("true", "false"),
        "sliding window": ("not set", "16"),
        "pad token": ("not set", "0"),
    }


def test_the_same_setting_in_another_spelling_is_no_difference(tmp_path: Path) -> None:
    old = {"torch_dtype": "bfloat16", "rope_theta": 10000.0, "rope_scaling": None, "use_cache": True}
    new = {"dtype": "bfloat16", "rope_parameters": {"rope_type": "default", "rope_theta": 10000}, "head_dim": 4}
    assert merged(tmp_path, old, new) == {}


def test_rotary_scaling(tmp_path: Path) -> None:
    old = {"rope_theta": 1e4}
    new = {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5}}
    found = merged(tmp_path, old, new)
    assert found["rotary base"] == ("10000", "500000")
    assert found["rotary scaling"] == ("not set", '{"factor": 4.0, "rope_type": "linear"}')


def test_generation_config(tmp_path: Path) -> None:
    base, model = write_model(tmp_path / "base"), write_model(tmp_path / "tuned")
    write_json(base / "generation_config.json", {"num_beams": 1, "max_new_tokens": 20})
    write_json(model / "generation_config.json", {"use_cache": False, "num_beams": 4, "max_new_tokens": 20})
    assert table(differences(inspect(str(model)), base)) == {
        "use_cache in generation_config.json": ("true", "false"),
        "beams": ("1", "4"),
    }


def test_weights_by_dtype(tmp_path: Path) -> None:
    base, model = write_model(tmp_path / "base"), write_model(tmp_path / "tuned")
    save(base / "model.safetensors", llama_shapes(), "float16")
    save(model / "model.safetensors", llama_shapes() | {"lm_head.weight": (VOCABULARY, HIDDEN)})
    found = table(differences(inspect(str(model), base=str(base))))
    # 32 x 8 embedding, and 8 x 8 and 16 x 8 in each of two layers; the head has 32 x 8 more
    assert found["parameters"] == ("640", "896")
    assert found["weights on disk"] == ("1.28 kB", "3.58 kB")
    assert found["dtypes of the weights"] == ("float16 1.28 kB", "float32 3.58 kB")


def test_adapter(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    save(base / "model.safetensors", llama_shapes(), "float16")
    rows = {"base_model.model.model.embed_tokens.weight": (VOCABULARY + 1, HIDDEN)}
    adapter = write_adapter(
        tmp_path / "a", str(base), llama_lora() | rows, use_rslora=True, modules_to_save=["embed_tokens"]
    )
    found = table(differences(inspect(str(adapter))))
    size = (adapter / "adapter_model.safetensors").stat().st_size
    assert found["weights on disk"] == ("1.28 kB", f"{size / 1000:.3g} kB of adapter on top ({size / 1280:.1%})")
    assert found["dtype"] == ("float16", "float32")
    assert found["adapter"] == ("none", "LORA, rank 2, alpha 4, rslora")
    assert found["adapted modules"] == ("none", "q_proj in 2 places")
    assert found["modules replaced whole"] == ("none", "embed_tokens")
    assert found["vocabulary"] == ("as trained", "33 rows")
    assert "adapter dropout" not in found


def test_dropout_counts_only_where_the_adapter_is_marked_as_in_training(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    adapter = write_adapter(tmp_path / "a", str(base), inference_mode=False)
    assert table(differences(inspect(str(adapter))))["adapter dropout"][1].startswith("0.1")
