"""PEFT's kinds of adapter, each made and saved by PEFT on a tiny model: described, loaded, switched, merged or not."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from ftprof.profiler import adapter_kinds
from ftprof.profiler.adapter_merge import merge
from ftprof.profiler.adapter_switch import set_adapter
from ftprof.profiler.config_file import ConfigFile
from ftprof.profiler.directory import inspect
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.prompt_learning import stack_note
from ftprof.profiler.workload import Call
from tests.profiler.adapter_models import TEXTS, loaded, outputs, rolled, save_adapter
from tests.profiler.model_files import llama_lora, write_adapter, write_json, write_model

TARGETS = ["q_proj", "v_proj", "down_proj"]
# Kind, its settings, its rank, its title, and how many layers it adapts (of two).
MERGEABLE: dict[str, tuple[str, dict[str, Any], int | None, str, int]] = {
    "lora": ("Lora", {"r": 4, "target_modules": TARGETS}, 4, "LoRA", 6),
    "dora": ("Lora", {"r": 4, "use_dora": True, "target_modules": TARGETS}, 4, "LoRA (dora)", 6),
    "rslora": ("Lora", {"r": 4, "use_rslora": True, "target_modules": TARGETS}, 4, "LoRA (rslora)", 6),
    "adalora": ("AdaLora", {"total_step": 9, "target_modules": TARGETS}, 12, "AdaLoRA", 6),
    "ia3": ("IA3", {"target_modules": TARGETS, "feedforward_modules": ["down_proj"]}, None, "IA3", 6),
    "loha": ("LoHa", {"r": 4, "target_modules": TARGETS}, 4, "LoHa", 6),
    "lokr": ("LoKr", {"r": 4, "target_modules": TARGETS}, 4, "LoKr", 6),
    "oft": ("OFT", {"oft_block_size": 8, "target_modules": TARGETS}, None, "OFT", 6),
    "vera": ("Vera", {"r": 16, "target_modules": TARGETS}, 16, "VeRA", 6),
}
PROMPT: dict[str, tuple[str, dict[str, Any], str]] = {
    "prompt tuning": ("PromptTuning", {}, "puts 4 virtual tokens before every prompt"),
    "p-tuning": ("PromptEncoder", {"encoder_hidden_size": 16}, "puts 4 virtual tokens before every prompt"),
    "prefix tuning": ("PrefixTuning", {}, "lives in the key-value cache, not in the weights, and cannot be merged"),
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def adapters(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One adapter of each kind that merges."""
    root = tmp_path_factory.mktemp("kinds")
    return {
        name: save_adapter(root / name, tiny_base, kind, settings, 0.3)
        for name, (kind, settings, *_) in MERGEABLE.items()
    }


@pytest.fixture(scope="module")
def bare_logits(tiny_base: Path) -> dict[str, torch.Tensor]:
    """The base's own logits by dtype."""
    engines = {dtype: loaded(inspect(str(tiny_base)), tiny_base, dtype) for dtype in ("float32", "bfloat16")}
    return {dtype: outputs(engine.model, engine) for dtype, engine in engines.items()}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name in MERGEABLE for dtype in ("float32", "bfloat16")],
)
def test_kinds_that_merge(
    adapters: dict[str, Path], bare_logits: dict[str, torch.Tensor], tmp_path: Path, name: str, dtype: str
) -> None:
    _, _, rank, title, modules = MERGEABLE[name]
    found = inspect(str(adapters[name]), offline=True)
    on_disk = found.adapter_facts
    assert on_disk is not None and found.task == "causal-lm"
    assert (on_disk.rank, on_disk.modules, on_disk.virtual_tokens) == (rank, modules, None)
    assert on_disk.targets == tuple(sorted(TARGETS))
    engine = loaded(found, tmp_path, dtype)
    facts = engine.adapter()
    assert facts is not None
    assert (facts.title, facts.rank, facts.modules, facts.blockers) == (title, rank, modules, ())
    assert facts.targets == on_disk.targets and facts.parameters > 0 and facts.loaded_dtype == "float32"
    assert engine.facts().dtype == dtype
    before = outputs(engine.model, engine)
    set_adapter(engine.model, False)
    bare = outputs(engine.model, engine)
    assert torch.equal(bare, bare_logits[dtype])
    # bf16 keeps 8 bits, of weights and of everything that runs through them; the adapter itself must do far more.
    limit = (1e-4 if dtype == "float32" else 0.05) * float(before.abs().max())
    assert (bare - before).abs().max() > 3 * limit
    set_adapter(engine.model, True)
    assert torch.equal(outputs(engine.model, engine), before)
    merged = merge(engine.model)
    assert {str(parameter.dtype) for parameter in merged.parameters()} == {f"torch.{dtype}"}
    assert (outputs(merged, engine) - before).abs().max() < limit


