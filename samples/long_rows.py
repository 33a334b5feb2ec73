"""Rows near the length limit of a small encoder, for faults that only show there."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from ftprof.samples.generate_tickets import prompt_of
from ftprof.samples.rows import Row, load_rows
from ftprof.samples.ticket_wording import CATEGORIES

ROWS_PER_CATEGORY = 8
# MiniLM takes 512 tokens; attention without fused kernels costs little at a quarter of that.
SHORTEST, LONGEST = 400, 500
SEED = 5


def write_long_rows(tokenizer: Any, path: Path) -> None:
    """Writes test tickets of one category strung together, so that the label still holds for the whole."""
    rng = random.Random(SEED)
    tickets = {category: [row for row in load_rows("test") if row.label == category] for category in CATEGORIES}
    rows = [_long_row(rng, tokenizer, tickets[name]) for name in CATEGORIES for _ in range(ROWS_PER_CATEGORY)]
    rng.shuffle(rows)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _long_row(rng: random.Random, tokenizer: Any, rows: list[Row]) -> dict[str, str]:
    """Draws orders of the tickets until the ones that fit make a row of a fitting length."""
    while True:
        chosen = rng.sample(rows, len(rows))
        prompt = ""
        for count in range(1, len(chosen) + 1):
            longer = prompt_of(" ".join(_ticket(row) for row in chosen[:count]))
            if len(tokenizer(longer, verbose=False).input_ids) > LONGEST:
                break
            prompt = longer
        if len(tokenizer(prompt).input_ids) >= SHORTEST:
            return {"prompt": prompt, "completion": chosen[0].completion, "label": chosen[0].label}


def _ticket(row: Row) -> str:
    return row.prompt.removeprefix("Support ticket: ").rsplit("\nCategories:", 1)[0]
