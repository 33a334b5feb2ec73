"""The data: well formed, disjoint, and what the generator writes."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from ftprof.samples import generate_tickets
from ftprof.samples.rows import FOLDER, Row, load_rows
from ftprof.samples.ticket_wording import CATEGORIES, REPLIES, REQUESTS

PUNCTUATION = str.maketrans(",.", "  ")
PARTS = ("train", "test", "unseen")


def _ticket(row: Row) -> str:
    return row.prompt.removeprefix("Support ticket: ").split("\nCategories:")[0]


@pytest.mark.parametrize("part", PARTS)
def test_rows_are_well_formed(part: str) -> None:
    for row in load_rows(part):
        assert row.prompt == generate_tickets.prompt_of(_ticket(row))
        assert row.completion.startswith(f" {row.label} | reply: ")
        assert row.label in CATEGORIES


@pytest.mark.parametrize("part", PARTS)
def test_answers_copy_their_values_from_the_ticket(part: str) -> None:
    for row in load_rows(part):
        form = REPLIES[row.label].translate(PUNCTUATION).split()
        known = {"Hello", "reply:", "|", row.label, *form}
        for word in row.completion.removesuffix(".").replace(",", " ").split():
            assert word in known or word in _ticket(row), (word, row)


@pytest.mark.parametrize("part", PARTS)
def test_categories_are_balanced(part: str) -> None:
    counts = Counter(row.label for row in load_rows(part))
    assert set(counts) == set(CATEGORIES)
    assert len(set(counts.values())) == 1


def test_there_are_enough_rows() -> None:
    assert len(load_rows("train")) >= 300
    assert len(load_rows("unseen")) >= 30


def test_parts_are_disjoint() -> None:
    prompts = [row.prompt for part in PARTS for row in load_rows(part)]
    assert len(prompts) == len(set(prompts))


def test_unseen_rows_share_no_request_with_the_generator() -> None:
    openings = {request.split("{")[0] for requests in REQUESTS.values() for request in requests}
    known = {opening for opening in openings if len(opening) > 15}
    assert not [row.prompt for row in load_rows("unseen") if any(opening in row.prompt for opening in known)]


def test_ticket_lengths_vary() -> None:
    words = sorted(len(_ticket(row).split()) for row in load_rows("test"))
    assert words[0] < 15
    assert words[-1] > 100


def test_the_generator_writes_the_committed_files() -> None:
    for part, rows in generate_tickets.rows().items():
        committed = (FOLDER / f"{part}.jsonl").read_text(encoding="utf-8").splitlines()
        assert [json.loads(line) for line in committed] == rows
