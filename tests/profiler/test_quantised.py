"""Quantised weights: recognised from config.json, refused where nothing loads them, never merged into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ftprof.profiler.config_file import ConfigFile
from ftprof.profiler.directory import inspect
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.model_facts import adapter_facts, model_facts
from ftprof.profiler.quantised import plain_name, quantised, refuse_device
from ftprof.profiler.workload import Call
from tests.profiler.adapter_models import loaded, save_adapter
from tests.profiler.model_files import LLAMA, llama_lora, write_adapter, write_model

CONFIGS: list[tuple[dict[str, Any], str, bool]] = [
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "4-bit bitsandbytes", False),
    ({"load_in_8bit": True}, "8-bit bitsandbytes", False),
    ({"quant_method": "bitsandbytes_4bit", "load_in_4bit": True}, "4-bit bitsandbytes", False),
    ({"quant_method": "gptq", "bits": 8}, "8-bit GPTQ", False),
    ({"quant_method": "awq", "w_bit": 4}, "4-bit AWQ", False),
    (
        {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4}}}},
        "4-bit compressed-tensors",
        False,
    ),
    (
        {"quant_method": "torchao", "quant_type": {"default": {"_type": "Int8WeightOnlyConfig"}}},
        "8-bit torchao",
        False,
    ),
    ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 3}}}, "3-bit HQQ", False),
    ({"quant_method": "fp8"}, "fp8", False),
    ({"quant_method": "mxfp4"}, "MXFP4", False),
    ({"quant_method": "vptq"}, "VPTQ", True),
    ({"quant_method": "tomorrow", "bits": 4}, "4-bit tomorrow", False),
    ({"quant_method": 3, "bits": "many"}, "unknown", False),
]


@pytest.mark.parametrize(("table", "words", "gpu"), CONFIGS)
def test_recognised(table: dict[str, Any], words: str, gpu: bool) -> None:
    found = quantised(ConfigFile("config.json", {"quantization_config": table}))
    assert found is not None
    assert (found.words, found.gpu) == (words, gpu)
    assert "merge there, then quantise" in found.unmergeable


def test_plain_weights_are_none() -> None:
    assert quantised(ConfigFile("config.json", {"quantization_config": None})) is None


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("unsloth/Llama-3.2-1B-Instruct-bnb-4bit", "unsloth/Llama-3.2-1B-Instruct"),
        ("unsloth/gemma-3-4b-it-unsloth-bnb-4bit", "unsloth/gemma-3-4b-it"),
        ("TheBloke/Llama-2-7B-GPTQ", "TheBloke/Llama-2-7B"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen/Qwen2.5-7B-Instruct"),
        ("Qwen/Qwen2-7B-Instruct-AWQ", "Qwen/Qwen2-7B-Instruct"),
        ("RedHatAI/Llama-3.1-8B-FP8-dynamic", "RedHatAI/Llama-3.1-8B"),
        ("RedHatAI/Llama-3.1-8B-quantized.w4a16", "RedHatAI/Llama-3.1-8B"),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", None),
        ("google/gemma-3-4b-it", None),
        ("org/4bit", None),
        ("org/model-128g", None),
    ],
)
def test_names_of_quantised_repositories(name: str, plain: str | None) -> None:
    assert plain_name(name) == plain


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ftprof.profiler.quantised._installed", lambda package: False)


@pytest.mark.usefixtures("nothing_installed")
def test_a_base_that_nothing_here_loads(tmp_path: Path) -> None:
    table = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    base = write_model(tmp_path / "base", LLAMA | {"quantization_config": table})
    adapter = write_adapter(tmp_path / "a", str(base), llama_lora(hidden=64))
    with pytest.raises(FtprofError) as caught:
        inspect(str(adapter))
    assert caught.value.message == (
        f"{base} is quantised (4-bit bitsandbytes), and bitsandbytes, which loads it, is not installed"
    )
    command = f"ftprof diagnose {adapter} --base DIR"
    assert caught.value.hint == f"pip install bitsandbytes, or give the 16-bit base: {command}"
    with pytest.raises(FtprofError, match="is not installed") as caught:
        inspect(str(base))
    assert "16-bit model that it was made from" in caught.value.hint


def test_a_base_that_loads_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ftprof.profiler.quantised._installed", lambda package: True)
    base = write_model(tmp_path / "base", LLAMA | {"quantization_config": {"quant_method": "awq", "bits": 4}})
    found = inspect(str(write_adapter(tmp_path / "a", str(base), llama_lora(hidden=64))))
    assert found.quantised is not None and found.quantised.words == "4-bit AWQ"
    assert any("stored quantised (4-bit AWQ)" in note for note in found.notes)


def test_what_runs_on_a_gpu_only() -> None:
    held = quantised(ConfigFile("config.json", {"quantization_config": {"quant_method": "spqr"}}))
    assert held is not None
    refuse_device(held, "model", "cuda:0")
    with pytest.raises(FtprofError, match="runs on a GPU only, not on cpu") as caught:
        refuse_device(held, "model", "cpu")
    assert "--device cuda:0" in caught.value.hint


def test_the_missing_base_of_an_adapter_names_its_original(tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "a", "unsloth/Llama-3.2-1B-bnb-4bit")
    with pytest.raises(FtprofError, match=r"Llama-3\.2-1B-bnb-4bit is not on this machine") as caught:
        inspect(str(adapter), offline=True)
    assert "16-bit original, such as unsloth/Llama-3.2-1B:" in caught.value.hint


def test_a_plain_base_given_to_an_adapter_of_a_quantised_one(tiny_base: Path, tmp_path: Path) -> None:
    adapter = save_adapter(tmp_path / "a", tiny_base, "Lora", {"r": 4, "target_modules": ["q_proj"]})
    settings = (adapter / "adapter_config.json").read_text().replace(str(tiny_base), "org/tiny-bnb-4bit")
    (adapter / "adapter_config.json").write_text(settings)
    found = inspect(str(adapter), base=str(tiny_base), offline=True)
    assert any("trained on the quantised base org/tiny-bnb-4bit" in note for note in found.notes)
    assert loaded(found, tmp_path).adapter().blockers == ()  # type: ignore[union-attr]


def test_no_merge_into_quantised_weights(tiny_base: Path, tmp_path: Path) -> None:
    adapter = save_adapter(tmp_path / "a", tiny_base, "Lora", {"r": 4, "target_modules": ["q_proj"]})
    model = loaded(inspect(str(adapter)), tmp_path).model
    # What transformers leaves on a model whose weights it quantised.
    base = model.get_base_model()
    base.is_quantized = True
    base.config.quantization_config = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    facts = adapter_facts(model, str(adapter))
    assert len(facts.blockers) == 1 and "4-bit bitsandbytes" in facts.blockers[0] and "--base DIR" in facts.blockers[0]
    assert model_facts(model, Call()).quantisation == "4-bit bitsandbytes"