@pytest.mark.parametrize("name", PROMPT)
def test_kinds_with_virtual_tokens(tiny_base: Path, tmp_path: Path, name: str) -> None:
    kind, settings, reason = PROMPT[name]
    found = inspect(str(save_adapter(tmp_path / "a", tiny_base, kind, settings | {"num_virtual_tokens": 4}, 1.0)))
    assert found.max_context == 256 - 4
    assert any("4 virtual tokens before every request" in note for note in found.notes)
    engine = loaded(found, tmp_path)
    facts = engine.adapter()
    assert facts is not None
    assert (facts.title, facts.rank, facts.modules, facts.targets, facts.virtual_tokens) == (name, None, 0, (), 4)
    assert facts.parameters == found.adapter_facts.parameters  # type: ignore[union-attr]
    assert len(facts.blockers) == 1 and reason in facts.blockers[0] and "4 virtual tokens" in facts.blockers[0]
    assert engine.facts().max_context == 256 - 4
    ids = engine.tokenise(TEXTS[:1])
    bare = loaded(inspect(str(tiny_base)), tmp_path)
    expected = rolled(engine.model, torch.tensor(ids), 5)[0, len(ids[0]) :].tolist()
    assert list(engine.generate(engine.pad(ids), 5).tokens[0]) == expected
    uncached = engine.with_call(Call(use_cache=False))
    assert list(uncached.generate(uncached.pad(ids), 5).tokens[0]) == expected
    set_adapter(engine.model, False)
    set_adapter(engine.model, False)
    assert engine.generate(engine.pad(ids), 5).tokens == bare.generate(bare.pad(ids), 5).tokens
    set_adapter(engine.model, True)
    assert list(engine.generate(engine.pad(ids), 5).tokens[0]) == expected


@pytest.mark.parametrize("name", ["prompt tuning", "prefix tuning"])
def test_logits_of_real_tokens_with_right_padding(tiny_base: Path, tmp_path: Path, name: str) -> None:
    kind, settings, _ = PROMPT[name]
    adapter = save_adapter(tmp_path / "a", tiny_base, kind, settings | {"num_virtual_tokens": 4}, 1.0)
    engine = loaded(inspect(str(adapter)), tmp_path)
    ids = engine.tokenise(TEXTS)
    longest = max(len(row) for row in ids)
    together = torch.from_numpy(engine.logits(ids))[:, -longest:]
    for row, logits in zip(ids, together, strict=True):
        with torch.inference_mode():
            alone = engine.model(torch.tensor([row])).logits[0, -len(row) :]
        assert torch.allclose(logits[: len(row)], alone, atol=1e-4)


def test_the_note_on_the_stack_is_true(tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, settings, _ = PROMPT["prefix tuning"]
    found = inspect(str(save_adapter(tmp_path / "a", tiny_base, kind, settings | {"num_virtual_tokens": 4}, 1.0)))
    monkeypatch.setattr("ftprof.profiler.load.hand_on_cache", lambda model: None)
    engine = loaded(found, tmp_path)
    ids = engine.tokenise(TEXTS[:1])
    expected = rolled(engine.model, torch.tensor(ids), 5)[0, len(ids[0]) :].tolist()
    as_served = list(engine.generate(engine.pad(ids), 5).tokens[0])
    assert (as_served == expected) == (stack_note() is None)
    monkeypatch.setattr("ftprof.profiler.prompt_learning.version", lambda package: "99.0")
    assert stack_note() is None


def test_a_model_without_an_adapter_has_none_to_switch(tiny_base: Path, tmp_path: Path) -> None:
    with pytest.raises(FtprofError, match="no adapter"):
        set_adapter(loaded(inspect(str(tiny_base)), tmp_path).model, False)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("XLORA", "mixes several LoRAs"),
        ("POLY", "task number"),
        ("MULTITASK_PROMPT_TUNING", "task number"),
        ("NEXT_YEARS", "no adapters of kind NEXT_YEARS"),
        ("../lora", "no adapters of kind"),
        (None, "names no peft_type"),
    ],
)
def test_kinds_that_cannot_run_are_refused(tmp_path: Path, kind: str | None, words: str) -> None:
    adapter = write_adapter(tmp_path / "a", str(write_model(tmp_path / "base")), peft_type=kind)
    with pytest.raises(FtprofError, match=words) as caught:
        inspect(str(adapter))
    assert caught.value.hint and "\n" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"peft_type": "LORA"}, None),
        ({"peft_type": "LORA", "layer_replication": [[0, 2], [1, 2]]}, "layer_replication"),
        ({"peft_type": "LORA", "alora_invocation_tokens": [1, 2]}, "invocation tokens"),
        ({"peft_type": "LILY"}, "anew for every token"),
        ({"peft_type": "OSF"}, "not known"),
        ({"peft_type": "CARTRIDGE", "num_virtual_tokens": 7}, "costs 7 virtual tokens"),
        ({"peft_type": "CPT", "cpt_token_ids": [1, 2, 3]}, "puts 3 virtual tokens"),
    ],
)
def test_why_not_to_merge(settings: dict[str, object], words: str | None) -> None:
    reason = adapter_kinds.unmergeable(ConfigFile("x", settings))
    assert reason is None if words is None else words in str(reason)


