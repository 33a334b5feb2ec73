"""`ftprof trace` as it is typed: exit codes, one document on standard output, files written, progress."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from ftprof import trace_cli
from ftprof.profiler.errors import FtprofError
from tests.profiler.traces.chrome import Json, kernel, launch, note, write

app = typer.Typer()
app.command()(trace_cli.trace)


def ftprof(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "80"})


def steps(dur: float = 60) -> list[Json]:
    events: list[Json] = []
    for number in range(4):
        at = 1_000_000 + 100 * number
        events += [note(f"ProfilerStep#{number}", at, 100), launch(at + 5, 5, number + 1)]
        events.append(kernel(at + 12, dur, number + 1))
    return events


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write(tmp_path / "t.json", steps())


def test_text_says_the_verdict_first(trace: Path) -> None:
    done = ftprof(trace)
    assert done.exit_code == 0
    assert "LIMITED BY THE DEVICE'S KERNELS" in done.stdout.splitlines()[3]
    assert done.stdout.index("Confidence") < done.stdout.index("Where the time goes") and done.stderr == ""


def test_json_is_one_document(trace: Path) -> None:
    done = ftprof(trace, trace, "--json")
    assert [file["verdict"]["limit"] for file in json.loads(done.stdout)["files"]] == ["kernels", "kernels"]


def test_markdown(trace: Path) -> None:
    assert ftprof(trace, "--markdown").stdout.startswith("### Limited by the device's kernels: t.json")


def test_diff(trace: Path, tmp_path: Path) -> None:
    after = write(tmp_path / "after.json", steps(30))
    assert "A step took 100 µs before and 100 µs after" in ftprof(trace, after, "--diff").stdout
    assert json.loads(ftprof(trace, after, "--diff", "--json").stdout)["diff"]["compared"] == "per step"


def test_page_is_written_where_asked(trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "new" / "t.html"
    done = ftprof(trace, "-o", page)
    assert page.read_text("utf-8").startswith("<!doctype html>") and f"Report: {page}" in done.stdout


def test_trim_writes_a_trace_of_two_steps(trace: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.json.gz"
    done = ftprof(trace, "--trim", small, "--json")
    assert done.exit_code == 0 and f"events to {small}" in done.stderr and json.loads(done.stdout)
    kept = json.loads(ftprof(small, "--json").stdout)["files"][0]["analysis"]["steps"]
    # A third step begins at the very instant at which the second one ends.
    assert [step["name"] for step in kept][:2] == ["ProfilerStep#0", "ProfilerStep#1"] and len(kept) < 4


def failed(*arguments: str | Path) -> FtprofError:
    done = ftprof(*arguments)
    assert isinstance(done.exception, FtprofError), done.output
    assert done.stdout == ""
    assert done.exception.hint and "\n" not in done.exception.message
    return done.exception


def test_usage_faults(trace: Path, tmp_path: Path) -> None:
    blocked = trace / "x.html"
    cases: list[tuple[tuple[str | Path, ...], str]] = [
        ((trace, "--diff"), "--diff compares two traces, and 1 is given"),
        ((trace, trace, trace, "--diff"), "and 3 are given"),
        ((trace, trace, "--trim", tmp_path / "s.json"), "--trim takes one trace"),
        ((trace, "--json", "--markdown"), "exclude each other"),
        ((trace, "-o", trace), "is the trace itself"),
        ((trace, "--trim", tmp_path / "." / "t.json"), "is the trace itself"),
        ((trace, "--trim", tmp_path / "s", "-o", tmp_path / "s"), "are both"),
        ((trace, "-o", blocked), f"cannot write {blocked}"),
        ((tmp_path / "absent.json",), "No such file"),
        ((tmp_path,), "is a directory"),
    ]
    for arguments, words in cases:
        fault = failed(*arguments)
        assert fault.exit_code == 2 and words in fault.message


def test_what_is_no_trace_and_what_is_empty(tmp_path: Path) -> None:
    (tmp_path / "noise.json").write_bytes(bytes(range(256)))
    assert failed(tmp_path / "noise.json").exit_code == 4
    assert failed(write(tmp_path / "empty.json", [])).exit_code == 5


def test_one_bad_file_of_two_is_not_passed_over(trace: Path, tmp_path: Path) -> None:
    assert failed(trace, write(tmp_path / "empty.json", [])).exit_code == 5


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["pipe", "terminal"])
def test_progress_is_shown_from_two_seconds_on(stream: io.StringIO, trace: Path) -> None:
    now = [0.0]
    progress = trace_cli.Progress(stream, clock=lambda: now[0])
    for now[0] in (0.5, 1.9):
        progress(trace, 1)
    assert stream.getvalue() == ""
    for now[0] in (2.1, 2.15, 5.0, 12.5):
        progress(trace, trace.stat().st_size // 2)
    progress.close()
    assert "reading t.json: 50%" in stream.getvalue()
    lines = stream.getvalue().count("reading")
    assert lines == (3 if stream.isatty() else 2)
    assert ("\x1b" in stream.getvalue()) == stream.isatty()


def test_command_and_rules_load_nothing_slow(tmp_path: Path) -> None:
    code = "import sys, ftprof.trace_cli as _, ftprof.advisors.trace_rules as rules; rules.load_trace_rules(); sys.exit('numpy' in sys.modules or 'rich.console' in sys.modules)"
    root = str(Path(__file__).resolve().parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": root}, cwd=tmp_path, check=False
    )
    assert done.returncode == 0
