"""Sequence-to-sequence models: two sequences, prompts padded on the right, answers scored behind a start token."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ftprof.profiler.directory import inspect
from ftprof.profiler.load import load_engine
from ftprof.profiler.narrow import narrow_engine
from ftprof.profiler.outputs import score, write_reference
from ftprof.profiler.prompt_learning import hand_on_cache
from ftprof.profiler.seq2seq_engine import Seq2SeqEngine
from ftprof.profiler.workload import Call, Row, Workload
from tests import tiny_directory

TEXTS = ["the order arrived late", "please help with my account password", "a"]
ROWS = [Row(prompt=text, completion="the parcel was late") for text in TEXTS]


@pytest.fixture(scope="module", params=["t5", "bart"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_directory.seq2seq(tmp_path_factory.mktemp("seq2seq") / request.param, request.param)


@pytest.fixture(scope="module")
def adapter(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_directory.adapter(tmp_path_factory.mktemp("seq2seq") / "adapter", model, task_type="SEQ_2_SEQ_LM")


def engine(path: Path, adapter: Path | None = None, call: Call | None = None) -> Seq2SeqEngine:
    workload = Workload(
        model=str(path), adapter=str(adapter) if adapter else None, task="seq2seq-lm", rows="", rows_digest=""
    )
    made = load_engine(workload, call or Call())[0]
    assert isinstance(made, Seq2SeqEngine)
    return made


def test_directories_are_recognised(model: Path, adapter: Path) -> None:
    assert inspect(str(model)).task == "seq2seq-lm"
    found = inspect(str(adapter), base=str(model))
    assert (found.task, found.model) == ("seq2seq-lm", str(model))


def test_beams_are_said_to_be_left_out(model: Path, adapter: Path, tmp_path: Path) -> None:
    beaming = tmp_path / "beaming"
    shutil.copytree(model, beaming)
    settings = beaming / "generation_config.json"
    beams = {"num_beams": 4, "early_stopping": True, "length_penalty": 2.0}
    settings.write_text(json.dumps(json.loads(settings.read_text()) | beams))
    for found in (inspect(str(beaming)), inspect(str(adapter), base=str(beaming))):
        assert any("asks for 4 beams" in note for note in found.notes)
    assert not any("beams" in note for note in inspect(str(model)).notes)
    searched, plain = engine(beaming), engine(model)
    ids = plain.tokenise(TEXTS)
    assert searched.generate(searched.pad(ids), 5).tokens == plain.generate(plain.pad(ids), 5).tokens
    settings.write_text("{")
    assert not any("beams" in note for note in inspect(str(beaming)).notes)


def test_exact_generation_has_a_stamp_for_every_token(model: Path) -> None:
    made = engine(model)
    out = made.generate(made.pad(made.tokenise(TEXTS)), 5)
    assert [len(row) for row in out.tokens] == [5, 5, 5]
    assert len(out.stamps_ns) == 6


def test_a_row_of_a_batch_is_answered_as_alone(model: Path) -> None:
    made = engine(model, call=Call(padding="max_length", pad_to=24))
    ids = made.tokenise(TEXTS)
    alone = [engine(model).generate(made._right([row]), 6).tokens[0] for row in ids]
    assert list(made.generate(made.pad(ids), 6).tokens) == alone


def test_scored_logits_are_those_that_greedy_search_follows(model: Path, adapter: Path) -> None:
    made = engine(model, adapter)
    ids = made.tokenise(TEXTS)
    written = made.generate(made.pad(ids), 5).tokens
    found = made.answer_logits(ids, [(made.start_id, *row) for row in written])
    # The end is forbidden until five tokens are made, so it is here too.
    found[..., list(made.eos_ids)] = -np.inf
    assert [tuple(row) for row in found.argmax(-1)[:, :5].tolist()] == list(written)
    np.testing.assert_allclose(made.logits(ids), made.answer_logits(ids, [[made.start_id]] * 3)[:, 0])


def test_facts_count_both_halves(model: Path, adapter: Path) -> None:
    facts = engine(model).facts()
    assert facts.layers == 3 + 2
    assert (facts.heads, facts.head_dim) == (4, 16)
    assert facts.use_cache is True
    assert engine(model, adapter).adapter() is not None


@pytest.mark.parametrize("given", [True, False], ids=["given answers", "own answers"])
def test_a_model_is_its_own_reference(model: Path, tmp_path: Path, given: bool) -> None:
    made = engine(model)
    rows = ROWS if given else [Row(prompt=text) for text in TEXTS]
    reference = write_reference(made, rows, tmp_path, new_tokens=6, limit=64, eos=made.eos_ids, budget_s=5.0)
    assert [document.ids[0] for document in reference.documents] == [made.start_id] * 3
    prompts = {document.prompt for document in reference.documents}
    assert prompts == {tuple(row) for row in made.tokenise(TEXTS)}
    if given:
        assert all(document.ids[-1] in made.eos_ids for document in reference.documents)
    found = score(made, reference, tmp_path)
    assert all(float(np.abs(scores.kl).max()) < 1e-6 for scores in found.documents)
    assert len(found.base_right) == (3 if given else 0)


def test_another_model_is_told_apart(model: Path, adapter: Path, tmp_path: Path) -> None:
    plain, tuned = engine(model), engine(model, adapter)
    reference = write_reference(plain, ROWS, tmp_path, new_tokens=6, limit=64, eos=plain.eos_ids, budget_s=5.0)
    assert max(float(scores.kl.max()) for scores in score(tuned, reference, tmp_path).documents) > 1e-4


def test_a_merged_model_answers_alike(model: Path, adapter: Path, tmp_path: Path) -> None:
    tuned = engine(model, adapter)
    ids = tuned.tokenise(TEXTS)
    before = tuned.logits(ids)
    merged = tuned.with_model(tuned.model.merge_and_unload(safe_merge=True))
    merged.save(tmp_path / "out")
    np.testing.assert_allclose(engine(tmp_path / "out").logits(ids), before, atol=1e-3)


def test_a_narrow_twin_runs_all_layers(model: Path, adapter: Path) -> None:
    made = engine(model, adapter)
    twin = narrow_engine(made)
    assert twin.facts().layers == made.facts().layers
    assert twin.facts().parameters < made.facts().parameters
    assert len(twin.generate(twin.pad([[3, 4, 5, 6]]), 4).stamps_ns) == 5


@pytest.mark.parametrize("kind", ["PromptTuning", "PrefixTuning"])
def test_virtual_tokens(model: Path, kind: str) -> None:
    import peft

    settings: dict[str, Any] = {"task_type": "SEQ_2_SEQ_LM", "num_virtual_tokens": 4}
    made = engine(model)
    torch.manual_seed(5)
    tuned = made.with_model(peft.get_peft_model(made.model, getattr(peft, f"{kind}Config")(**settings)).eval())
    assert isinstance(tuned, Seq2SeqEngine)
    hand_on_cache(tuned.model)
    ids = tuned.tokenise(TEXTS[:1])
    written = tuned.generate(tuned.pad(ids), 5).tokens
    found = tuned.answer_logits(ids, [(tuned.start_id, *row) for row in written])
    found[..., list(tuned.eos_ids)] = -np.inf
    assert [tuple(row) for row in found.argmax(-1)[:, :5].tolist()] == list(written)
