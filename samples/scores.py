"""How well the two samples do their task, counted over rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ftprof.samples.rows import HELD_OUT, Row, load_rows
from ftprof.samples.ticket_wording import CATEGORIES

# The longest wanted completion has 37 tokens; some room, so that a rambling answer shows as wrong.
NEW_TOKENS = 52
BATCH = 16


@dataclass(frozen=True, kw_only=True)
class Score:
    """Rows right: the category alone, and the whole answer (for a classifier there is only the category)."""

    rows: int
    category: int
    exact: int | None = None


Scorer = Callable[[Sequence[Row]], Score]


def held_out(name: str, scorer: Scorer) -> dict[str, dict[str, int | None]]:
    """Scores both held-out parts and prints a line for each."""
    report = {}
    for part in HELD_OUT:
        score = scorer(load_rows(part))
        exact = "" if score.exact is None else f"  whole answer {score.exact / score.rows:6.1%}"
        print(f"{name:<8} {part:<7} category {score.category / score.rows:6.1%}{exact}  of {score.rows}", flush=True)
        report[part] = asdict(score)
    return report


def score_answers(model: Any, tokenizer: Any, rows: Sequence[Row]) -> Score:
    """Greedy answers of a causal model, compared as text with the wanted ones."""
    answers = {row.prompt: answer for row, answer in zip(rows, generate(model, tokenizer, rows), strict=True)}
    category = sum(answers[row.prompt].split("|")[0].strip() == row.label for row in rows)
    exact = sum(answers[row.prompt] == row.completion for row in rows)
    return Score(rows=len(rows), category=category, exact=exact)


def generate(model: Any, tokenizer: Any, rows: Sequence[Row]) -> list[str]:
    """One greedy completion a row, in the order of `rows`; the end-of-sequence token is cut off."""
    import torch

    tokenizer.padding_side = "left"
    # Alike lengths together, because a batch is as slow as its longest row.
    order = sorted(range(len(rows)), key=lambda index: len(rows[index].prompt))
    answers = [""] * len(rows)
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        inputs = tokenizer([rows[index].prompt for index in chosen], return_tensors="pt", padding=True)
        with torch.inference_mode():
            output = model.generate(**inputs, max_new_tokens=NEW_TOKENS, do_sample=False)
        texts = tokenizer.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        for index, text in zip(chosen, texts, strict=True):
            answers[index] = text
    return answers


def score_labels(model: Any, tokenizer: Any, rows: Sequence[Row]) -> Score:
    """Labels of a classifier whose outputs stand for `CATEGORIES` in order."""
    import torch

    right = 0
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        inputs = tokenizer([row.prompt for row in batch], return_tensors="pt", padding=True)
        with torch.inference_mode():
            chosen = model(**inputs).logits.argmax(-1).tolist()
        right += sum(CATEGORIES[index] == row.label for index, row in zip(chosen, batch, strict=True))
    return Score(rows=len(rows), category=right)
