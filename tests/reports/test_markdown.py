from __future__ import annotations

import re

import pytest

from ftprof.reports import markdown
from tests.reports import example, golden
from tests.reports.hostile import CORPUS, filled

FENCED = re.compile(r"^(`{3,})\w*\n.*?\n\1$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("variant", ["full", "bare"])
def test_golden(variant: str) -> None:
    golden.check(f"comment-{variant}.txt", markdown.render(example.VARIANTS[variant]()))


@pytest.mark.parametrize("text", CORPUS)
def test_hostile_names_are_only_text(text: str) -> None:
    comment = markdown.render(filled(example.full(), text))
    prose = FENCED.sub("", comment)
    tags = set(re.findall(r"<[^>]*>", prose))
    assert tags <= {"<!-- ftprof -->", "<details>", "<summary>", "</summary>", "</details>"}
    assert prose.count("<details>") == prose.count("</details>") == 1
    assert not re.search(r"(?<!\\)!?\[", prose), "a link or an image"
    assert not re.search(r"[@#]\w|\w://|www\.", prose), "a mention, a reference or a link"
    assert len(comment.encode("utf-8", "replace")) < 60_000


@pytest.mark.parametrize("text", CORPUS)
def test_a_name_cannot_break_a_table(text: str) -> None:
    lines = [line for line in markdown.render(filled(example.full(), text)).splitlines() if line.startswith("| ")]
    assert len(lines) == 6
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {7}


@pytest.mark.parametrize("text", ["plain", "a\n```\nb", "````` five"])
def test_a_fence_holds_whatever_it_fences(text: str) -> None:
    block = markdown.code(text)
    fence = block.splitlines()[0]
    assert block == f"{fence}\n{text}\n{fence}"
    assert fence not in text


def test_the_comment_of_an_ordinary_audit_is_short() -> None:
    assert len(markdown.render(example.full()).encode()) < 12_000
