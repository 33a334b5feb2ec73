"""Directories as PEFT and transformers really write them, from tiny random models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ftprof.profiler.adapter_merge import merge
from ftprof.profiler.adapter_switch import set_adapter
from ftprof.profiler.base_diff import differences
from ftprof.profiler.directory import inspect
from ftprof.profiler.located import Located
from tests.profiler.adapter_models import TEXTS, loaded
from tests.profiler.model_files import write_tokenizer

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 32,
}


def saved(directory: Path, model: Any) -> Path:
    model.save_pretrained(directory)
    write_tokenizer(directory)
    return directory


def adapted(directory: Path, model: Any, kind: str = "Lora", **settings: Any) -> Located:
    import peft

    rank = {"r": 4} if kind == "Lora" else {}
    config = getattr(peft, f"{kind}Config")(**rank, **settings)
    peft.get_peft_model(model, config).save_pretrained(str(directory))
    return inspect(str(directory), offline=True)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import LlamaConfig, LlamaForCausalLM

    return saved(tmp_path_factory.mktemp("llama"), LlamaForCausalLM(LlamaConfig(**SIZES)))


def resized(llama: Path) -> Any:
    from transformers import LlamaForCausalLM

    model: Any = LlamaForCausalLM.from_pretrained(llama)
    model.resize_token_embeddings(67, mean_resizing=False)
    return model


@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_head"]},
        {"target_modules": ["q_proj", "embed_tokens"]},
        {"target_modules": ["q_proj"], "trainable_token_indices": [64, 65, 66]},
    ],
)
def test_added_tokens(llama: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    found = adapted(tmp_path / "a", resized(llama), task_type="CAUSAL_LM", **settings)
    assert (found.task, found.vocab_rows, found.max_context) == ("causal-lm", 67, 32)


def test_all_linear_layers(llama: Path, tmp_path: Path) -> None:
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(llama)
    found = adapted(tmp_path / "a", model, task_type="CAUSAL_LM", target_modules="all-linear")
    assert found.vocab_rows is None and found.model == str(llama)
    facts = found.adapter_facts
    assert facts is not None
    assert facts.targets == ("down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj")
    assert facts.modules == 14
    assert {entry.what for entry in differences(found)} == {
        "weights on disk",
        "parameters",
        "adapter",
        "adapted modules",
    }


@pytest.mark.parametrize("family", ["Bert", "Roberta"])
def test_classifier_head_tells_the_labels(tmp_path: Path, family: str) -> None:
    import transformers

    config = getattr(transformers, f"{family}Config")(**SIZES)
    base = saved(tmp_path / "base", getattr(transformers, f"{family}Model")(config))
    model = getattr(transformers, f"{family}ForSequenceClassification").from_pretrained(base, num_labels=5)
    found = adapted(tmp_path / "a", model, task_type="SEQ_CLS", target_modules=["query"])
    assert (found.task, found.label_count) == ("sequence-classification", 5)
    assert found.adapter_facts is not None and found.adapter_facts.modules_to_save == ("classifier",)


def test_merged_classifier(tmp_path: Path) -> None:
    from transformers import BertConfig, BertForSequenceClassification

    names = {0: "low", 1: "middle", 2: "high"}
    model = BertForSequenceClassification(
        BertConfig(**SIZES, id2label=names, label2id={v: k for k, v in names.items()})
    )
    assert inspect(str(saved(tmp_path / "m", model))).labels == ("low", "middle", "high")


def test_transposed_layers_of_gpt2_fit(tmp_path: Path) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes: dict[str, Any] = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 64, "n_positions": 32}
    base = saved(tmp_path / "base", GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)))
    found = adapted(
        tmp_path / "a", GPT2LMHeadModel.from_pretrained(base), task_type="CAUSAL_LM", target_modules=["c_attn", "c_fc"]
    )
    assert (found.task, found.max_context) == ("causal-lm", 32)


@pytest.mark.parametrize(
    ("kind", "settings", "merges"),
    [
        ("IA3", {"target_modules": ["key", "value"], "feedforward_modules": []}, True),
        ("Lora", {"target_modules": ["query"], "use_dora": True}, True),
        ("PromptTuning", {"num_virtual_tokens": 3}, False),
    ],
)
def test_classifiers_of_other_kinds(
    tiny_embedder: Path, tmp_path: Path, kind: str, settings: dict[str, Any], merges: bool
) -> None:
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(tiny_embedder, num_labels=3)
    found = adapted(tmp_path / "a", model, kind, task_type="SEQ_CLS", **settings)
    assert (found.task, found.label_count) == ("sequence-classification", 3)
    engine = loaded(found, tmp_path)
    facts = engine.adapter()
    assert facts is not None and (facts.blockers == ()) == merges
    ids = engine.tokenise(TEXTS)
    before = engine.logits(ids)
    set_adapter(engine.model, False)
    assert abs(engine.logits(ids) - before).max() > 1e-3  # the base's own head is another
    set_adapter(engine.model, True)
    assert (engine.logits(ids) == before).all()
    if merges:
        assert abs(engine.with_model(merge(engine.model)).logits(ids) - before).max() < 1e-5
