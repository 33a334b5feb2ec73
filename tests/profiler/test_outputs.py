"""Scores of a model against itself and against a damaged copy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ftprof.profiler.judge import judge_causal
from ftprof.profiler.outputs import Reference, encoder_outputs, greedy, score, write_reference
from ftprof.profiler.rows import load_rows
from ftprof.profiler.torch_engine import TorchEngine
from tests import tiny_directory
from tests.profiler.test_torch_engine import engine


def reference(made: TorchEngine, rows_path: Path | None, folder: Path) -> Reference:
    rows = load_rows(str(rows_path) if rows_path else None, task="causal-lm").rows
    return write_reference(made, rows, folder, new_tokens=6, limit=100, eos=(2,), budget_s=60.0)


def test_a_model_agrees_with_itself(tiny_base: Path, tiny_rows: Path, tmp_path: Path) -> None:
    made = engine(tiny_base)
    found = reference(made, tiny_rows, tmp_path)
    assert len(found.documents) == 40
    assert all(document.given for document in found.documents)
    scored = score(made, found, tmp_path)
    tokens = sum(len(scores.kl) for scores in scored.documents)
    assert tokens == 40 * 7, "six words and the end of the sequence"
    assert max(scores.kl.max() for scores in scored.documents) < 1e-6
    assert scored.base_right == scored.new_right
    assert found.floor_kl is not None
    assert found.floor_kl < 1e-6
    assert judge_causal("exact", scored.documents).verdict == "pass"


def test_damage_shows(tiny_base: Path, tiny_rows: Path, tmp_path: Path) -> None:
    made = engine(tiny_base)
    found = reference(made, tiny_rows, tmp_path)
    with torch.no_grad():
        made.model.model.layers[1].mlp.down_proj.weight.mul_(1.5)
    check = judge_causal("rounding", score(made, found, tmp_path).documents)
    assert check.verdict == "fail"
    assert check.figures["kl"].value > 1e-3


def test_scores_do_not_depend_on_how_documents_are_batched(tiny_base: Path, tiny_rows: Path, tmp_path: Path) -> None:
    made = engine(tiny_base)
    found = reference(made, tiny_rows, tmp_path)
    with torch.no_grad():
        made.model.model.layers[0].mlp.up_proj.weight.mul_(1.1)
    eight, one = score(made, found, tmp_path), score(made, found, tmp_path, rows=1)
    for a, b in zip(eight.documents, one.documents, strict=True):
        np.testing.assert_allclose(a.kl, b.kl, rtol=1e-2, atol=1e-5)


def test_without_completions_the_models_own_text_is_scored(tiny_base: Path, tmp_path: Path) -> None:
    found = reference(engine(tiny_base), None, tmp_path)
    assert not any(document.given for document in found.documents)
    assert sum(len(document.ids) - document.start for document in found.documents) > 200


def test_another_vocabulary_is_not_finite_and_fails_closed(tiny_base: Path, tiny_rows: Path, tmp_path: Path) -> None:
    made = engine(tiny_base)
    found = reference(made, tiny_rows, tmp_path)
    made.model.resize_token_embeddings(made.model.config.vocab_size + 8)
    check = judge_causal("int4", score(made, found, tmp_path).documents)
    assert check.verdict == "fail"


def test_greedy_stops_at_the_end_of_the_sequence(tiny_base: Path, tiny_rows: Path) -> None:
    made = engine(tiny_base)
    rows = load_rows(str(tiny_rows), task="causal-lm").rows
    first = greedy(made, rows, 12)
    ends = [row.index(2) for row in first.batched if 2 in row]
    assert all(len(row) <= 12 for row in first.batched)
    assert all(row.index(2) == len(row) - 1 for row in first.batched if 2 in row), ends
    assert list(first.single) == list(first.batched[: len(first.single)])


@pytest.mark.parametrize("batch_size", [1, 8])
def test_encoder_outputs_keep_the_order_of_rows(tiny_classifier: Path, tiny_rows: Path, batch_size: int) -> None:
    from ftprof.profiler.workload import Call

    rows = load_rows(str(tiny_rows), task="sequence-classification").rows
    arrival = engine(tiny_classifier, "sequence-classification", call=Call(batch_size=batch_size))
    sorted_ = engine(tiny_classifier, "sequence-classification", call=Call(batch_size=5, order="length"))
    first = encoder_outputs(arrival, "sequence-classification", rows, 60.0)
    np.testing.assert_allclose(first, encoder_outputs(sorted_, "sequence-classification", rows, 60.0), atol=1e-4)
    np.testing.assert_allclose(first.sum(-1), 1.0, atol=1e-5)


def test_one_matrix_times_1_1_and_a_swapped_adapter_are_caught(
    tiny_base: Path, tiny_adapter: Path, tiny_rows: Path, tmp_path: Path
) -> None:
    tuned = engine(tiny_base, adapter=tiny_adapter)
    found = reference(tuned, tiny_rows, tmp_path)
    merged = tuned.with_model(tuned.model.merge_and_unload(safe_merge=True))
    honest = judge_causal("rounding", score(merged, found, tmp_path).documents, limits="equivalent")
    assert honest.verdict == "pass"
    with torch.no_grad():
        merged.model.model.layers[1].mlp.down_proj.weight.mul_(1.1)
    assert judge_causal("rounding", score(merged, found, tmp_path).documents, limits="equivalent").verdict == "fail"
    swapped = engine(tiny_base, adapter=tiny_directory.adapter(tmp_path / "other", tiny_base, rank=2))
    assert judge_causal("rounding", score(swapped, found, tmp_path).documents).verdict == "fail"
