"""The reader: exact times, every spelling of a trace, and text that is not quite JSON."""

from __future__ import annotations

import gzip
import json
import random
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ftprof.profiler.errors import FtprofError
from ftprof.profiler.traces import json_blocks
from ftprof.profiler.traces.columns import Trace
from ftprof.profiler.traces.open_trace import open_trace
from ftprof.profiler.traces.read_kineto import nanoseconds
from tests.profiler.traces.chrome import document, event, kernel, launch, op, write
from tests.profiler.traces.public import FOLDER


def opened(path: Path, text: str | bytes) -> Trace:
    """The trace that these bytes make."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return open_trace(path)


def starts(trace: Trace) -> list[int]:
    """Starts of the device work on the file's own clock."""
    return [int(start) + trace.origin_ns for start in trace.device.start]


@given(st.integers(0, (1 << 43) * 1000 - 1))
def test_fractions_below_the_limit_are_exact(time_ns: int) -> None:
    printed = float(Decimal(time_ns) / 1000)  # what a decoder makes of the printed microseconds
    found = nanoseconds([printed, 0.5])
    assert found is not None and found.tolist() == [time_ns, 500]


@pytest.mark.parametrize(
    "text", ["1712345678901234.567", "1712345678901234.001", "9000000000000.003", "12.3456", "0.1"]
)
def test_times_are_exact_whatever_the_clock(tmp_path: Path, text: str) -> None:
    raw = document([kernel(1, 1, 1), kernel(1, 2, 2)]).replace('"ts": 1,', f'"ts": {text},')
    trace = opened(tmp_path / "t.json", raw)
    assert starts(trace) == [round(Decimal(text) * 1000)] * 2
    assert trace.facts.fractional


def test_an_event_of_another_epoch_is_left_out(tmp_path: Path) -> None:
    trace = opened(tmp_path / "t.json", document([kernel(0, 1, 9), *(kernel(1.7e15 + n, 1, n) for n in range(1, 5))]))
    assert (len(trace.device), trace.facts.clock_outliers) == (4, 1)
    assert starts(trace)[0] == 1_700_000_000_000_001_000


@pytest.mark.parametrize(
    "layout",
    [
        lambda text: json.dumps(json.loads(text)),
        lambda text: json.dumps(json.loads(text), separators=(",", ":")),
        lambda text: json.dumps(json.loads(text), indent=8),
        lambda text: json.dumps(json.loads(text)["traceEvents"]),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
    ],
    ids=["one line", "compact", "deep indent", "bare list", "windows", "byte order mark"],
)
@pytest.mark.parametrize("block", [64, 1 << 20])
def test_every_layout_reads_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: object, block: int
) -> None:
    monkeypatch.setattr(json_blocks, "BLOCK_BYTES", block)
    events = [launch(number, 1, number) for number in range(1, 40)] + [kernel(n + 0.25, 2, n) for n in range(1, 40)]
    trace = opened(tmp_path / "t.json", layout(document(events)))  # type: ignore[operator]
    assert (len(trace.host), len(trace.device), trace.facts.damaged, trace.facts.truncated) == (39, 39, 0, False)
    assert starts(trace) == [number * 1000 + 250 for number in range(1, 40)]


def test_borders_inside_arguments_do_not_cut_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_blocks, "BLOCK_BYTES", 128)
    trap = [{"name": "a"}, {"name": "b"}, {"ph": "X"}]
    events = [
        event("cpu_op", 'say "}, {\\"ph\\": 1"', number, 1, nested=trap, text='}, {"ph": "X"}') for number in range(60)
    ]
    trace = opened(tmp_path / "t.json", document(events))
    assert (len(trace.host), trace.facts.damaged) == (60, 0)


def test_header_and_tail_are_read(tmp_path: Path) -> None:
    device = {"id": 0, "name": "NVIDIA H100", "numSms": 132}
    head = {"deviceProperties": [device], "distributedInfo": {"rank": 3, "world_size": 8}, "with_stack": 1}
    trace = open_trace(write(tmp_path / "head.json", [kernel(0, 1, 1)], **head))
    tail = opened(
        tmp_path / "tail.json", json.dumps({"traceEvents": [kernel(0, 1, 1)], **head, "cuda_runtime_version": 12040})
    )
    for facts in (trace.facts, tail.facts):
        assert facts.device_names == {0: "NVIDIA H100"} and facts.multiprocessors == {0: 132}
        assert (facts.rank, facts.world_size, facts.with_stack, facts.record_shapes) == (3, 8, True, None)
    assert tail.facts.runtime_version == "CUDA 12.4"


