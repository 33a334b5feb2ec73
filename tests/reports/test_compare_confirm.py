"""An alarm needs two measurements: what the second one does to a comparison, and how it is made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ftprof.advisors import confirm as confirming
from ftprof.advisors.audit import Audit
from ftprof.advisors.confirm import confirm, data_of
from ftprof.advisors.progress import Silent
from ftprof.profiler.comparison import Comparison
from ftprof.profiler.digest import digest_directory
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.rows import load_rows, write_rows
from ftprof.reports.compare import compare
from ftprof.reports.compare_confirm import confirmed, doubtful
from ftprof.reports.compare_document import TimeChange
from tests.reports.parts import ratio
from tests.reports.test_compare import quiet, row


def again(speedup: float, verdict: Any, width: float = 0.01) -> Comparison:
    """A second measurement of the end-to-end time."""
    found = {"single": {"e2e": ratio(speedup, verdict, width)}}
    return Comparison(ratios=found, design="interleaved ABBA quads", processes=3)


@pytest.mark.parametrize(
    ("seconds", "second", "verdict", "code"),
    [
        (1.8, again(1 / 1.2, "slower"), "slower", 1),
        (1.8, again(1.0, "equivalent"), "same", 0),
        (1.8, again(1.3, "faster"), "faster", 0),
        (1.8, again(0.95, "inconclusive", 0.2), "inconclusive", 3),
        (1.8, again(1 / 1.03, "slower", 0.005), "same", 0),
        (1.57, again(1 / 1.2, "slower"), "slower", 1),
        (1.57, again(1.0, "equivalent"), "same", 0),
    ],
)
def test_the_second_measurement_decides_what_was_in_doubt(
    seconds: float, second: Comparison, verdict: str, code: int
) -> None:
    first = compare(quiet(1.5), quiet(seconds))
    assert doubtful(first) == ("single",)
    found = confirmed(first, second, 0.05)
    assert (row(found).verdict, found.exit_code) == (verdict, code)
    assert any("alarm was cleared" in warning for warning in found.warnings) == (first.exit_code == 1 and code != 1)
    change: TimeChange = row(found)
    assert change.low is not None and change.high is not None and change.change is not None
    assert change.low < change.change < change.high


@pytest.mark.parametrize("seconds", [1.5, 1.2])
def test_without_doubt_nothing_is_measured_again(seconds: float) -> None:
    assert doubtful(compare(quiet(1.5), quiet(seconds))) == ()


def test_a_count_stays_a_regression() -> None:
    base, head = quiet(1.5), quiet(1.8)
    merged = replace(base, model=replace(base.model, adapter=None))
    found = confirmed(compare(merged, head), again(1.0, "equivalent"), 0.05)
    assert found.exit_code == 1
    assert found.headline.startswith("Regression: adapter modules")


@pytest.mark.parametrize(
    ("command", "data"),
    [
        ("ftprof diagnose m --data 'my rows.jsonl' --out x", "my rows.jsonl"),
        ("ftprof diagnose m --data=~/rows.jsonl", "~/rows.jsonl"),
        ("ftprof diagnose m", None),
        ("ftprof diagnose m --data", None),
        ("ftprof diagnose 'm", None),
    ],
)
def test_the_recorded_rows(command: str, data: str | None) -> None:
    assert data_of(command) == data


class Stand:
    """Stands in for a worker: a sample takes as long as its workload's `seed` says, in milliseconds."""

    started = 0
    dies_at = 99
    loaded = None

    def __init__(self, context: Any, name: str, workload: Any) -> None:
        self.workload, self.context = workload, context
        Stand.started += 1
        self.number = Stand.started

    def handle(self) -> Stand:
        if self.number > Stand.dies_at:
            raise FtprofError("the worker was killed", "more memory")
        return self

    def call(self, method: str, scenario: str, unit: int, **_: Any) -> dict[str, float]:
        return {"e2e": self.workload.seed / 1000 * (1 + unit / 1000)}

    def close(self) -> None: ...

    def rest(self) -> None: ...


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Audit, Audit]]:
    """Two audits of models that are here, the second 20 % slower; workers are stand-ins."""
    monkeypatch.setattr(confirming, "Variant", Stand)
    monkeypatch.setattr(confirming, "prepare", lambda device, offline: None)
    monkeypatch.setattr("ftprof.advisors.variant.settle", lambda: None)
    monkeypatch.setattr(Stand, "started", 0)
    digest = write_rows(load_rows(None, task="causal-lm").rows, tmp_path / "rows")
    found = []
    for name, milliseconds in (("base", 100), ("head", 120)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text(name)
        audit = quiet()
        workload = replace(
            audit.workload, model=str(folder), adapter=None, tokenizer=None, rows_digest=digest, seed=milliseconds
        )
        model = replace(audit.model, path=str(folder), sha256=digest_directory(folder))
        found.append(replace(audit, workload=workload, model=model, command="ftprof diagnose m"))
    yield found[0], found[1]


def test_both_run_in_turns_in_fresh_processes(pair: tuple[Audit, Audit]) -> None:
    found = confirm(*pair, ["single"], 60.0, Silent())
    ratio = found.get("single", "e2e")
    assert ratio is not None
    assert (found.processes, ratio.verdict) == (3, "slower")
    assert ratio.speedup == pytest.approx(100 / 120)


def test_a_worker_that_dies_costs_only_what_came_after(
    pair: tuple[Audit, Audit], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stand, "dies_at", 3)
    early = confirm(*pair, ["single"], 60.0, Silent())
    assert early.processes == 1
    assert early.get("single", "e2e") is not None
    with pytest.raises(FtprofError, match="killed"):
        confirm(*pair, ["single"], 60.0, Silent())


def test_models_that_are_not_what_was_audited_are_refused(pair: tuple[Audit, Audit], tmp_path: Path) -> None:
    base, head = pair
    (tmp_path / "head" / "config.json").write_text("changed")
    with pytest.raises(FtprofError, match="files have changed") as caught:
        confirm(base, head, ["single"], 60.0, Silent())
    assert caught.value.exit_code == 4
    (tmp_path / "head" / "config.json").unlink()
    (tmp_path / "head").rmdir()
    with pytest.raises(FtprofError, match="the model of the head is not here"):
        confirm(base, head, ["single"], 60.0, Silent())
    other = replace(base, workload=replace(base.workload, rows_digest="00" * 32))
    with pytest.raises(FtprofError, match="other data"):
        confirm(base, other, ["single"], 60.0, Silent())
    with pytest.raises(FtprofError, match="not the rows that were audited"):
        confirm(other, replace(head, workload=other.workload), ["single"], 60.0, Silent())
