"""The ticket rows, as written in `tickets/*.jsonl`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "tickets"
HELD_OUT = ("test", "unseen")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One ticket: what a model is given, the answer wanted of it, and the category in that answer."""

    prompt: str
    completion: str
    label: str


def load_rows(part: str, folder: Path = FOLDER) -> list[Row]:
    """The rows of "train", "test" or "unseen", in file order."""
    with (folder / f"{part}.jsonl").open(encoding="utf-8") as lines:
        return [Row(**json.loads(line)) for line in lines]
