"""Make strings from the user's files safe to show: nothing hidden, nothing that a terminal or a page could obey."""

from __future__ import annotations

import unicodedata
from typing import TypeVar

import msgspec

NAME_LIMIT = 120
"""Characters of a name that are shown; the whole value is in audit.json."""
TEXT_LIMIT = 4000
"""Characters of any one text, so that a runaway error message cannot swell a page."""
ELLIPSIS = "..."

T = TypeVar("T", bound=msgspec.Struct)


def visible(text: str) -> str:
    """`text` with control, format (bidirectional, zero-width), surrogate and private characters as escapes.

    Line feeds stay, since code and notes have several lines; tabs become four spaces.
    """
    shown = "".join(map(_show, text.replace("\r\n", "\n").expandtabs(4)))
    return shown if len(shown) <= TEXT_LIMIT else shown[:TEXT_LIMIT] + ELLIPSIS


def name(text: str, limit: int = NAME_LIMIT) -> str:
    """`text` on one line and at most `limit` characters long, cut in the middle where both ends tell most."""
    line = visible(text).replace("\n", "\\n")
    if len(line) <= limit:
        return line
    kept = limit - len(ELLIPSIS)
    return line[: kept - kept // 2] + ELLIPSIS + line[-(kept // 2) :]


def cleaned(document: T) -> T:
    """A copy of `document` in which every string, keys of mappings included, is `visible`."""
    return msgspec.convert(_walk(msgspec.to_builtins(document)), type(document))


def _show(character: str) -> str:
    if character == "\n" or (character.isprintable() and unicodedata.category(character) != "Co"):
        return character
    # Of the separators only the line feed and the plain space are printable; exotic spaces are harmless.
    if unicodedata.category(character) == "Zs":
        return " "
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _walk(value: object) -> object:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {_walk(key): _walk(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_walk(item) for item in value]
    return value
