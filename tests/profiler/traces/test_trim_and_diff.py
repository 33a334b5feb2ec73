"""The small trace of a few steps, and the comparison of two traces."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from ftprof.profiler.errors import FtprofError
from ftprof.profiler.traces.analyse import analyse
from ftprof.profiler.traces.diff import diff
from ftprof.profiler.traces.model import FileAnalysis
from ftprof.profiler.traces.trim import trim_steady
from tests.profiler.traces.chrome import Json, kernel, launch, note, write
from tests.profiler.traces.public import public

BASE = 1_600_000_000_000_000  # an epoch clock in microseconds


def run(steps: int, dur: int, name: str = "gemm_kernel") -> list[Json]:
    """Steps of 100 us with one kernel each, and the arrow from its launch."""
    events: list[Json] = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}]
    for number in range(steps):
        at = BASE + 100 * number
        events += [note(f"ProfilerStep#{number}", at, 100), launch(at + 5, 5, number + 1)]
        events.append({"ph": "s", "id": number, "cat": "ac2g", "name": "ac2g", "pid": 1, "tid": 1, "ts": at + 5})
        events.append({"ph": "f", "id": number, "cat": "ac2g", "name": "ac2g", "pid": 0, "tid": 7, "ts": at + 12})
        events.append(kernel(at + 12, dur, number + 1, name))
    return events


def analysed(path: Path) -> FileAnalysis:
    """The analysis of one file."""
    return analyse(path).files[0]


@pytest.mark.parametrize("name", ["small.json", "small.json.gz"])
def test_trimmed_steps_analyse_as_they_did(tmp_path: Path, name: str) -> None:
    source = write(tmp_path / "t.json.gz", run(8, 60), deviceProperties=[{"id": 0, "name": "H100"}], with_stack=1)
    whole = analysed(source)
    count = trim_steady(whole, tmp_path / name, steps=3)
    raw = (tmp_path / name).read_bytes()
    document = json.loads(gzip.decompress(raw) if name.endswith("gz") else raw)
    assert count == len(document["traceEvents"]) < len(run(8, 60))
    assert {event["ph"] for event in document["traceEvents"]} == {"M", "X", "s", "f"}
    small = analysed(tmp_path / name)
    assert [step.name for step in small.steps][:3] == [step.name for step in whole.steps][:3]
    assert small.steps[1].partition == whole.steps[1].partition
    assert small.devices[0].name == "H100" and small.source.with_stack is True
    again = tmp_path / f"again-{name}"
    trim_steady(whole, again, steps=3)
    assert again.read_bytes() == raw


def test_a_real_trace_trims_to_its_step(tmp_path: Path) -> None:
    whole = analysed(public("tracelens/h100/gaunernst*"))
    trim_steady(whole, tmp_path / "small.json.gz")
    small = analysed(tmp_path / "small.json.gz")
    assert whole.window.partition is not None and small.window.partition is not None
    assert small.window.partition.busy_s == whole.window.partition.busy_s
    assert small.device is not None and whole.device is not None
    assert small.device.classes == whole.device.classes
    assert small.devices[0].name == whole.devices[0].name == "NVIDIA H100 80GB HBM3"
    assert (small.source.runtime, small.source.with_stack) == (whole.source.runtime, True)


def test_trim_never_overwrites_its_source(tmp_path: Path) -> None:
    source = write(tmp_path / "t.json", run(3, 60))
    before = source.read_bytes()
    with pytest.raises(FtprofError, match="is the trace itself"):
        trim_steady(analysed(source), source)
    assert source.read_bytes() == before


def test_trim_of_another_format_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FtprofError) as caught:
        trim_steady(analysed(public("nsys/rtx3060*")), tmp_path / "small.json")
    assert "nsys export" in caught.value.hint


def test_diff_compares_steps_whatever_their_number(tmp_path: Path) -> None:
    before = analysed(write(tmp_path / "a.json", run(8, 60)))
    after = analysed(write(tmp_path / "b.json", run(4, 20, "volta_sgemm_64x64_tn")))
    found = diff(before, after)
    assert found.compared == "per step" and found.ratio == pytest.approx(1.0)
    assert found.comparable and found.notes == ()
    parts = {part.name: part.delta_s for part in found.parts}
    assert parts["compute"] == pytest.approx(-40e-6) and parts["host_wait"] == pytest.approx(40e-6, rel=0.2)
    assert {row.name: (row.before_s, row.after_s) for row in found.kernels} == {
        "gemm_kernel": (pytest.approx(60e-6), 0.0),
        "volta_sgemm_64x64_tn": (0.0, pytest.approx(20e-6)),
    }
    assert [row.name for row in found.classes] == ["gemm"]
    assert found.classes[0].delta_s == pytest.approx(-40e-6)
    assert (found.launches_before, found.launches_after) == (1.0, 1.0)


def test_diff_says_when_the_sides_are_not_alike(tmp_path: Path) -> None:
    before = analysed(write(tmp_path / "a.json", run(3, 60), deviceProperties=[{"id": 0, "name": "A100"}]))
    events = [event for event in run(3, 60) if event.get("cat") != "user_annotation"]
    after = analysed(write(tmp_path / "b.json", events, deviceProperties=[{"id": 0, "name": "V100"}], with_stack=1))
    found = diff(before, after)
    assert not found.comparable and found.compared == "whole window"
    text = " ".join(found.notes)
    assert "A100 and V100" in text and "no steps on both sides" in text and "stacks" in text


def test_diff_of_the_public_pair() -> None:
    before, after = (analysed(public(f"nsys/mfu_2gpu_{side}.sqlite")) for side in ("before", "after"))
    found = diff(before, after)
    assert found.compared == "whole window" and not found.comparable
    assert len(found.parts) == 9 and found.kernels
    attention = next(row for row in found.classes if row.name == "attention")
    assert attention.delta_s is not None and attention.before_s is not None
