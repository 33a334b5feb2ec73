"""Writes a small trace with a few steady steps, event texts unchanged, that every viewer of the original opens."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.traces.events import Event, Label
from ftprof.profiler.traces.json_blocks import EventText
from ftprof.profiler.traces.model import FileAnalysis
from ftprof.profiler.traces.read_kineto import no_collector
from ftprof.profiler.traces.salvage import salvaged


class _Flow(msgspec.Struct, gc=False):
    """What decides whether an event is kept; `id` ties the two ends of an arrow."""

    ph: str = ""
    cat: str | None = None
    ts: float = 0.0
    dur: float = 0.0
    id: Label = None


_RAW = msgspec.json.Decoder(list[msgspec.Raw])
_FLOW = msgspec.json.Decoder(_Flow)
_EVENTS = msgspec.json.Decoder(list[Event])
# Annotations and frames around the steps are kept; half a microsecond is less than any clock's step.
_SLACK_US = 0.5


def trim_steady(analysis: FileAnalysis, target: Path, steps: int = 2) -> int:
    """Writes the first `steps` steps of the analysed window; all of it where there are no more (or no) steps.

    Returns the number of events written. Raises FtprofError as `trim` does.
    """
    if analysis.source.format != "kineto":
        hint = "export a range instead: nsys export --type sqlite --times START/END REPORT.nsys-rep"
        raise FtprofError(f"{analysis.source.path}: only traces of torch.profiler can be trimmed", hint, Exit.USAGE)
    window = analysis.window
    inside = [step for step in analysis.steps if window.start_s <= step.start_s and step.end_s <= window.end_s]
    end_s = inside[:steps][-1].end_s if inside else window.end_s
    origin_us = analysis.source.origin_ns / 1e3
    return trim(Path(analysis.source.path), target, origin_us + window.start_s * 1e6, origin_us + end_s * 1e6)


def trim(source: Path, target: Path, low_us: float, high_us: float) -> int:
    """Copies the events that overlap [low_us, high_us) on the file's own clock, metadata and the arrows between them.

    `target` ending in .gz is compressed. Returns the number of events written. Raises FtprofError where the source is
    no kineto JSON, or where source and target are one file.
    """
    if target.exists() and target.resolve() == source.resolve():
        raise FtprofError(f"{target} is the trace itself", "give another name for the small one", Exit.USAGE)
    with source.open("rb") as file, no_collector():
        text = EventText(source, file)  # refuses before anything is written
        with target.open("wb") as raw:
            # Without name and time the same steps give the same bytes.
            packed = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if target.suffix == ".gz" else nullcontext(raw)
            with packed as out:
                return _copy(text, cast(BinaryIO, out), low_us, high_us)


def _copy(text: EventText, out: BinaryIO, low_us: float, high_us: float) -> int:
    out.write(_opening(text.header))
    count = 0

    def keep(events: list[bytes]) -> None:
        nonlocal count
        for event in _kept(events, low_us, high_us):
            out.write(b",\n" if count else b"\n")
            out.write(event)
            count += 1

    for piece in text.pieces():
        keep(_events(piece))
    last, after = _ending(text.rest)
    keep(last)
    out.write(b"\n]")
    out.writelines(b",\n%b: %b" % (msgspec.json.encode(name), value) for name, value in after.items())
    out.write(b"\n}\n")
    return count


def _opening(header: bytes) -> bytes:
    """The original header where it is whole, else none of it."""
    start = header.rstrip().removesuffix(b",")
    try:
        msgspec.json.decode(start + b"}")
    except msgspec.MsgspecError:
        return b'{"traceEvents": ['
    return start.rstrip() + (b'"traceEvents": [' if start.rstrip() == b"{" else b', "traceEvents": [')


def _ending(rest: bytes) -> tuple[list[bytes], dict[str, bytes]]:
    """The last events, and what follows their list by name: newer profilers put the device's name there."""
    try:
        document = msgspec.json.decode(b'{"traceEvents":[' + rest, type=dict[str, msgspec.Raw])
        events = _RAW.decode(document.pop("traceEvents"))
    except (msgspec.MsgspecError, KeyError):
        return _events(rest), {}
    return [bytes(event) for event in events], {name: bytes(value) for name, value in document.items()}


def _events(piece: bytes) -> list[bytes]:
    try:
        return [bytes(event) for event in _RAW.decode(b"[%b]" % piece)]
    except msgspec.MsgspecError:
        texts, _ = salvaged(piece, lambda text: _EVENTS.decode(b"[%b]" % text))
        return [bytes(event) for text in texts for event in _RAW.decode(b"[%b]" % text)]


def _kept(events: list[bytes], low: float, high: float) -> Iterator[bytes]:
    """Events that overlap the window; metadata always."""
    for text in events:
        try:
            event = _FLOW.decode(text)
        except msgspec.MsgspecError:
            continue
        overlaps = event.ts < high + _SLACK_US and event.ts + event.dur >= low - _SLACK_US
        if event.ph == "M" or overlaps:
            yield text
