"""Data files in the shapes that people have them in."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.rows import RowSet, load_rows, read_rows, write_rows
from ftprof.profiler.workload import Row

TEXT = st.text(min_size=1, max_size=40)


def load(tmp_path: Path, *rows: object, labels: Sequence[str] = (), limit: int = 512, seed: int = 0) -> RowSet:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return load_rows(str(path), task="causal-lm", labels=labels, limit=limit, seed=seed)


def fault(tmp_path: Path, content: bytes, labels: Sequence[str] = ()) -> FtprofError:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    with pytest.raises(FtprofError) as caught:
        load_rows(str(path), task="causal-lm", labels=labels)
    assert caught.value.exit_code == Exit.USAGE
    assert caught.value.hint and "\n" not in caught.value.message
    return caught.value


TURNS = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
ANSWER = {"role": "assistant", "content": "Hello."}


@pytest.mark.parametrize(
    ("given_row", "expected"),
    [
        ({"prompt": "p", "completion": " c"}, Row(prompt="p", completion=" c")),
        ({"prompt": "p", "label": "spam", "extra": 1.5}, Row(prompt="p", label="spam")),
        ({"prompt": "p", "completion": "", "label": None}, Row(prompt="p")),
        ({"instruction": "do", "input": "x", "output": "y"}, Row(prompt="do\nx\n", completion="y")),
        ({"instruction": "do", "input": "", "output": "y"}, Row(prompt="do\n", completion="y")),
        ({"question": "q", "answer": "a"}, Row(prompt="q\n", completion="a")),
        ({"text": "t", "label": 3}, Row(prompt="t", label="3")),
        (
            {"messages": [*TURNS, ANSWER]},
            Row(prompt="system: Be brief.\nuser: Hi\nassistant:", completion=" Hello."),
        ),
        ({"messages": TURNS}, Row(prompt="system: Be brief.\nuser: Hi\nassistant:")),
        (
            {"prompt": TURNS, "completion": [ANSWER]},
            Row(prompt="system: Be brief.\nuser: Hi\nassistant:", completion=" Hello."),
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
            Row(prompt="user: ab\nassistant:"),
        ),
    ],
)
def test_shapes(tmp_path: Path, given_row: object, expected: Row) -> None:
    assert load(tmp_path, given_row).rows == (expected,)


def test_chat_template_of_the_caller(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"messages": [*TURNS, ANSWER]}))
    found = load_rows(
        str(path), task="causal-lm", render=lambda messages: f"<{len(messages)}>{messages[-1]['content']}"
    )
    assert found.rows == (Row(prompt="<2>Hi", completion="Hello."),)
    assert not any("no chat template" in note for note in found.notes)
    assert any("no chat template" in note for note in load_rows(str(path), task="causal-lm").notes)


def test_blank_lines_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes('\ufeff\r\n{"prompt": "é"}\r\n\n   \n{"prompt": "b"}'.encode())
    found = load_rows(str(path), task="causal-lm")
    assert [row.prompt for row in found.rows] == ["é", "b"]
    assert found.source == f"{path} (2 rows of 1 to 1 words, median 1)"


def test_numbers_stand_for_the_models_labels(tmp_path: Path) -> None:
    assert load(tmp_path, {"text": "t", "label": 1}, labels=("no", "yes")).rows[0].label == "yes"
    assert "2 labels" in fault(tmp_path, b'{"text": "t", "label": 2}', labels=("no", "yes")).message


def test_labels_that_the_model_does_not_know_are_noted(tmp_path: Path) -> None:
    found = load(tmp_path, {"text": "t", "label": "oui"}, {"text": "t", "label": "yes"}, labels=("no", "yes"))
    assert [note for note in found.notes if "1 rows" in note and "'oui'" in note]


def test_large_files_are_sampled_in_order_and_repeatably(tmp_path: Path) -> None:
    rows = [{"prompt": f"{number:04}"} for number in range(400)]
    found = load(tmp_path, *rows, limit=50)
    prompts = [row.prompt for row in found.rows]
    assert len(set(prompts)) == 50 and prompts == sorted(prompts)
    assert found.rows == load(tmp_path, *rows, limit=50).rows
    assert found.rows != load(tmp_path, *rows, limit=50, seed=1).rows
    assert any("50 of 400 rows" in note for note in found.notes)
    assert load(tmp_path, *rows[:50], limit=50).notes == ()


def test_sample_is_even_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f'{{"prompt": "{number}"}}\n' for number in range(20)))
    counts = [0] * 20
    for seed in range(400):
        for row in load_rows(str(path), task="causal-lm", limit=5, seed=seed).rows:
            counts[int(row.prompt)] += 1
    # Each row is expected 100 times, with a standard deviation of 8.7; these seeds are fixed, so the test is too.
    assert min(counts) > 60 and max(counts) < 140


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no rows"),
        (b"\n \n", "holds no rows"),
        (b'{"prompt": "a"}\n{"prompt": \n', "line 2: not valid JSON"),
        (b'{"prompt": "a"}\n\n[1]\n', "line 3: expected a JSON object, got a list"),
        (b'{"a": 1, "b": 2}', "line 1: no usable key among a, b"),
        (b"{}", "no usable key among none"),
        (b'{"prompt": 5}', "'prompt' must be a string, not a number"),
        (b'{"prompt": "a", "completion": {}}', "'completion' must be a string, not an object"),
        (b'{"prompt": "  "}', "'prompt' is empty"),
        (b'{"prompt": "a", "label": true}', "'label' must be"),
        (b'{"prompt": "a", "label": 1.5}', "'label' must be"),
        (b'{"messages": []}', "'messages' must be a list of messages"),
        (b'{"messages": [{"role": "user"}]}', "role and content"),
        (b'{"messages": [{"role": "assistant", "content": "x"}]}', "no turn before"),
        (b'{"messages": [{"role": "user", "content": [{"type": "image"}]}]}', "not text"),
        (b'{"prompt": "\\ud800"}', "surrogate"),
        (b'{"prompt": "a"}\n{"prompt": "\xff"}', "line 2: not UTF-8 (byte 0xff at 13)"),
        ('{"prompt": "a"}'.encode("utf-16"), "line 1: not UTF-8"),
        (b"[" * 100_000, "line 1: not"),
        (b'{"prompt": ' + b"9" * 5000 + b"}", "line 1: not"),
    ],
)
def test_faults_name_the_line(tmp_path: Path, content: bytes, words: str) -> None:
    assert words in fault(tmp_path, content).message


def test_json_array_gets_its_own_hint(tmp_path: Path) -> None:
    assert "jq -c" in fault(tmp_path, b'[{"prompt": "a"}]').hint


def test_missing_data_file(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.jsonl", tmp_path):
        with pytest.raises(FtprofError, match="cannot read"):
            load_rows(str(path), task="causal-lm")


def test_built_in_rows_vary_in_length_and_say_so() -> None:
    prompts = load_rows(None, task="causal-lm")
    sentences = load_rows(None, task="sequence-classification")
    assert (len(prompts.rows), len(sentences.rows)) == (32, 64)
    assert load_rows(None, task="embedding").rows == sentences.rows
    for found in (prompts, sentences):
        words = [len(row.prompt.split()) for row in found.rows]
        assert f"{min(words)} to {max(words)} words" in found.source
        assert max(words) > 10 * min(words) and len(set(found.rows)) == len(found.rows)
        assert any("--data" in note for note in found.notes)


@given(st.lists(st.builds(Row, prompt=TEXT, completion=st.none() | TEXT, label=st.none() | TEXT), max_size=5))
@settings(max_examples=60, deadline=None)
def test_rows_round_trip(rows: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.jsonl")
        digest = write_rows(rows, path)
        assert read_rows(path) == read_rows(str(path)) == tuple(rows)
        assert write_rows(read_rows(path), path) == digest
        if rows and all(row.prompt.strip() for row in rows):
            assert load_rows(str(path), task="causal-lm").rows == tuple(rows)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["prompt", "messages", "text", "label", "instruction", "completion"]),
            st.recursive(
                st.none() | st.booleans() | st.integers() | TEXT,
                lambda inner: (
                    st.lists(inner, max_size=2)
                    | st.dictionaries(st.sampled_from(["role", "content", "text"]), inner, max_size=3)
                ),
                max_leaves=6,
            ),
            max_size=3,
        ),
        min_size=1,
        max_size=3,
    )
)
@settings(max_examples=200, deadline=None)
def test_any_json_gives_rows_or_a_fault(values: list[object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.jsonl")
        path.write_text("\n".join(json.dumps(value) for value in values))
        try:
            found = load_rows(str(path), task="causal-lm")
        except FtprofError as error:
            assert " line " in error.message
        else:
            assert len(found.rows) == len(values) and all(row.prompt.strip() for row in found.rows)


@given(st.binary(max_size=80))
@settings(max_examples=100, deadline=None)
def test_any_bytes_give_rows_or_a_fault(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.jsonl")
        path.write_bytes(content)
        try:
            load_rows(str(path), task="causal-lm")
        except FtprofError as error:
            assert error.hint
        try:
            read_rows(path)
        except FtprofError as error:
            assert error.hint


def test_changed_rows_file_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(FtprofError, match="cannot read"):
        read_rows(tmp_path / "rows.jsonl")
    (tmp_path / "rows.jsonl").write_text('{"completion": "x"}\n')
    with pytest.raises(FtprofError, match="not a file of rows"):
        read_rows(tmp_path / "rows.jsonl")
