"""Each check on a trace that has the fault and nothing else, and a clean trace that has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ftprof.profiler.traces.analyse import analyse
from ftprof.profiler.traces.model import Check, Health
from tests.profiler.traces.chrome import Json, kernel, launch, note, op, write


def clean(count: int = 20) -> list[Json]:
    """Two steps with launches and kernels in nanosecond times."""
    events = [note("ProfilerStep#1", 0, 1000), note("ProfilerStep#2", 1000, 1000)]
    for number in range(1, count + 1):
        at = number * 90
        events += [launch(at, 5, number), kernel(at + 8.125, 70, number)]
    return events


def health(tmp_path: Path, events: list[Json]) -> Health:
    """Its health."""
    return analyse(write(tmp_path / "t.json", events)).files[0].health


def check(tmp_path: Path, events: list[Json], name: str) -> Check:
    """One check of it."""
    found = health(tmp_path, events).check(name)
    assert found is not None
    return found


def test_a_clean_trace_is_trusted(tmp_path: Path) -> None:
    found = health(tmp_path, clean())
    assert found.confidence == "high"
    assert {row.verdict for row in found.checks} == {"ok"}
    assert (found.has_device, found.has_host, found.has_launches) == (True, True, True)


@pytest.mark.parametrize(
    ("events", "name", "verdict", "words"),
    [
        ([kernel(1900, 5, 77)], "orphan device work", "note", "1 of 21 pieces"),
        ([kernel(1800 + n, 0.5, 50 + n) for n in range(25)], "orphan device work", "poor", "25 of 45"),
        ([launch(1900, 5, 88)], "launches without work", "note", "1 of 21 kernel launches"),
        ([launch(1900 + n, 0.5, 80 + n) for n in range(15)], "launches without work", "poor", "15 of 35"),
        ([kernel(1900, 0, 20, stream=9)], "zero-length events", "note", "1 of 21"),
        ([launch(1905, 2, 70), kernel(1900, 5, 70, stream=9)], "clock", "note", "1 piece of work before launch"),
        ([kernel(1810, 60, 20)], "clock", "note", "1 overlapping another on the stream"),
        ([kernel(1700, -5, 20)], "clock", "note", "1 with a negative length"),
        (
            [launch(1900, 5, 70, "cudaGraphLaunch"), kernel(1910, 5, 70)],
            "graph replay",
            "note",
            "1 graph launch with 1 piece",
        ),
        ([op("aten::mm", n, 0.5) for n in range(200)], "profiler overhead", "note", "recording 200 ops"),
    ],
)
def test_each_fault_is_found(tmp_path: Path, events: list[Json], name: str, verdict: str, words: str) -> None:
    found = check(tmp_path, clean() + events, name)
    assert found.verdict == verdict and words in found.sentence


def test_work_whose_times_are_impossible_is_not_called_no_work(tmp_path: Path) -> None:
    found = check(tmp_path, [op("aten::mm", 10, 5), launch(11, 2, 1), kernel(20, -3, 1)], "device side")
    assert found.verdict == "poor"
    assert (
        found.sentence == "no usable GPU work: 1 piece with an impossible time left out: only the host side is reported"
    )


def test_capture_explains_launches_without_work(tmp_path: Path) -> None:
    captured = [launch(1900 + n, 0.5, 80 + n) for n in range(15)]
    found = check(
        tmp_path, [*clean(), launch(1890, 1, 79, "cudaStreamBeginCapture"), *captured], "launches without work"
    )
    assert found.verdict == "note" and "graph capture" in found.sentence


def test_coarse_clock_is_said(tmp_path: Path) -> None:
    events = [launch(10 * n, 1, n) for n in range(1, 9)] + [kernel(10 * n + 2, 4, n) for n in range(1, 9)]
    found = check(tmp_path, events, "clock resolution")
    assert found.verdict == "note" and "steps of 1000 ns" in found.sentence


def test_damage_and_truncation_lower_the_confidence(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", clean(200))
    text = path.read_text()
    path.write_text(text.replace('"ts": 900,', '"ts": {},'))
    damaged = analyse(path).files[0].health
    assert damaged.confidence == "medium"
    path.write_text(text[: len(text) // 2])
    torn = analyse(path).files[0]
    assert torn.source.truncated and torn.health.confidence != "high"
    found = torn.health.check("complete")
    assert found is not None and "breaks off" in found.sentence


def test_host_only_and_device_only_are_said(tmp_path: Path) -> None:
    host = health(tmp_path, [op("aten::mm", 0, 10)])
    device = health(tmp_path, [kernel(0, 10, 1)])
    assert (host.has_device, host.has_host, host.confidence) == (False, True, "low")
    assert (device.has_device, device.has_host, device.confidence) == (True, False, "low")
