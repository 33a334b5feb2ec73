"""Earlier predictions correct the next one, on the same machine only, and only where there are enough."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ftprof.advisors.rule import PredictedRatio
from ftprof.advisors.track import LEAST, Outcome, corrected, history_file, remember, track_records


def outcome(raw: float, measured: float, machine: str = "here") -> Outcome:
    return Outcome(rule="r", machine=machine, raw=raw, low=0.9 * raw, high=1.1 * raw, measured=measured)


def remembered(path: Path, *outcomes: Outcome) -> Path:
    for one in outcomes:
        remember(one, path)
    return path


RATIOS = {"single": {"e2e": PredictedRatio(speedup=2.0, low=1.9, high=2.1)}}


def test_a_known_bias_is_taken_off_and_the_interval_widened(tmp_path: Path) -> None:
    errors = (1.1, 1.2, 1.2, 1.3, 1.6)
    path = remembered(tmp_path / "deep" / "p.jsonl", *(outcome(2.0 * error, 2.0) for error in errors))
    record = track_records("here", path)["r"]
    assert record.n == LEAST
    assert record.bias == pytest.approx(math.log(1.2))
    assert record.inside == pytest.approx(1 / 5)
    ratio = corrected(RATIOS, record)["single"]["e2e"]
    assert ratio.speedup == pytest.approx(2.0 / 1.2)
    assert record.spread == pytest.approx(math.log(1.6 / 1.2))
    assert ratio.low == pytest.approx(ratio.speedup * 1.2 / 1.6)
    assert ratio.high == pytest.approx(ratio.speedup * 1.6 / 1.2)


def test_few_correct_nothing_and_other_machines_are_not_asked(tmp_path: Path) -> None:
    path = remembered(tmp_path / "p", *[outcome(3.0, 2.0)] * (LEAST - 1), *[outcome(3.0, 2.0, "elsewhere")] * 9)
    found = track_records("here", path)
    assert found["r"].n == LEAST - 1
    assert corrected(RATIOS, found["r"]) == RATIOS
    assert corrected(RATIOS, None) == RATIOS


def test_torn_lines_cost_themselves_only(tmp_path: Path) -> None:
    path = remembered(tmp_path / "p", *[outcome(2.0, 2.0)] * 2)
    with path.open("ab") as file:
        file.write(b'{"rule": "r", "mach\xff\n[]\n')
    remember(outcome(2.0, 2.0), path)
    assert track_records("here", path)["r"].n == 3


def test_no_history_is_no_record_and_an_unwritable_one_no_fault(tmp_path: Path) -> None:
    assert track_records("here", tmp_path / "none") == {}
    (tmp_path / "file").write_text("")
    remember(outcome(2.0, 2.0), tmp_path / "file" / "p.jsonl")


def test_it_lies_in_the_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert history_file() == tmp_path / "ftprof/predictions.jsonl"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert history_file().is_absolute()
