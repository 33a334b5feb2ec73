"""What a directory is taken for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ftprof.profiler import hub
from ftprof.profiler.digest import digest_directory
from ftprof.profiler.directory import inspect
from tests.profiler.model_files import (
    BERT,
    HIDDEN,
    LAYERS,
    LLAMA,
    RANK,
    VOCABULARY,
    bert_lora,
    bert_shapes,
    llama_lora,
    llama_shapes,
    write_adapter,
    write_json,
    write_model,
    write_tokenizer,
)

CLASSIFIER = BERT | {"architectures": ["BertForSequenceClassification"]}


def test_adapter_with_a_local_base(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    adapter = write_adapter(tmp_path / "run" / "checkpoint-7", str(base))
    found = inspect(str(adapter))
    assert (found.model, found.adapter, found.given) == (str(base), str(adapter), str(adapter))
    assert (found.tokenizer, found.base, found.task) == (str(base), str(base), "causal-lm")
    assert (found.name, found.max_context, found.vocab_rows, found.remote) == ("run/checkpoint-7", 64, None, False)
    facts = found.adapter_facts
    assert facts is not None
    assert (facts.kind, facts.rank, facts.alpha, facts.targets, facts.modules) == ("LORA", RANK, 4, ("q_proj",), LAYERS)
    assert facts.parameters == LAYERS * 2 * RANK * HIDDEN
    assert facts.file_bytes == (adapter / "adapter_model.safetensors").stat().st_size
    assert facts.dtype == "float32"
    assert [entry.name for entry in found.files] == ["adapter_config.json", "adapter_model.safetensors"]


def test_base_flag_wins_over_the_recorded_base(tmp_path: Path) -> None:
    other = write_model(tmp_path / "other")
    adapter = write_adapter(tmp_path / "adapter", "org/gone")
    found = inspect(str(adapter), base=str(other), offline=True)
    assert (found.model, found.base) == (str(other), "org/gone")


def test_base_and_adapter_given_apart(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    adapter = write_adapter(tmp_path / "adapter", None)
    found = inspect(str(base), adapter=str(adapter))
    assert (found.model, found.adapter, found.name) == (str(base), str(adapter), "adapter")


def test_known_base_is_found_by_its_hub_id(tmp_path: Path) -> None:
    base = write_model(tmp_path / "prepared")
    adapter = write_adapter(tmp_path / "adapter", "org/model")
    found = inspect(str(adapter), offline=True, known_bases={"org/model": base})
    assert (found.model, found.base, found.remote) == (str(base), "org/model", False)


def test_base_in_the_hugging_face_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = tmp_path / "hub" / "models--org--model"
    snapshot = write_model(repository / "snapshots" / "abc")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    adapter = write_adapter(tmp_path / "adapter", "org/model")
    assert inspect(str(adapter), offline=True).model == str(snapshot)
    assert inspect(str(snapshot)).name == "org/model"


def test_absent_hub_id_is_fetched_when_online(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = write_model(tmp_path / "fetched")
    asked: list[tuple[str, str | None]] = []

    def fetch(hub_id: str, *, revision: str | None) -> Path:
        asked.append((hub_id, revision))
        return base

    monkeypatch.setattr(hub, "fetch", fetch)
    monkeypatch.setattr(hub, "network_allowed", lambda *, offline: not offline)
    adapter = write_adapter(tmp_path / "adapter", "org/absent", revision="v2")
    found = inspect(str(adapter))
    assert (found.model, found.remote) == (str(base), True)
    assert inspect("org/absent").name == "org/absent"
    assert asked == [("org/absent", "v2"), ("org/absent", None)]


def test_merged_causal_model_in_shards(tmp_path: Path) -> None:
    model = write_model(tmp_path / "merged")
    (model / "model.safetensors").rename(model / "part-1.safetensors")
    index = {"weight_map": dict.fromkeys(llama_shapes(), "part-1.safetensors")}
    write_json(model / "model.safetensors.index.json", index)
    found = inspect(str(model))
    assert (found.task, found.adapter, found.adapter_facts, found.labels) == ("causal-lm", None, None, ())
    assert found.label_count == 0


@pytest.mark.parametrize(
    ("architecture", "task"),
    [
        ("GPT2LMHeadModel", "causal-lm"),
        ("Qwen2ForCausalLM", "causal-lm"),
        ("RobertaForSequenceClassification", "sequence-classification"),
        ("BertModel", "embedding"),
        ("ModernBertForMaskedLM", "embedding"),
    ],
)
def test_task_from_the_architecture(tmp_path: Path, architecture: str, task: str) -> None:
    model = write_model(tmp_path / "m", LLAMA | {"architectures": [architecture]})
    assert inspect(str(model)).task == task


def test_sentence_transformers_layout_is_an_embedder(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    write_json(model / "modules.json", [{"idx": 0, "path": ""}])
    (model / "1_Pooling").mkdir()
    write_json(model / "1_Pooling" / "config.json", {"pooling_mode_mean_tokens": False})
    write_json(model / "sentence_bert_config.json", {"max_seq_length": 48})
    found = inspect(str(model))
    assert (found.task, found.max_context) == ("embedding", 48)
    assert any("mean pooling" in note for note in found.notes)


def test_old_sentence_transformers_folder(tmp_path: Path) -> None:
    write_model(tmp_path / "m" / "0_Transformer", BERT, bert_shapes())
    write_json(tmp_path / "m" / "modules.json", [{"idx": 0, "path": "0_Transformer"}])
    found = inspect(str(tmp_path / "m"))
    assert (found.task, found.model) == ("embedding", str(tmp_path / "m" / "0_Transformer"))


@pytest.mark.parametrize("head", ["classifier", "score", "classifier.out_proj", "classifier.modules_to_save.default"])
def test_label_count_from_the_saved_head(tmp_path: Path, head: str) -> None:
    base = write_model(tmp_path / "base", BERT, bert_shapes())
    shapes = bert_lora() | {
        f"base_model.model.{head}.weight": (5, HIDDEN),
        "base_model.model.classifier.dense.weight": (9, 8),
    }
    adapter = write_adapter(tmp_path / "a", str(base), shapes, task_type="SEQ_CLS")
    found = inspect(str(adapter))
    assert found.task == "sequence-classification"
    assert found.labels == ("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3", "LABEL_4")


def test_saved_head_makes_a_classifier_of_an_adapter_without_a_task(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", BERT, bert_shapes())
    shapes = bert_lora() | {"base_model.model.classifier.weight": (3, HIDDEN)}
    assert inspect(str(write_adapter(tmp_path / "a", str(base), shapes, task_type=None))).label_count == 3


def test_label_names_beside_the_adapter(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", BERT, bert_shapes())
    shapes = bert_lora() | {"base_model.model.classifier.weight": (3, HIDDEN)}
    adapter = write_adapter(tmp_path / "a", str(base), shapes, task_type="SEQ_CLS")
    write_json(adapter / "config.json", CLASSIFIER | {"id2label": {"0": "no", "1": "maybe", "2": "yes"}})
    assert inspect(str(adapter)).labels == ("no", "maybe", "yes")


def test_label_names_of_another_head_are_not_used(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", BERT | {"id2label": {"0": "bad", "1": "good"}}, bert_shapes())
    shapes = bert_lora() | {"base_model.model.classifier.weight": (3, HIDDEN)}
    adapter = write_adapter(tmp_path / "a", str(base), shapes, task_type="SEQ_CLS")
    assert inspect(str(adapter)).labels == ("LABEL_0", "LABEL_1", "LABEL_2")


def test_merged_classifier_takes_its_labels_from_config(tmp_path: Path) -> None:
    config = CLASSIFIER | {"id2label": {"1": "spam", "0": "ham"}}
    model = write_model(tmp_path / "m", config, bert_shapes("bert.") | {"classifier.weight": (2, HIDDEN)})
    assert inspect(str(model)).labels == ("ham", "spam")


def test_feature_extraction_adapter_on_a_prefixed_base(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", BERT | {"architectures": ["BertForMaskedLM"]}, bert_shapes("bert."))
    shapes = {name.replace("bert.", ""): shape for name, shape in bert_lora().items()}
    assert (
        inspect(str(write_adapter(tmp_path / "a", str(base), shapes, task_type="FEATURE_EXTRACTION"))).task
        == "embedding"
    )


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("base_model.model.model.embed_tokens.weight", (VOCABULARY + 3, HIDDEN)),
        ("base_model.model.lm_head.weight", (VOCABULARY + 3, HIDDEN)),
        ("base_model.model.model.embed_tokens.lora_embedding_A", (RANK, VOCABULARY + 3)),
    ],
)
def test_added_rows_in_the_adapter(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    base = write_model(tmp_path / "base")
    adapter = write_adapter(tmp_path / "a", str(base), llama_lora() | {name: shape})
    assert inspect(str(adapter)).vocab_rows == VOCABULARY + 3


def test_saved_embedding_of_the_same_size_needs_no_resize(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    shapes = llama_lora() | {"base_model.model.model.embed_tokens.weight": (VOCABULARY, HIDDEN)}
    assert inspect(str(write_adapter(tmp_path / "a", str(base), shapes))).vocab_rows is None


def test_added_tokens_in_the_adapters_tokenizer(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    adapter = write_adapter(tmp_path / "a", str(base))
    write_tokenizer(adapter, added=2)
    found = inspect(str(adapter))
    assert (found.vocab_rows, found.tokenizer) == (VOCABULARY + 2, str(adapter))


def test_positions_of_roberta_start_after_the_padding(tmp_path: Path) -> None:
    config = BERT | {"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}
    assert inspect(str(write_model(tmp_path / "m", config))).max_context == 512


def test_pickles_beside_are_noted(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    (model / "training_args.bin").write_bytes(b"\x80never opened")
    assert "training_args.bin ignored: pickle files are never opened" in inspect(str(model)).notes


def test_custom_code_of_a_known_family_is_not_run(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m", LLAMA | {"auto_map": {"AutoModel": "code.Model"}})
    assert any("transformers has the code of llama" in note for note in inspect(str(model)).notes)


def test_custom_code_runs_where_it_is_trusted(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m", LLAMA | {"model_type": "ours", "auto_map": {"AutoModel": "code.Model"}})
    found = inspect(str(model), trust_remote_code=True)
    assert found.trust_remote_code
    assert any("own code runs" in note for note in found.notes)


def test_quantised_base_is_not_compared(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base", LLAMA | {"quantization_config": {"quant_method": "fp8"}})
    found = inspect(str(write_adapter(tmp_path / "a", str(base), llama_lora(hidden=64))))
    assert any("quantised" in note for note in found.notes)


def test_transposed_weights_fit(tmp_path: Path) -> None:
    shapes = {f"h.{layer}.attn.c_attn.weight": (HIDDEN, 3 * HIDDEN) for layer in range(LAYERS)}
    base = write_model(tmp_path / "base", LLAMA, shapes)
    saved = {}
    for layer in range(LAYERS):
        saved[f"base_model.model.transformer.h.{layer}.attn.c_attn.lora_A.weight"] = (RANK, HIDDEN)
        saved[f"base_model.model.transformer.h.{layer}.attn.c_attn.lora_B.weight"] = (3 * HIDDEN, RANK)
    facts = inspect(str(write_adapter(tmp_path / "a", str(base), saved))).adapter_facts
    assert facts is not None
    assert facts.targets == ("c_attn",)


def test_reading_needs_no_slow_package() -> None:
    modules = "base_diff", "callfile", "digest", "directory", "rows"
    names = ", ".join(f"ftprof.profiler.{name}" for name in modules)
    code = f"import sys, {names}; print({{'torch', 'transformers', 'peft', 'numpy', 'huggingface_hub'}} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_nothing_is_written(tmp_path: Path) -> None:
    base = write_model(tmp_path / "base")
    adapter = write_adapter(tmp_path / "a", str(base))
    before = digest_directory(tmp_path)
    inspect(str(adapter))
    assert digest_directory(tmp_path) == before
