"""The header of a GGUF file, read without trusting it: every length is checked against the file before it is used.

The gguf package's own reader follows a count to wherever it leads, and one wrong number there takes all memory. It also
unpacks the vocabulary, seconds of work that nobody here asks for. The layout is that of the GGUF specification, versions
2 and 3 (github.com/ggml-org/ggml/blob/master/docs/gguf.md); names and block sizes of types come from the package.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ftprof.profiler.weights import TensorInfo

Scalar = str | int | float | bool

_FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_MOST_DIMENSIONS = 4  # of GGML
_ALIGNMENT = 32  # where the file names none


class BadHeaderError(Exception):
    """The file contradicts itself or ends too early; one line says where."""


class Header(msgspec.Struct, frozen=True):
    """Values by key (an array only by its length, in `lengths`), and tensors by name."""

    values: Mapping[str, Scalar]
    lengths: Mapping[str, int]
    tensors: Mapping[str, TensorInfo]


class _Cursor:
    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 0

    def skip(self, count: int) -> int:
        """Step over `count` bytes; where they began."""
        begin = self.at
        if count > len(self.data) - begin:
            raise BadHeaderError(f"it ends inside its header, at byte {begin:,}")
        self.at += count
        return begin

    def number(self, form: str) -> int | float | bool:
        found: int | float | bool = struct.unpack_from(form, self.data, self.skip(struct.calcsize(form)))[0]
        return found

    def count(self, form: str = "<Q") -> int:
        return int(self.number(form))

    def many(self, least_bytes: int) -> int:
        """A count of things that take at least so many bytes each."""
        found = self.count()
        if found * least_bytes > len(self.data) - self.at:
            raise BadHeaderError(f"it announces {found:,} entries at byte {self.at:,}, more than it has room for")
        return found

    def text(self) -> str:
        length = self.count()
        begin = self.skip(length)
        return self.data[begin : begin + length].decode("utf-8", "replace")


def read_header(path: Path) -> Header:
    """The header of a file that begins with GGUF's magic. Raises BadHeaderError, and OSError as reading does."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        cursor = _Cursor(data)
        cursor.skip(4)
        version = cursor.count("<I")
        if version not in (2, 3):
            raise BadHeaderError(f"its version is {version}, and only 2 and 3 can be read (little-endian)")
        tensors, keys = cursor.many(24), cursor.many(13)
        values: dict[str, Scalar] = {}
        lengths: dict[str, int] = {}
        for _ in range(keys):
            _pair(cursor, values, lengths)
        entries = dict(_entry(cursor) for _ in range(tensors))
        start = _aligned(cursor.at, values.get("general.alignment", _ALIGNMENT))
        return Header(values, lengths, _checked(entries, start, len(data)))


def _pair(cursor: _Cursor, values: dict[str, Scalar], lengths: dict[str, int]) -> None:
    key, kind = cursor.text(), cursor.count("<I")
    if kind == _STRING:
        values[key] = cursor.text()
    elif kind == _ARRAY:
        lengths[key] = _array(cursor)
    else:
        values[key] = cursor.number(_form(kind))


def _form(kind: int) -> str:
    if kind not in _FORMATS:
        raise BadHeaderError(f"it holds a value of the unknown type {kind}")
    return _FORMATS[kind]


def _array(cursor: _Cursor) -> int:
    """Step over an array; its length. Arrays of arrays exist in the format and in no file of a model."""
    kind = cursor.count("<I")
    if kind == _STRING:
        length = cursor.many(8)
        for _ in range(length):
            cursor.skip(cursor.count())
        return length
    size = struct.calcsize(_form(kind))
    length = cursor.many(size)
    cursor.skip(length * size)
    return length


def _entry(cursor: _Cursor) -> tuple[str, tuple[tuple[int, ...], int, int]]:
    """Name, and shape (outermost first, where GGML counts from the innermost), type and place of one tensor."""
    name, dimensions = cursor.text(), cursor.count("<I")
    if dimensions > _MOST_DIMENSIONS:
        raise BadHeaderError(f"its tensor {name[:80]} has {dimensions} dimensions")
    shape = tuple(cursor.count() for _ in range(dimensions))
    return name, (shape[::-1], cursor.count("<I"), cursor.count())


def _aligned(place: int, alignment: Scalar) -> int:
    if not isinstance(alignment, int) or alignment < 1:
        raise BadHeaderError(f"its alignment is {alignment}")
    return -(-place // alignment) * alignment


def _checked(
    entries: Mapping[str, tuple[tuple[int, ...], int, int]], start: int, file_bytes: int
) -> dict[str, TensorInfo]:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    names = {int(kind): kind for kind in GGMLQuantizationType}
    found = {}
    for name, (shape, number, offset) in entries.items():
        if number not in names:
            raise BadHeaderError(f"its tensor {name[:80]} is stored in type {number}, which the package gguf lacks")
        block, block_bytes = GGML_QUANT_SIZES[names[number]]
        size = math.prod(shape) // block * block_bytes
        if start + offset + size > file_bytes:
            raise BadHeaderError(f"its tensor {name[:80]} ends beyond the end of the file")
        found[name] = TensorInfo(dtype=names[number].name, shape=shape, size_bytes=size)
    return found
