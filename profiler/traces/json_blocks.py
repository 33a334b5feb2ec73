"""A trace file as a stream of text blocks that end between two events, in bounded memory.

Decompression runs one block ahead in a thread of its own (zlib lets go of the interpreter). Nothing is parsed here:
the cut is a guess by the text between two events, and whoever parses a block asks for an earlier cut if it was wrong.
"""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

from ftprof.profiler.errors import Exit, FtprofError

BLOCK_BYTES = 2 << 20
READ_BYTES = 1 << 18
# The longest event seen in public traces has 60 kB (a stack of 2021). A text without a border for this long is none.
LONGEST_EVENT_BYTES = 32 << 20
# Kineto's header is 1 to 60 kB (device properties, process groups); some writers put further objects before the events.
LONGEST_HEADER_BYTES = 16 << 20

BORDER = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s)"\s*:)')
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BARE_LIST = re.compile(rb'\s*\[\s*\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args|id)"\s*:')
_NEAR_END = 1 << 16


class Ended(Exception):
    """The compressed data stopped before its end or is damaged from here on."""


def blocks(file: BinaryIO) -> Iterator[bytes]:
    """Uncompressed blocks. Raises Ended where a gzip stream breaks off, after what came before it."""
    magic = file.read(2)
    file.seek(0)
    source = _gunzip(file) if magic == b"\x1f\x8b" else iter(lambda: file.read(BLOCK_BYTES), b"")
    with ThreadPoolExecutor(max_workers=1) as ahead:
        coming = ahead.submit(next, source, b"")
        while block := coming.result():
            coming = ahead.submit(next, source, b"")
            yield block


def _gunzip(file: BinaryIO) -> Iterator[bytes]:
    """Blocks of one or more gzip members, each at most BLOCK_BYTES however well it was compressed."""
    member = zlib.decompressobj(wbits=31)
    waiting = b""
    while True:
        waiting = waiting or file.read(READ_BYTES)
        if not waiting:
            if not member.eof:
                raise Ended("the compressed data stops early")
            return
        if member.eof:
            member = zlib.decompressobj(wbits=31)
        try:
            block = member.decompress(waiting, BLOCK_BYTES)
        except zlib.error as fault:
            raise Ended(str(fault)) from fault
        waiting = member.unused_data.lstrip(b"\0") if member.eof else member.unconsumed_tail
        if block:
            yield block


class EventText:
    """The events of one file: `header`, then `pieces()`, then `rest` (what no piece held: the last event and the tail).

    A piece starts at an event's brace and ends after one. `give_back` returns the end of a piece that was cut too late.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.cut_short: str | None = None
        self._source = blocks(file)
        self._text = bytearray()
        self.header = self._skip_header()

    def _more(self) -> bool:
        try:
            block = next(self._source, b"")
        except Ended as fault:
            self.cut_short = str(fault)
            return False
        self._text += block
        return bool(block)

    def _skip_header(self) -> bytes:
        self._more()
        if self._text[257:262] == b"ustar":
            raise not_a_trace(self.path, bytes(self._text[:4096]), None)
        found = self._find_list()
        while not found and len(self._text) < LONGEST_HEADER_BYTES and self._more():
            found = self._find_list()
        if not found:
            raise not_a_trace(self.path, bytes(self._text[:4096]), self.cut_short)
        header = bytes(self._text[: found.start()])
        begin = self._text.index(b"[", found.start()) + 1
        del self._text[:begin]
        return header

    def _find_list(self) -> re.Match[bytes] | None:
        return _EVENTS_KEY.search(self._text) or _BARE_LIST.match(self._text)

    def pieces(self) -> Iterator[bytes]:
        """Texts of whole events, comma between them, no brackets around them."""
        searched = 0
        while self._more():
            cut = last_border(self._text, searched)
            if cut is None:
                searched = max(0, len(self._text) - _NEAR_END)
                if len(self._text) > LONGEST_EVENT_BYTES:
                    raise FtprofError(
                        f"{self.path}: no end of an event within {LONGEST_EVENT_BYTES >> 20} MB",
                        "the file is damaged or is not a trace; record it again",
                        Exit.UNUSABLE,
                    )
                continue
            piece = bytes(self._text[: cut[0]])
            del self._text[: cut[1]]
            searched = 0
            yield piece

    def give_back(self, text: bytes) -> None:
        """Puts the end of a piece back before what is still to come."""
        self._text[:0] = text

    @property
    def rest(self) -> bytes:
        """What is left after the last piece."""
        return bytes(self._text)


def last_border(text: bytes | bytearray, low: int = 0, high: int | None = None) -> tuple[int, int] | None:
    """(end of an event, start of the next) for the last border in text[low:high], or None."""
    high = len(text) if high is None else high
    start = max(low, high - _NEAR_END)
    while True:
        found = deque(BORDER.finditer(text, start, high), maxlen=1)
        if found:
            return found[0].start() + 1, found[0].end()
        if start <= low:
            return None
        start = max(low, start - 16 * _NEAR_END)


def not_a_trace(path: Path, beginning: bytes, cut_short: str | None) -> FtprofError:
    """The refusal, with the best guess of what the file is."""
    hint = "give a trace that torch.profiler wrote (.json or .json.gz) or an Nsight Systems SQLite export"
    if cut_short and not beginning:
        return FtprofError(f"{path}: nothing can be unpacked ({cut_short})", hint, Exit.UNUSABLE)
    text = beginning.lstrip()
    if not beginning:
        return FtprofError(f"{path}: the file is empty", hint, Exit.NOTHING)
    if b'"nodes"' in text and b'"schema"' in text:
        what = "an execution graph (ExecutionTraceObserver), which has no times"
    elif text.startswith(b"[["):
        what = "a memory timeline (export_memory_timeline)"
    elif beginning[257:262] == b"ustar":
        what = "a tar archive"
        hint = "unpack it and give the traces inside"
    else:
        what = "not a trace: no list of events in it"
    return FtprofError(f"{path}: this is {what}", hint, Exit.UNUSABLE)
