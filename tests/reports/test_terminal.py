from __future__ import annotations

import io
import unicodedata

import pytest
from rich.console import Console

from ftprof.reports import terminal
from tests.reports import example, golden
from tests.reports.hostile import CORPUS, filled


@pytest.mark.parametrize("variant", ["full", "encoder", "bare", "interrupted", "no_fix"])
def test_golden_at_80_columns_in_a_pipe(variant: str) -> None:
    stream = io.StringIO()
    terminal.render(example.VARIANTS[variant](), Console(file=stream, width=80))
    golden.check(f"terminal-{variant}.txt", stream.getvalue())


def test_no_line_but_code_is_wider_than_80_columns() -> None:
    stream = io.StringIO()
    terminal.render(example.full(), Console(file=stream, width=80))
    assert all(len(line) <= 80 or line.startswith("    ") for line in stream.getvalue().splitlines())


def test_colour_only_repeats_the_words() -> None:
    plain, coloured = io.StringIO(), io.StringIO()
    terminal.render(example.full(), Console(file=plain, width=80, color_system=None))
    console = Console(file=coloured, width=80, force_terminal=True, color_system="standard", _environ={})
    terminal.render(example.full(), console)
    assert "\x1b[" in coloured.getvalue()
    assert strip(coloured.getvalue()) == plain.getvalue()


def strip(text: str) -> str:
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_no_color_is_obeyed() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=True, _environ={"NO_COLOR": "1", "TERM": "xterm-256color"})
    terminal.render(example.full(), console)
    assert "\x1b[3" not in stream.getvalue()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
@pytest.mark.parametrize("text", [*CORPUS[:3], "模型 🤗 µ"])
def test_a_stream_that_knows_few_characters(encoding: str, text: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="strict")
    for audit in (example.full(), filled(example.full(), text)):
        terminal.render(audit, Console(file=stream, width=80))
    stream.flush()
    assert b"1.58x faster" in raw.getvalue()


@pytest.mark.parametrize("text", CORPUS)
def test_hostile_names_reach_the_terminal_as_text(text: str) -> None:
    stream = io.StringIO()
    terminal.render(
        filled(example.full(), text), Console(file=stream, width=80, force_terminal=True, color_system=None)
    )
    shown = stream.getvalue()
    assert not {unicodedata.category(char) for char in shown.replace("\n", "")} & {"Cc", "Cf", "Cs"}
    assert not any(line.lstrip().startswith(("::", "##[")) for line in shown.splitlines())
