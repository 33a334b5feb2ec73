"""The PyTorch engine on tiny models: padding changes nothing, counts are exact, facts are of the real model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ftprof.profiler.load import load_engine
from ftprof.profiler.torch_engine import TorchEngine
from ftprof.profiler.workload import Call, Task, Workload

TEXTS = ["the order arrived late", "please help with my account password", "a"]


def engine(model: Path, task: Task = "causal-lm", adapter: Path | None = None, call: Call | None = None) -> TorchEngine:
    workload = Workload(model=str(model), adapter=str(adapter) if adapter else None, task=task, rows="", rows_digest="")
    return load_engine(workload, call or Call())[0]


def test_exact_generation_has_a_stamp_for_every_token(tiny_base: Path) -> None:
    made = engine(tiny_base)
    batch = made.pad(made.tokenise(TEXTS))
    out = made.generate(batch, 5)
    assert [len(row) for row in out.tokens] == [5, 5, 5]
    assert len(out.stamps_ns) == 6
    assert out.steps == 4
    assert list(out.stamps_ns) == sorted(out.stamps_ns)


def test_padding_on_the_left_does_not_change_what_is_written(tiny_base: Path) -> None:
    made = engine(tiny_base, call=Call(padding="max_length", pad_to=40))
    ids = made.tokenise(TEXTS)
    alone = [engine(tiny_base).generate(engine(tiny_base).pad([row]), 6).tokens[0] for row in ids]
    assert list(made.generate(made.pad(ids), 6).tokens) == alone


def test_logits_of_padded_rows_are_those_of_the_row_alone(tiny_base: Path) -> None:
    made = engine(tiny_base)
    ids = made.tokenise(TEXTS)
    together = made.logits(ids)
    for row, tokens in enumerate(ids):
        np.testing.assert_allclose(together[row, : len(tokens)], made.logits([tokens])[0], atol=1e-4)


def test_without_cache_the_tokens_are_the_same(tiny_base: Path) -> None:
    made = engine(tiny_base)
    batch = made.pad(made.tokenise(TEXTS[:1]))
    slow = made.with_call(Call(use_cache=False))
    assert slow.generate(batch, 6).tokens == made.generate(batch, 6).tokens
    assert slow.facts().use_cache is False
    assert slow.facts().use_cache_source == "call"


def test_facts_are_of_the_base_and_not_of_the_adapter(tiny_base: Path, tiny_adapter: Path) -> None:
    plain, tuned = engine(tiny_base).facts(), engine(tiny_base, adapter=tiny_adapter)
    assert tuned.facts().parameters == plain.parameters
    assert tuned.facts().linears == plain.linears
    found = tuned.adapter()
    assert found is not None
    assert (found.kind, found.rank, found.modules) == ("LORA", 4, 14)
    assert found.blockers == ()
    assert engine(tiny_base).adapter() is None


def test_an_adapter_freezes_the_head_and_the_engine_thaws_it(tiny_base: Path, tiny_adapter: Path) -> None:
    tuned = engine(tiny_base, adapter=tiny_adapter, call=Call(dtype="bfloat16"))
    ids = tuned.tokenise(TEXTS)
    before = tuned.logits(ids)
    assert (engine(tiny_base).facts().frozen_head, tuned.facts().frozen_head) == (False, True)
    tuned.thaw_head()
    assert tuned.facts().frozen_head is False
    np.testing.assert_allclose(tuned.logits(ids), before, atol=0.1)


def test_adapter_autocast_decides_the_adapters_dtype(tiny_base: Path, tiny_adapter: Path) -> None:
    kept = engine(tiny_base, adapter=tiny_adapter, call=Call(dtype="bfloat16")).adapter()
    cast = engine(tiny_base, adapter=tiny_adapter, call=Call(dtype="bfloat16", adapter_autocast=False)).adapter()
    assert kept is not None
    assert cast is not None
    assert (kept.loaded_dtype, cast.loaded_dtype) == ("float32", "bfloat16")


def test_a_merged_model_saves_to_a_plain_directory(tiny_base: Path, tiny_adapter: Path, tmp_path: Path) -> None:
    tuned = engine(tiny_base, adapter=tiny_adapter)
    ids = tuned.tokenise(TEXTS)
    before = tuned.logits(ids)
    merged = tuned.with_model(tuned.model.merge_and_unload(safe_merge=True))
    merged.save(tmp_path / "out")
    again = engine(tmp_path / "out")
    assert again.adapter() is None
    np.testing.assert_allclose(again.logits(ids), before, atol=1e-3)


def test_embeddings_are_unit_vectors_and_ignore_padding(tiny_embedder: Path) -> None:
    made = engine(tiny_embedder, "embedding")
    ids = made.tokenise(TEXTS)
    together = made.embed(ids)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(together[2], made.embed([ids[2]])[0], atol=1e-5)


def test_encoders_truncate_and_classifiers_give_one_row_of_logits_each(tiny_classifier: Path) -> None:
    made = engine(tiny_classifier, "sequence-classification")
    ids = made.tokenise(["the " * 500, "a"])
    assert [len(row) for row in ids] == [128, 1]
    assert made.logits(ids).shape == (2, 3)


@pytest.mark.parametrize("task", ["sequence-classification", "embedding"])
def test_forward_runs(tiny_classifier: Path, tiny_embedder: Path, task: Task) -> None:
    made = engine(tiny_classifier if task == "sequence-classification" else tiny_embedder, task)
    batch = made.pad(made.tokenise(TEXTS))
    made.forward(batch)
    assert batch.tokens == (4, 6, 1)
    assert batch.length == 6
