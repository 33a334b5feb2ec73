"""Reads kineto's JSON (torch.profiler, 2021 to now; NVIDIA and AMD) into columns.

Blocks of whole events are decoded by typed msgspec, which skips what no column needs; flows and instants are dropped
at once. Times are exact: an integer number of microseconds is multiplied; a fraction below 2**43 us (the clock of
traces with a nanosecond base) is recovered from its double, which is nearer to the printed decimal than half a
nanosecond; a larger one (an epoch clock with fractions) is decoded again as a decimal number. A block that does not
parse goes through `salvage`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ftprof.profiler.traces.columns import Facts, Trace, sort_and_rebase
from ftprof.profiler.traces.events import About, Event, Events, ExactEvents, ExactTimes
from ftprof.profiler.traces.gather import Gather
from ftprof.profiler.traces.intervals import Ints
from ftprof.profiler.traces.json_blocks import EventText, last_border
from ftprof.profiler.traces.salvage import salvaged

EXACT_BELOW_US = float(2**43)
_WRONG_CUTS_TRIED = 6
# An event may hold what looks like the border between two; only a text that stays unreadable for this long is damaged.
_PATIENCE_BYTES = 4 << 20

_EVENTS = msgspec.json.Decoder(list[Event])
_TIMES = msgspec.json.Decoder(list[ExactTimes])
_LAST = msgspec.json.Decoder(Events)
Progress = Callable[[int], None]


@contextmanager
def no_collector() -> Iterator[None]:
    """Holds the garbage collector off: it would walk hundreds of thousands of fresh objects for nothing."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def read_kineto(path: Path, progress: Progress | None = None) -> Trace:
    """The trace in `path` (.json or .json.gz). Raises FtprofError where the file is no trace."""
    facts = Facts(path=str(path), file_bytes=path.stat().st_size)
    gather = Gather(facts)
    with path.open("rb") as file, no_collector():
        text = EventText(path, file)
        _read_header(text.header, facts)
        for piece in text.pieces():
            _read_piece(piece, text, gather)
            if progress:
                progress(file.tell())
        _read_rest(text, gather)
    trace = gather.trace()
    sort_and_rebase(trace)
    return trace


def _read_piece(piece: bytes, text: EventText, gather: Gather) -> None:
    """Decodes a piece; tries earlier cuts where it does not parse, then waits for more text, then goes by event."""
    end = len(piece)
    for _ in range(_WRONG_CUTS_TRIED):
        try:
            events = _EVENTS.decode(b"[%b]" % piece[:end])
        except (msgspec.DecodeError, msgspec.ValidationError):
            cut = last_border(piece, 0, end)
            if cut is None:
                break
            end = cut[0]
            continue
        if end < len(piece):
            text.give_back(piece[end:].lstrip(b", \t\r\n") + b",")
        _keep(events, piece[:end], gather)
        return
    if len(piece) < _PATIENCE_BYTES:
        text.give_back(piece + b",")
    else:
        _salvage(piece, gather)


def _read_rest(text: EventText, gather: Gather) -> None:
    """The last events, the end of the list and what follows it."""
    rest = text.rest
    whole = b'{"traceEvents":[' + rest
    if text.header == b"" or not rest.strip():
        whole = b'{"traceEvents":[' + rest.rstrip().removesuffix(b"]") + b"]}"
    try:
        events = _LAST.decode(whole).traceEvents
    except (msgspec.DecodeError, msgspec.ValidationError):
        gather.facts.truncated = not rest.rstrip().endswith((b"}", b"]"))
        _salvage(rest, gather)
        _read_header(b"{" + rest.rpartition(b"],")[2].rstrip().removesuffix(b"}"), gather.facts)
    else:
        _keep(events, rest, gather)
        _read_tail(whole, gather.facts)
    gather.facts.truncated |= text.cut_short is not None


def _salvage(piece: bytes, gather: Gather) -> None:
    texts, damaged = salvaged(piece, lambda text: _EVENTS.decode(b"[%b]" % text))
    gather.facts.damaged += damaged
    if texts:
        joined = b",".join(texts)
        _keep(_EVENTS.decode(b"[%b]" % joined), joined, gather)


def _keep(events: Sequence[Event], text: bytes, gather: Gather) -> None:
    """Moves a block's events into columns, with exact times."""

    def times(chosen: Sequence[Event], rows: list[int]) -> tuple[Ints, Ints]:
        start, duration = nanoseconds([event.ts for event in chosen]), nanoseconds([event.dur for event in chosen])
        return _exact(text, rows) if start is None or duration is None else (start, duration)

    gather.add(events, times)


def nanoseconds(values: list[Any]) -> Ints | None:
    """Exact nanoseconds from microseconds as decoded; None where doubles are too coarse for that."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return np.array(values, dtype=np.int64) * 1000
    number = np.array(values, dtype=np.float64)
    if np.abs(number).max() >= EXACT_BELOW_US:
        return None
    whole = np.floor(number)
    return whole.astype(np.int64) * 1000 + np.rint((number - whole) * 1000.0).astype(np.int64)


def _exact(text: bytes, rows: list[int]) -> tuple[Ints, Ints]:
    """Nanoseconds by decimal arithmetic on the printed numbers of these events of the text."""
    try:
        times = _TIMES.decode(b"[%b]" % text)
    except msgspec.MsgspecError:  # the last piece, with the end of the list and the tail
        times = msgspec.json.decode(b'{"traceEvents":[' + text, type=ExactEvents).traceEvents
    start = np.array([int((times[row].ts * 1000).to_integral_value()) for row in rows], dtype=np.int64)
    duration = np.array([int((times[row].dur * 1000).to_integral_value()) for row in rows], dtype=np.int64)
    return start, duration


def _read_header(header: bytes, facts: Facts) -> None:
    """What stands before the list of events."""
    _about(header.rstrip().removesuffix(b",") + b"}", facts)


def _read_tail(document: bytes, facts: Facts) -> None:
    """What stands after it."""
    _about(document, facts)


def _about(document: bytes, facts: Facts) -> None:
    try:
        about = msgspec.json.decode(document, type=About)
    except msgspec.MsgspecError:
        return  # a header says nothing that the events depend on
    for device in about.deviceProperties or about.computeProperties:
        facts.device_names[device.id] = device.name
        processors = device.numSms or device.multiProcessorCount
        if processors:
            facts.multiprocessors[device.id] = processors
    if about.distributedInfo:
        facts.rank, facts.world_size = about.distributedInfo.rank, about.distributedInfo.world_size
    for name in ("with_stack", "record_shapes", "profile_memory"):
        value = getattr(about, name)
        if value is not None:
            setattr(facts, name, bool(value))
    runtime = _version(about.cuda_runtime_version, about.hip_runtime_version)
    driver = _version(about.cuda_driver_version, about.hip_driver_version)
    facts.runtime_version, facts.driver_version = facts.runtime_version or runtime, facts.driver_version or driver


def _version(cuda: int | None, hip: int | None) -> str | None:
    """12040 is CUDA 12.4; HIP counts 10 million to a major release."""
    if cuda:
        return f"CUDA {cuda // 1000}.{cuda % 1000 // 10}"
    return f"HIP {hip // 10**7}.{hip // 10**5 % 100}" if hip else None
