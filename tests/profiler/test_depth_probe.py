"""Shallow copies: they load, they are the model's first layers, and each place is timed in turns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from ftprof.profiler.built import Source
from ftprof.profiler.depth_probe import run_depth_probes
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.load import load_engine
from ftprof.profiler.record import ProbeCase
from ftprof.profiler.shallow import shallow_copy
from ftprof.profiler.workload import Call, Task, Workload


def source(directory: Path, task: Task = "causal-lm") -> Source:
    engine = load_engine(Workload(model=str(directory), task=task, rows="", rows_digest=""), Call())[0]
    return Source(directory=str(directory), facts=engine.facts(), task=task, eos_ids=engine.eos_ids)


def case(layers: int, decode: int, variant: str = "torch:float32", rows: int = 1) -> ProbeCase:
    return ProbeCase(rule="depth", kind="depth", shape=(layers, rows, 5, decode), variant=variant)


def test_a_shallow_copy_has_the_first_layers_and_all_the_rest(tiny_base: Path, tmp_path: Path) -> None:
    shallow_copy(tiny_base, tmp_path / "one", 1)
    whole = AutoModelForCausalLM.from_pretrained(tiny_base)
    copy = AutoModelForCausalLM.from_pretrained(tmp_path / "one")
    assert len(whole.model.layers) == 2
    assert len(copy.model.layers) == 1
    kept = whole.state_dict()
    assert all(torch.equal(tensor, kept[name]) for name, tensor in copy.state_dict().items())
    assert (tmp_path / "one" / "tokenizer.json").exists()


def test_lists_with_an_entry_a_layer_are_cut_too(tiny_base: Path, tmp_path: Path) -> None:
    config = json.loads((tiny_base / "config.json").read_text())
    altered = tmp_path / "altered"
    altered.mkdir()
    for path in tiny_base.iterdir():
        (altered / path.name).write_bytes(path.read_bytes())
    (altered / "config.json").write_text(json.dumps({**config, "kinds": ["full", "sliding"], "others": [1, 2, 3]}))
    shallow_copy(altered, tmp_path / "one", 1)
    cut = json.loads((tmp_path / "one" / "config.json").read_text())
    assert cut["kinds"] == ["full"]
    assert cut["others"] == [1, 2, 3]


def test_a_config_without_a_depth_is_refused(tiny_base: Path, tmp_path: Path) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "config.json").write_text("{}")
    with pytest.raises(FtprofError, match="how many layers"):
        shallow_copy(tmp_path / "odd", tmp_path / "one", 1)


def test_every_place_gets_its_samples_in_turns_until_the_time_is_over(tiny_base: Path, tmp_path: Path) -> None:
    cases = [case(layers, decode, rows=rows) for layers in (1, 2) for decode in (0, 1) for rows in (1, 3)]
    results = run_depth_probes(cases, source(tiny_base), tmp_path, budget_s=30.0)
    assert {result.case for result in results} == set(cases)
    # Two depths of one place are paired round by round.
    counts = {rows: {len(result.samples_s) for result in results if result.case.shape[1] == rows} for rows in (1, 3)}
    assert all(len(found) == 1 for found in counts.values())
    assert counts[1] > counts[3] or max(counts[1]) > max(counts[3])
    assert all(seconds > 0 for result in results for seconds in result.samples_s)
    hurried = run_depth_probes(cases, source(tiny_base), tmp_path, budget_s=0.0)
    assert [len(result.samples_s) for result in hurried] == [1] * len(cases)


def test_encoders_are_timed_by_whole_passes(tiny_classifier: Path, tmp_path: Path) -> None:
    results = run_depth_probes(
        [case(1, 0), case(2, 0)], source(tiny_classifier, "sequence-classification"), tmp_path, budget_s=1.0
    )
    assert all(result.samples_s and result.error is None for result in results)


def test_a_runtime_that_cannot_take_the_model_says_why_and_costs_only_itself(tiny_base: Path, tmp_path: Path) -> None:
    results = run_depth_probes(
        [case(1, 1), case(1, 1, "torch:no-such-type")], source(tiny_base), tmp_path, budget_s=1.0
    )
    good, bad = results
    assert good.samples_s
    assert bad.error
    assert bad.samples_s == ()
