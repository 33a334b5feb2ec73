"""Data files: JSON lines in, normalised rows out, and the rows that the workers read back."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from ftprof.profiler.builtin_rows import PROMPTS, SENTENCES
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.row_formats import Render, RowFault, plain_render, to_row
from ftprof.profiler.workload import Row, Task, generates

MAX_ROWS = 512
"""More rows than a run within its budget times or scores; a larger file is sampled."""
_SHAPE_NOTES = {
    "messages": "rows hold messages: the last assistant turn is the completion, the turns before it are the prompt",
    "instruction": "rows hold instruction and output: instruction, input and output were put on lines of their own; "
    "give prompt and completion if the model was trained with a template",
    "question": "rows hold question and answer: each was put on a line of its own",
}
_NO_TEMPLATE = "no chat template was applied: messages were joined as 'role: content' lines"


_ROWS = msgspec.json.Decoder(Row)


class RowSet(msgspec.Struct, frozen=True, kw_only=True):
    """Normalised rows, where they came from, and sentences for people."""

    rows: tuple[Row, ...]
    source: str
    notes: tuple[str, ...] = ()


def load_rows(
    path: str | None,
    *,
    task: Task,
    labels: Sequence[str] = (),
    render: Render | None = None,
    limit: int = MAX_ROWS,
    seed: int = 0,
) -> RowSet:
    """Reads a JSON-lines file, or gives the built-in rows where `path` is None.

    `labels` are the model's, for rows that give a label by number; `render` applies a chat template to messages. Of a
    file with more than `limit` rows an even random sample is kept, in file order and the same for the same `seed`.
    Raises FtprofError (usage), with the line number where one line is at fault.
    """
    if path is None:
        return _built_in(task)
    kept, seen, shapes = _sample(_rows(Path(path).expanduser(), render or plain_render, labels), limit, seed)
    if not kept:
        raise FtprofError(
            f"{path} holds no rows", 'write one JSON object a line, such as {"prompt": "..."}', Exit.USAGE
        )
    notes = [note for shape, note in _SHAPE_NOTES.items() if shape in shapes]
    if render is None and "messages" in shapes:
        notes.append(_NO_TEMPLATE)
    if seen > len(kept):
        notes.append(f"{len(kept):,} of {seen:,} rows were sampled at random (seed {seed})")
    notes += _unknown_labels(kept, labels)
    return RowSet(rows=kept, source=f"{path} ({_counted(kept, 'row')})", notes=tuple(notes))


def _built_in(task: Task) -> RowSet:
    texts, unit = (PROMPTS, "built-in prompt") if generates(task) else (SENTENCES, "built-in sentence")
    rows = tuple(Row(prompt=text) for text in texts)
    note = "the data is ftprof's own, not yours: give --data FILE.jsonl for times and quality on your own inputs"
    return RowSet(rows=rows, source=_counted(rows, unit), notes=(note,))


def _counted(rows: Sequence[Row], unit: str) -> str:
    words = sorted(len(row.prompt.split()) for row in rows)
    return f"{len(rows)} {unit}{'s' * (len(rows) != 1)} of {words[0]} to {words[-1]} words, median {words[len(words) // 2]}"


def _sample(rows: Iterator[tuple[Row, str]], limit: int, seed: int) -> tuple[tuple[Row, ...], int, Counter[str]]:
    """Reservoir sampling (Vitter's algorithm R), so that memory stays bounded whatever the file's size."""
    draw = random.Random(seed)
    kept: list[tuple[int, Row]] = []
    shapes: Counter[str] = Counter()
    for number, (row, shape) in enumerate(rows):
        shapes[shape] += 1
        place = number if number < limit else draw.randint(0, number)
        if place < limit:
            kept[place : place + 1] = [(number, row)]
    in_order = sorted(kept, key=lambda entry: entry[0])
    return tuple(row for _, row in in_order), shapes.total(), shapes


def _rows(path: Path, render: Render, labels: Sequence[str]) -> Iterator[tuple[Row, str]]:
    for number, line in _lines(path):
        try:
            yield to_row(_json(line), render, labels)
        except RowFault as fault:
            hint = "correct that line, or leave it out"
            if number == 1 and line.startswith("["):
                hint = f"a JSON array is not JSON lines; convert it: jq -c '.[]' {path.name} > rows.jsonl"
            raise FtprofError(f"{path} line {number}: {fault}", hint, Exit.USAGE) from fault


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers from 1 on."""
    number = 0
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                # A byte-order mark is no part of the text; editors on Windows leave one.
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                if line:
                    yield number, line
    except OSError as error:
        raise FtprofError(f"cannot read {path}: {error.strerror or error}", "check --data", Exit.USAGE) from error
    except UnicodeDecodeError as error:
        message = f"{path} line {number}: not UTF-8 (byte {error.object[error.start]:#04x} at {error.start + 1})"
        raise FtprofError(message, "save the file as UTF-8", Exit.USAGE) from error


def _json(line: str) -> object:
    try:
        found: object = json.loads(line)
        return found
    except json.JSONDecodeError as error:
        raise RowFault(f"not valid JSON: {error.msg} at character {error.pos + 1}") from error
    except (ValueError, RecursionError) as error:  # a number of too many digits, or too deep a nesting
        raise RowFault(f"not usable JSON: {error}") from error


def _unknown_labels(rows: Sequence[Row], labels: Sequence[str]) -> list[str]:
    unknown = Counter(row.label for row in rows if row.label is not None and row.label not in labels)
    if not labels or not unknown:
        return []
    example = unknown.most_common(1)[0][0]
    return [f"{unknown.total()} rows have a label that the model does not know, such as {example!r}"]


def write_rows(rows: Sequence[Row], path: str | Path) -> str:
    """Writes normalised rows as JSON lines and gives the SHA-256 (hex) of the file."""
    content = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    Path(path).write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def read_rows(path: str | Path) -> tuple[Row, ...]:
    """Reads what `write_rows` wrote. Raises FtprofError where the file is missing or was changed by hand."""
    try:
        return tuple(_ROWS.decode_lines(Path(path).read_bytes()))
    except OSError as error:
        raise FtprofError(f"cannot read {path}: {error.strerror or error}", "run the whole command again") from error
    except msgspec.DecodeError as error:
        raise FtprofError(f"{path} is not a file of rows: {error}", "run the whole command again") from error
