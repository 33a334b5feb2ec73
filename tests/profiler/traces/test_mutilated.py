"""Mutilated copies of real traces: an answer or a clear refusal. `FTPROF_MUTILATED_COPIES` asks for more copies."""

from __future__ import annotations

import gzip
import os
import random
import sqlite3
from pathlib import Path

import pytest

from ftprof.profiler.errors import FtprofError
from ftprof.profiler.traces.analyse import analyse
from tests.profiler.traces.public import public

COPIES = int(os.environ.get("FTPROF_MUTILATED_COPIES", "40"))
SOURCES = [
    "hta/amd_trace/*",
    "hta/critical_path/cuda_event_sync/*",
    "hta/trace_compare/base/*",
    "hta/triton_example/*",
    "kineto/test/*",
    "tracelens/inference/sglang_decode/*",
    "nsys/rtx3060*",
]
WORDS = [
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\\",
    b"\x00",
    b"\xff",
    b"N/A",
    b"null",
    b"-",
    b"1e999",
    b'"ts"',
    b"{}",
]
VALUES = [b"-1", b"1e308", b"null", b'"x"', b"[]", b"{}", b"99999999999999999999", b"0.0000001", b"true", b"-9e15"]


def torn(text: bytes, luck: random.Random) -> bytes:
    """One mutilation of the text: cut, doubled, sprinkled, numbers replaced, parts swapped, bytes flipped."""
    kind, at = luck.randrange(7), luck.randrange(len(text))
    if kind == 0:
        return text[:at]
    if kind == 1:
        return text[: at // 2] + text[at // 2 : at] * 2 + text[at:]
    if kind == 2:
        for _ in range(luck.randrange(1, 30)):
            place = luck.randrange(len(text))
            text = text[:place] + luck.choice(WORDS) + text[place + luck.randrange(3) :]
        return text
    if kind == 3:
        parts = text.split(b'": ')
        for _ in range(luck.randrange(1, 20)):
            place = luck.randrange(len(parts))
            parts[place] = luck.choice(VALUES) + parts[place].lstrip(b"0123456789.-")
        return b'": '.join(parts)
    if kind == 4:
        return text[at:] + text[:at]
    if kind == 5:
        return text[: at // 2] + text[at:]
    flipped = bytearray(text)
    for _ in range(luck.randrange(1, 200)):
        flipped[luck.randrange(len(flipped))] = luck.randrange(256)
    return bytes(flipped)


def mutilated(path: Path, luck: random.Random) -> bytes:
    """A damaged copy: of the packed bytes, or of the text inside, packed again."""
    raw = path.read_bytes()
    if path.suffix != ".gz":
        return torn(raw, luck)
    if luck.random() < 0.3:
        return torn(raw, luck)
    return gzip.compress(torn(gzip.decompress(raw), luck), 1)


@pytest.mark.parametrize("seed", range(COPIES))
def test_answer_or_refusal(tmp_path: Path, seed: int) -> None:
    luck = random.Random(seed)
    path = public(SOURCES[seed % len(SOURCES)])
    copy = tmp_path / f"copy{path.suffix}"
    copy.write_bytes(mutilated(path, luck))
    try:
        file = analyse(copy).files[0]
    except FtprofError as refusal:
        assert str(copy) in refusal.message and refusal.hint
        return
    part = file.whole
    if part is not None:
        assert part.total_s >= 0 and sum(part.parts().values()) == pytest.approx(part.total_s)
        assert all(value >= 0 for value in part.parts().values())
    assert file.window.end_s >= file.window.start_s
    assert file.health.checks


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE people (name TEXT)")
    database.close()
    with pytest.raises(FtprofError, match="no export of Nsight Systems"):
        analyse(path)