def test_modules_of_another_base_are_named(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    shapes = {"base_model.model.model.layers.9.self_attn.q_proj.ia3_l": (8, 1)}
    adapter = write_adapter(tmp_path / "a", str(base), shapes, peft_type="IA3")
    with pytest.raises(FtprofError, match=r"changes model\.layers\.9\.self_attn\.q_proj"):
        inspect(str(adapter))


def test_virtual_tokens_of_another_width(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    settings: dict[str, object] = {"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 3}
    adapter = write_adapter(tmp_path / "a", str(base), {"prompt_embeddings": (3, 20)}, **settings)
    with pytest.raises(FtprofError, match="20 wide, but the base's embeddings are 8"):
        inspect(str(adapter))


def test_repeated_layers_are_not_missed_in_the_base(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    adapter = write_adapter(tmp_path / "a", str(base), llama_lora(layers=3), layer_replication=[[0, 2], [1, 2]])
    assert inspect(str(adapter)).adapter_facts.modules == 3  # type: ignore[union-attr]


def test_one_of_several_adapters(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    for name in ("german", "french"):
        write_adapter(tmp_path / "out" / name, str(base))
    with pytest.raises(FtprofError, match=r"holds 2 adapters \(french, german\)") as caught:
        inspect(str(tmp_path / "out"))
    assert caught.value.hint == f"name one of them: ftprof diagnose {tmp_path / 'out'} --adapter french"
    found = inspect(str(tmp_path / "out"), adapter="german")
    assert (found.adapter, found.name) == (str(tmp_path / "out" / "german"), "out/german")
    assert found.siblings == ("french",)
    assert any("keep_adapter = true" in note for note in found.notes)
    with pytest.raises(FtprofError, match="none is called italian"):
        inspect(str(tmp_path / "out"), adapter="italian")
    with pytest.raises(FtprofError, match="2 adapters") as caught:
        inspect(str(base), adapter=str(tmp_path / "out"))
    command = f"ftprof diagnose {base} --adapter {tmp_path / 'out' / 'french'}"
    assert caught.value.hint == f"name one of them: {command}"


def test_the_default_adapter_has_the_directory_itself(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    write_adapter(tmp_path / "out", str(base))
    write_adapter(tmp_path / "out" / "second", str(base))
    write_adapter(tmp_path / "out" / "checkpoint-9", str(base))
    found = inspect(str(tmp_path / "out"))
    assert (found.adapter, found.siblings) == (str(tmp_path / "out"), ("second",))
    assert inspect(str(tmp_path / "out"), adapter="second").adapter == str(tmp_path / "out" / "second")
    assert inspect(str(tmp_path / "out"), adapter="default").adapter == str(tmp_path / "out")


def test_a_single_named_adapter_and_one_inside_its_base(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    write_adapter(tmp_path / "out" / "tickets", str(base))
    assert inspect(str(tmp_path / "out")).adapter == str(tmp_path / "out" / "tickets")
    write_adapter(base / "inner", None)
    found = inspect(str(base), adapter="inner")
    assert (found.model, found.adapter) == (str(base), str(base / "inner"))
    whole = inspect(str(base))
    assert whole.adapter is None and any("1 adapter (inner)" in note for note in whole.notes)


def test_adapters_on_other_bases_are_no_siblings(tmp_path: Path) -> None:
    base, other = write_model(tmp_path / "base"), write_model(tmp_path / "other")
    write_adapter(tmp_path / "out" / "b", str(other))
    broken = write_adapter(tmp_path / "out" / "c", str(base))
    (broken / "adapter_config.json").write_text("{")
    assert inspect(str(write_adapter(tmp_path / "out" / "a", str(base)))).siblings == ()


def test_peft_saves_named_adapters_into_folders(tiny_base: Path, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    settings: dict[str, Any] = {"r": 2, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM"}
    model: Any = get_peft_model(
        AutoModelForCausalLM.from_pretrained(tiny_base), LoraConfig(**settings), adapter_name="one"
    )
    model.add_adapter("two", LoraConfig(**settings))
    model.save_pretrained(str(tmp_path / "out"))
    facts = loaded(inspect(str(tmp_path / "out"), adapter="two"), tmp_path).adapter()
    assert facts is not None and facts.blockers == () and facts.modules == 2


def test_facts_survive_a_round_trip(tiny_base: Path, tmp_path: Path) -> None:
    found = inspect(str(save_adapter(tmp_path / "a", tiny_base, "IA3", MERGEABLE["ia3"][1])))
    facts = loaded(found, tmp_path).adapter()
    assert msgspec.json.decode(msgspec.json.encode(facts), type=type(facts)) == facts
    assert json.loads((tmp_path / "a" / "adapter_config.json").read_text())["peft_type"] == facts.kind  # type: ignore[union-attr]


def test_label_names_of_a_container_are_read_from_the_adapter(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    adapter = write_adapter(tmp_path / "out" / "only", str(base))
    write_json(adapter / "config.json", {"id2label": {"0": "no"}})
    assert inspect(str(tmp_path / "out")).task == "causal-lm"
