"""Every fault of a given path: what is said, what is offered, the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from ftprof.profiler import hub
from ftprof.profiler.directory import inspect
from ftprof.profiler.errors import Exit, FtprofError
from tests.profiler.model_files import (
    BERT,
    HIDDEN,
    LLAMA,
    bert_lora,
    llama_lora,
    llama_shapes,
    lora_shapes,
    write_adapter,
    write_json,
    write_model,
)


def fault(
    path: Path | str, exit_code: int = Exit.UNUSABLE, *, base: Path | str | None = None, adapter: Path | None = None
) -> FtprofError:
    """The error of a run that is offline, after checks that hold for each."""
    with pytest.raises(FtprofError) as caught:
        inspect(
            str(path), base=None if base is None else str(base), adapter=str(adapter) if adapter else None, offline=True
        )
    error = caught.value
    assert error.exit_code == exit_code
    assert error.message and error.hint
    assert "\n" not in error.message + error.hint
    return error


def test_no_such_path_suggests_the_nearest(tmp_path: Path) -> None:
    write_model(tmp_path / "my-model")
    error = fault(tmp_path / "my-modle", Exit.USAGE)
    assert "no such directory" in error.message
    assert error.hint == f"did you mean {tmp_path / 'my-model'}?"


@pytest.mark.parametrize("text", ["", "\0", "x" * 5000, "a b/c"])
def test_paths_that_cannot_be(text: str) -> None:
    with pytest.raises(FtprofError):
        inspect(text, offline=True)


def test_file_instead_of_a_directory(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    error = fault(model / "model.safetensors", Exit.USAGE)
    assert "is a file" in error.message and str(model) in error.hint


def test_hub_id_offline() -> None:
    assert "offline" in fault("org/no-such-model", Exit.USAGE).message


def test_typo_below_a_local_folder_is_not_a_hub_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "no such directory" in fault("out/model", Exit.USAGE).message


def test_empty_directory(tmp_path: Path) -> None:
    assert fault(tmp_path).message == f"{tmp_path} is empty"


def test_unreadable_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tmp_path / "m")

    def refuse(self: Path) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "iterdir", refuse)
    error = fault(tmp_path / "m")
    assert "Permission denied" in error.message and "permissions" in error.hint


def test_no_config(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    error = fault(tmp_path)
    assert "neither config.json nor adapter_config.json" in error.message and "notes.txt" in error.message


def test_only_checkpoints_offers_the_latest_by_number(tmp_path: Path) -> None:
    for step in (900, 1000, 20):
        write_adapter(tmp_path / "out" / f"checkpoint-{step}", "org/base")
    error = fault(tmp_path / "out")
    assert "only 3 training checkpoints" in error.message
    assert error.hint.endswith(f"ftprof diagnose {tmp_path / 'out' / 'checkpoint-1000'}")


def test_model_one_level_down_is_offered(tmp_path: Path) -> None:
    write_model(tmp_path / "final")
    assert fault(tmp_path).hint.endswith(f"ftprof diagnose {tmp_path / 'final'}")


@pytest.mark.parametrize("text", ["{", "[1]", '"x"', "", "[" * 100_000, "\udcff"])
def test_broken_config(tmp_path: Path, text: str) -> None:
    model = write_model(tmp_path)
    (model / "config.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert "config.json is not" in fault(model).message


def test_adapter_without_a_base(tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "an adapter", None)
    error = fault(adapter)
    assert "names no base" in error.message
    assert error.hint == f"name it: ftprof diagnose '{adapter}' --base DIR"


@pytest.mark.parametrize("base", ["org/not-here", "not-here", "/home/somebody/models/base"])
def test_base_that_is_not_here(tmp_path: Path, base: str) -> None:
    adapter = write_adapter(tmp_path / "a", base)
    error = fault(adapter)
    assert base in error.message
    assert f"ftprof diagnose {adapter} --base DIR" in error.hint


def test_base_that_cannot_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConnectionError("no route to host\nand more")

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    monkeypatch.setattr(hub, "network_allowed", lambda *, offline: True)
    error = fault(write_adapter(tmp_path / "a", "org/not-here"))
    assert "no route to host" in error.message and "--base DIR" in error.hint


def test_network_is_refused_by_the_flag_and_by_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    assert hub.network_allowed(offline=False) and not hub.network_allowed(offline=True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert not hub.network_allowed(offline=False)


def test_mistyped_folder_is_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "network_allowed", lambda *, offline: not offline)
    monkeypatch.setattr(hub, "fetch", lambda *_, **__: pytest.fail("asked the hub"))
    with pytest.raises(FtprofError, match="no such directory"):
        inspect("no-such-folder")


def test_cached_model_without_its_weights_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = tmp_path / "hub" / "models--org--model"
    (write_model(repository / "snapshots" / "abc") / "model.safetensors").unlink()
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    assert "offline" in fault(write_adapter(tmp_path / "a", "org/model")).message


def test_base_flag_must_name_a_directory(tmp_path: Path) -> None:
    fault(write_adapter(tmp_path / "a", "org/x"), Exit.USAGE, base=tmp_path / "nowhere")


def test_base_that_is_an_adapter(tmp_path: Path) -> None:
    other = write_adapter(tmp_path / "other", "org/x")
    assert "adapter itself" in fault(write_adapter(tmp_path / "a", "org/x"), Exit.USAGE, base=other).message


def test_base_of_a_merged_model_must_be_a_model(tmp_path: Path) -> None:
    other = write_adapter(tmp_path / "other", "org/x")
    assert "--base" in fault(write_model(tmp_path / "m"), Exit.USAGE, base=other).message


def test_contradicting_flags(tmp_path: Path) -> None:
    base, adapter = write_model(tmp_path / "base"), write_adapter(tmp_path / "a", "org/x")
    assert "--adapter" in fault(adapter, Exit.USAGE, adapter=adapter).message
    assert "--base" in fault(base, Exit.USAGE, base=base, adapter=adapter).message
    assert "adapter_config.json" in fault(base, Exit.USAGE, adapter=base).message


def test_base_of_another_width_names_the_first_module(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", LLAMA, llama_shapes(hidden=4))
    adapter = write_adapter(tmp_path / "a", str(base))
    error = fault(adapter)
    assert "model.layers.0.self_attn.q_proj to be 8 x 8, but the base's is 4 x 4" in error.message
    assert f"ftprof diagnose {adapter} --base DIR" in error.hint


def test_base_with_fewer_layers(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    adapter = write_adapter(tmp_path / "a", str(base), llama_lora(layers=12))
    assert "model.layers.2.self_attn.q_proj, which the base does not have" in fault(adapter).message


def test_base_of_another_family(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    adapter = write_adapter(tmp_path / "a", str(base), bert_lora())
    assert "does not have" in fault(adapter).message


def test_module_under_an_older_name_is_no_fault(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    renamed = lora_shapes({"model.layers.0.mlp.gate_up": (HIDDEN, HIDDEN)})
    inspect(str(write_adapter(tmp_path / "a", str(base), llama_lora() | renamed)))


@pytest.mark.parametrize("cut", [0, 4, 40, -1])
def test_truncated_weights(tmp_path: Path, cut: int) -> None:
    model = write_model(tmp_path)
    whole = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(whole[:cut])
    error = fault(model)
    assert "truncated or corrupt" in error.message and "model.safetensors" in error.message


def test_truncated_adapter(tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "a", str(write_model(tmp_path / "base")))
    (adapter / "adapter_model.safetensors").write_bytes(b"\xff" * 100)
    assert "adapter_model.safetensors" in fault(adapter).message


def test_git_lfs_pointer(tmp_path: Path) -> None:
    model = write_model(tmp_path)
    (model / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    assert "git lfs pull" in fault(model).hint


def test_missing_shard(tmp_path: Path) -> None:
    model = write_model(tmp_path)
    (model / "model.safetensors").rename(model / "a.safetensors")
    weight_map = {"x": "a.safetensors", "y": "b.safetensors"}
    write_json(model / "model.safetensors.index.json", {"weight_map": weight_map})
    error = fault(model)
    assert "lacks 1 of its 2 weight files" in error.message and "b.safetensors" in error.message


def test_index_of_another_model(tmp_path: Path) -> None:
    model = write_model(tmp_path)
    (model / "model.safetensors").rename(model / "a.safetensors")
    write_json(model / "model.safetensors.index.json", {"weight_map": {"x": "a.safetensors"}})
    assert "the first is x" in fault(model).message


@pytest.mark.parametrize("content", [{}, {"weight_map": []}, {"weight_map": {"x": "../a.safetensors"}}])
def test_broken_index(tmp_path: Path, content: object) -> None:
    model = write_model(tmp_path)
    (model / "model.safetensors").unlink()
    write_json(model / "model.safetensors.index.json", content)
    assert "model.safetensors.index.json" in fault(model).message


def test_only_pickles_says_how_to_convert(tmp_path: Path) -> None:
    model = write_model(tmp_path)
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    error = fault(model)
    assert "pytorch_model.bin" in error.message and "save_pretrained" in error.hint


def test_only_a_pickled_adapter(tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "a", str(write_model(tmp_path / "base")))
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    error = fault(adapter)
    assert "adapter_model.bin" in error.message and "weights_only=True" in error.hint


@pytest.mark.parametrize(
    ("name", "words"), [("x.gguf", "GGUF"), ("lora.safetensors", "only lora"), ("x.txt", "no weights")]
)
def test_other_weights(tmp_path: Path, name: str, words: str) -> None:
    model = write_model(tmp_path)
    (model / "model.safetensors").rename(model / name)
    assert words in fault(model).message


def test_adapter_config_without_weights(tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "a", str(write_model(tmp_path / "base")))
    (adapter / "adapter_model.safetensors").unlink()
    assert "no adapter_model.safetensors" in fault(adapter).message


def test_custom_code_needs_trust(tmp_path: Path) -> None:
    model = write_model(tmp_path, LLAMA | {"model_type": "our_own", "auto_map": {"AutoModel": "code.Model"}})
    error = fault(model)
    assert "auto_map" in error.message and "--trust-remote-code" in error.hint


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"architectures": ["ViTModel"], "num_channels": 3}, "ViTModel is a vision or audio model"),
        ({"architectures": ["Gemma3ForConditionalGeneration"], "vision_config": {}}, "vision or audio"),
        ({"architectures": ["HubertForSequenceClassification"], "feat_extract_norm": "group"}, "vision or audio"),
        ({"architectures": ["BartForSequenceClassification"], "is_encoder_decoder": True}, "does not generate text"),
        ({"architectures": ["EncoderDecoderModel"], "is_encoder_decoder": True}, "has an encoder and a decoder"),
        (
            {"architectures": ["Speech2TextForConditionalGeneration"], "is_encoder_decoder": True}
            | {"input_feat_per_channel": 80},
            "vision or audio",
        ),
        ({"architectures": ["FuyuForConditionalGeneration"]}, "FuyuForConditionalGeneration is not supported"),
        ({"architectures": ["T5EncoderModel"]}, "T5EncoderModel is not supported"),
        ({"architectures": ["BertForTokenClassification"]}, "BertForTokenClassification is not supported"),
        ({"architectures": None}, "names no architecture"),
    ],
)
def test_unsupported_models_are_named(tmp_path: Path, config: dict[str, object], words: str) -> None:
    assert words in fault(write_model(tmp_path, LLAMA | config)).message


def test_unsupported_adapter_tasks(tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "a", str(write_model(tmp_path / "base")), task_type="TOKEN_CLS")
    assert "TOKEN_CLS" in fault(adapter).message


@pytest.mark.parametrize(
    ("task", "config", "words"),
    [
        ("SEQ_2_SEQ_LM", {}, "no sequence-to-sequence model"),
        (
            "CAUSAL_LM",
            {"architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True},
            "its base is a sequence-to-sequence model",
        ),
    ],
)
def test_an_adapters_task_fits_its_base(tmp_path: Path, task: str, config: dict[str, object], words: str) -> None:
    base = write_model(tmp_path / "base", LLAMA | config)
    error = fault(write_adapter(tmp_path / "a", str(base), task_type=task))
    assert task in error.message and words in error.message
    assert "--base" in error.hint


def test_adapter_on_a_vision_model(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", BERT | {"architectures": ["ViTModel"], "image_size": 224})
    assert "ViTModel" in fault(write_adapter(tmp_path / "a", str(base), task_type="FEATURE_EXTRACTION")).message


def test_no_tokenizer(tmp_path: Path) -> None:
    error = fault(write_model(tmp_path, tokenizer=False))
    assert "no tokenizer" in error.message and "save_pretrained" in error.hint


def test_broken_tokenizer(tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "a", str(write_model(tmp_path / "base")))
    (adapter / "tokenizer.json").write_text("{")
    assert "tokenizer.json" in fault(adapter).message