def test_old_spelling_of_lanes_and_ids(tmp_path: Path) -> None:
    old = {
        "ph": "X",
        "cat": "Kernel",
        "name": "k",
        "pid": 0,
        "tid": "stream 7",
        "ts": 5,
        "dur": 0,
        "args": {"device": 0, "external id": 9, "correlation": 4},
    }
    step = event("Operator", "ProfilerStep#3", 0, 10)
    trace = opened(tmp_path / "t.json", document([step, old]))
    assert (int(trace.device.stream[0]), int(trace.device.external[0]), trace.facts.schema) == (7, 9, "2021")
    assert int(trace.host.kind[0]) == 2, "a step is an annotation, whatever its category"


def test_control_characters_and_bare_words(tmp_path: Path) -> None:
    text = document([op("aten::mm", 0, 5), kernel(1, 2, 1), kernel(4, 2, 2)])
    text = text.replace("aten::mm", "aten::\x01m\tm").replace(
        '"correlation": 2', '"correlation": N/A, "x": -inf, "y": nan'
    )
    trace = opened(tmp_path / "t.json", text)
    assert (len(trace.host), len(trace.device), trace.facts.damaged) == (1, 2, 0)
    assert "aten:: m m" in trace.names
    assert trace.device.correlation.tolist() == [1, -1]


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    text = document([op("aten::mm", 0, 5), kernel(1, 2, 1)]).encode().replace(b"aten::mm", b"aten::\xff\xfe")
    trace = opened(tmp_path / "t.json", text)
    assert (len(trace.host), len(trace.device), trace.facts.damaged) == (1, 1, 0)


def test_one_damaged_event_costs_one_event(tmp_path: Path) -> None:
    text = document([kernel(number, 1, number) for number in range(10, 30)]).replace('"ts": 15,', '"ts": "soon",')
    trace = opened(tmp_path / "t.json", text)
    assert (len(trace.device), trace.facts.damaged, trace.facts.truncated) == (19, 1, False)


@pytest.mark.parametrize("keep", [0.3, 0.7, 0.95])
@pytest.mark.parametrize("packed", [True, False])
def test_truncated_file_gives_what_came_before(tmp_path: Path, keep: float, packed: bool) -> None:
    noise = random.Random(1)
    events = [kernel(number, 1, number, name=f"k{noise.random()}") for number in range(400)]
    text = document(events).encode()
    text = gzip.compress(text) if packed else text
    trace = opened(tmp_path / "t.json", text[: int(len(text) * keep)])
    assert trace.facts.truncated
    assert 0.8 * keep * 400 < len(trace.device) < 400
    assert starts(trace) == [number * 1000 for number in range(len(trace.device))]


def test_gzip_members_one_after_another(tmp_path: Path) -> None:
    text = document([kernel(number, 1, number) for number in range(50)]).encode()
    trace = opened(tmp_path / "t.gz", gzip.compress(text[:700]) + gzip.compress(text[700:]))
    assert (len(trace.device), trace.facts.truncated) == (50, False)


def test_a_bomb_is_refused_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_blocks, "LONGEST_HEADER_BYTES", 1 << 20)
    monkeypatch.setattr(json_blocks, "LONGEST_EVENT_BYTES", 1 << 20)
    with pytest.raises(FtprofError, match="not a trace"):
        opened(tmp_path / "a.gz", gzip.compress(b" " * (8 << 20), 1))
    with pytest.raises(FtprofError, match="no end of an event"):
        opened(tmp_path / "b.gz", gzip.compress(b'{"traceEvents": [{"ph": "' + b"x" * (8 << 20), 1))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "empty"),
        ("hello", "not a trace"),
        ('{"schema": "1.0.1", "nodes": []}', "execution graph"),
        ("[[-1, 1, 37888, 7]]", "memory timeline"),
        ('{"answer": 42}', "not a trace"),
        (b"\x1f\x8b\x08garbage", "nothing can be unpacked"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, text: str | bytes, what: str) -> None:
    with pytest.raises(FtprofError, match=what) as caught:
        opened(tmp_path / "t.json", text)
    assert "t.json" in caught.value.message and caught.value.hint


def test_missing_file_directory_and_report_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.json", tmp_path):
        with pytest.raises(FtprofError):
            open_trace(path)
    report = tmp_path / "r.nsys-rep"
    report.write_bytes(b"\x00" * 64)
    with pytest.raises(FtprofError) as caught:
        open_trace(report)
    assert "nsys export --type sqlite" in caught.value.hint


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the collection of public traces is absent")
def test_an_archive_is_refused_with_advice() -> None:
    with pytest.raises(FtprofError, match="tar archive") as caught:
        open_trace(FOLDER / "param" / "dlrm_kineto.tar.gz")
    assert "unpack" in caught.value.hint
