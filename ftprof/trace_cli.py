"""The command `trace`: what a profiler's trace says, before and after, or a small piece of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from ftprof import __version__
from ftprof.profiler.errors import Exit, FtprofError

if TYPE_CHECKING:
    from ftprof.profiler.traces.model import TraceAnalysis
    from ftprof.reports.trace_document import TraceReport

Files = Annotated[
    list[Path], typer.Argument(help="Traces of torch.profiler (.json, .json.gz) or Nsight Systems (.sqlite).")
]
Diff = Annotated[bool, typer.Option("--diff", help="Compare exactly two traces: before, then after.")]
Trim = Annotated[
    Path | None, typer.Option(help="Write a small trace of the first two steady steps to this file (one trace only).")
]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Write the report as an HTML page to this file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown, for an issue or a pull request.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]

SILENT_S = 2.0
"""A shorter read shows no progress."""
TERMINAL_S, PIPE_S = 0.2, 10.0
"""Seconds between two lines of progress: on a terminal the line is written over, in a log each one stays."""


def trace(
    files: Files,
    diff: Diff = False,
    trim: Trim = None,
    output: Output = None,
    json: Json = False,
    markdown: Markdown = False,
    debug: Debug = False,
) -> None:
    """What limits the GPU in a trace that was recorded before. Exit 4: a file is no trace; 5: it holds nothing."""
    from ftprof.profiler.traces.analyse import analyse
    from ftprof.reports.trace_document import report

    _check(files, diff, trim, output, json, markdown)
    progress = Progress(sys.stderr)
    try:
        analysis = analyse(*files, progress=progress)
    finally:
        progress.close()
    if trim is not None:
        _trim(analysis, trim)
    document = report(analysis, __version__, compare=diff)
    if output is not None:
        _write_page(document, output)
    _show(document, json=json, markdown=markdown)
    if output is not None and not json and not markdown:
        sys.stdout.write(f"\nReport: {output}\n")


def _check(files: list[Path], diff: bool, trim: Path | None, output: Path | None, json: bool, markdown: bool) -> None:
    if json and markdown:
        raise FtprofError("--json and --markdown exclude each other", "give one of them", Exit.USAGE)
    if diff and len(files) != 2:
        message = f"--diff compares two traces, and {len(files)} {'is' if len(files) == 1 else 'are'} given"
        raise FtprofError(message, "give the trace before, then the trace after", Exit.USAGE)
    if trim is not None and len(files) != 1:
        raise FtprofError(f"--trim takes one trace, and {len(files)} are given", "trim them one by one", Exit.USAGE)
    inputs = {path.resolve() for path in files}
    for option, path in (("--output", output), ("--trim", trim)):
        if path is not None and path.resolve() in inputs:
            raise FtprofError(f"{option} {path} is the trace itself", "give another file", Exit.USAGE)
    if output is not None and trim is not None and output.resolve() == trim.resolve():
        raise FtprofError(f"--output and --trim are both {output}", "give them different files", Exit.USAGE)


def _trim(analysis: TraceAnalysis, target: Path) -> None:
    from ftprof.profiler.traces.trim import trim_steady

    with _writing(target, "--trim"):
        count = trim_steady(analysis.files[0], target)
    sys.stderr.write(f"wrote {count} events to {target}\n")


def _write_page(document: TraceReport, target: Path) -> None:
    from ftprof.reports.trace_html import render

    page = render(document).encode("utf-8", "backslashreplace")
    with _writing(target, "--output"):
        target.write_bytes(page)


@contextmanager
def _writing(target: Path, option: str) -> Iterator[None]:
    """Makes the folder of `target`, and turns a fault of the disk into one line."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        message = f"cannot write {target}: {error.strerror or error}"
        raise FtprofError(message, f"give {option} a file of your own", Exit.USAGE) from error


def _show(document: TraceReport, *, json: bool, markdown: bool) -> None:
    if json:
        from ftprof.reports.trace_document import as_json

        sys.stdout.write(as_json(document))
    elif markdown:
        from ftprof.reports import trace_markdown

        sys.stdout.write(trace_markdown.render(document))
    else:
        from rich.console import Console

        from ftprof.reports import trace_terminal

        trace_terminal.render(document, Console(highlight=False))


class Progress:
    """A line of how much of a file is read, from SILENT_S on; called with the path and the bytes read so far."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._path: Path | None = None
        self._size = 0
        self._next = clock() + SILENT_S
        self._terminal = stream.isatty()
        self._shown = False

    def __call__(self, path: Path, done: int) -> None:
        if path != self._path:
            self._path, self._size = path, path.stat().st_size
        now = self._clock()
        if now < self._next:
            return
        self._next = now + (TERMINAL_S if self._terminal else PIPE_S)
        self._shown = True
        share = f"{min(done / self._size, 1):.0%}" if self._size else f"{done} bytes"
        self._stream.write(
            f"\r\x1b[Kreading {_plain(path)}: {share}" if self._terminal else f"reading {_plain(path)}: {share}\n"
        )
        self._stream.flush()

    def close(self) -> None:
        """Wipe the line."""
        if self._shown and self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def _plain(path: Path) -> str:
    from ftprof.reports.clean import name

    return name(path.name, 60)
