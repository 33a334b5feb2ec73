"""Whole events out of text that does not parse: control characters, bare words for numbers, cut or torn events."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import msgspec

from ftprof.profiler.traces.json_blocks import BORDER

_CONTROL = bytes(max(code, 32) for code in range(256))
# Written by C++ streams and by profilers that lack a value.
_BARE_WORD = re.compile(rb":\s*(?:[+-]?(?:nan|inf(?:inity)?)\b|N/A)", re.IGNORECASE)
# Objects inside an event's arguments that look like events of their own.
_MOST_PARTS = 4
_LENIENT = json.JSONDecoder(strict=False)


def salvaged(text: bytes, decode: Callable[[bytes], object]) -> tuple[list[bytes], int]:
    """The texts of the events that `decode` accepts, repaired where needed, and how many were lost."""
    whole = repaired(text)
    if _accepted(whole, decode):
        return [whole], 0
    good: list[bytes] = []
    lost = 0
    pieces = _split(whole)
    at = 0
    while at < len(pieces):
        piece, used = _whole_event(pieces[at : at + _MOST_PARTS], decode)
        if piece is not None:
            good.append(piece)
        elif pieces[at].strip(b" ,]}"):
            lost += 1
        at += used
    return good, lost


def _whole_event(pieces: list[bytes], decode: Callable[[bytes], object]) -> tuple[bytes | None, int]:
    """The event that the first pieces make, and how many of them; (None, 1) where they make none."""
    for count in range(1, len(pieces) + 1):
        joined = b",".join(pieces[:count])
        if _accepted(joined, decode):
            return joined, count
    first = _first_object(pieces[0])
    return (first, 1) if first is not None and _accepted(first, decode) else (None, 1)


def repaired(text: bytes) -> bytes:
    """The text without control characters, bare words and bytes that are not UTF-8; commas at the ends removed."""
    text = _BARE_WORD.sub(b": null", text.translate(_CONTROL))
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        text = text.decode("utf-8", "replace").encode()
    return text.strip(b" ,")


def _split(text: bytes) -> list[bytes]:
    """The text cut at every border between events; each piece keeps its last brace."""
    pieces: list[bytes] = []
    begin = 0
    for border in BORDER.finditer(text):
        pieces.append(text[begin : border.start() + 1])
        begin = border.end()
    pieces.append(text[begin:])
    return pieces


def _accepted(piece: bytes, decode: Callable[[bytes], object]) -> bool:
    try:
        decode(piece)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return bool(piece.strip())


def _first_object(piece: bytes) -> bytes | None:
    """The first complete object of a piece, whatever follows it, written again."""
    begin = piece.find(b"{")
    if begin < 0:
        return None
    try:
        value, _ = _LENIENT.raw_decode(piece[begin:].decode("utf-8", "replace"))
        return json.dumps(value).encode("utf-8", "replace") if isinstance(value, dict) and "ph" in value else None
    except (ValueError, RecursionError):
        return None
