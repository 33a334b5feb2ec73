"""The benchmark of the trace reader: its synthetic file is a sound trace, and what was not measured is no success."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.bench_trace import __main__ as bench
from benchmarks.bench_trace import synthetic
from benchmarks.bench_trace.tools import Run, measure
from ftprof.profiler.traces.analyse import analyse


def test_the_synthetic_trace_is_a_healthy_one_of_the_size_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    size = synthetic.write(path, 2.5)
    assert 2.5e6 <= size < 6e6
    found = analyse(path).files[0]
    assert found.health.confidence in ("high", "medium")
    assert (found.source.truncated, found.source.damaged_events) == (False, 0)
    assert found.devices[0].kernels == synthetic.LAUNCHES_A_STEP * len(found.steps)
    assert not [check for check in found.health.checks if check.name == "orphan device work" and check.value]


def test_a_process_is_timed_with_its_own_peak_and_a_failing_one_says_why() -> None:
    small, large = (measure([sys.executable, "-S", "-c", f"x = b'x' * {size}"]) for size in (1, 80_000_000))
    assert 6e7 < large.peak_bytes - small.peak_bytes < 1e8
    failing = measure([sys.executable, "-S", "-c", "raise SystemExit('broken here')"])
    assert failing.error == "broken here"


def test_tools_take_turns_and_the_first_round_is_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def fake(command: list[str]) -> Run:
        order.append(command[0])
        return Run(float(len(order)), 1)

    monkeypatch.setattr(bench, "measure", fake)
    found = bench.interleaved({"a": ["a"], "b": ["b"]}, rounds=2)
    assert "".join(order) == "abbaab"
    assert [run.wall_s for run in found["a"]] == [4.0, 5.0]


def test_without_hta_and_files_nothing_is_called_met(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    absent = str(tmp_path / "none")
    monkeypatch.setattr(sys, "argv", ["bench-trace", "--traces", absent, "--sizes", "none", "--out", str(tmp_path)])
    monkeypatch.setattr(bench, "has_hta", lambda python: False)
    assert bench.main() == 1


def test_growth_and_straightness_are_judged_by_the_largest_against_the_smallest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fake(command: list[str]) -> Run:
        size = Path(command[-1]).stat().st_size
        return Run(size / 1e7, 50_000_000 + size // 10)

    monkeypatch.setattr(bench, "measure", fake)
    assert bench._grown([0.5, 4.0], tmp_path, 1) == [True, True]
    said = capsys.readouterr().out
    assert "megabytes of memory added by a megabyte of trace: 0.1 " in said
    assert not list(tmp_path.iterdir())
