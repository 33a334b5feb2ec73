from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from functools import cache
from itertools import pairwise

import pytest
from msgspec.structs import replace

from ftprof.profiler.errors import FtprofError
from ftprof.reports import html
from tests.reports import example, golden
from tests.reports.hostile import CORPUS, filled
from tests.reports.page import Element, parse

BLOCKS = [
    "verdict",
    "before-after",
    "fixes",
    "time",
    "lora",
    "base",
    "memory",
    "trust",
    "passed",
    "quality",
    "environment",
    "repeat",
]


@cache
def page_of(variant: str) -> str:
    return html.render(example.VARIANTS[variant]())


@pytest.fixture(params=example.VARIANTS)
def rendered(request: pytest.FixtureRequest) -> str:
    return page_of(request.param)


def test_blocks_stand_in_order_with_headings(rendered: str) -> None:
    page = parse(rendered)
    assert [section.attributes["id"] for section in page.all("section")] == BLOCKS
    for section in page.all("section"):
        assert section.attributes["aria-labelledby"] == f"{section.attributes['id']}-title"
    levels = [int(element.tag[1]) for element in page.all() if re.fullmatch(r"h\d", element.tag)]
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_nothing_reaches_out_or_runs(rendered: str) -> None:
    page = parse(rendered)
    allowed = re.sub(r'xmlns="http://www.w3.org/2000/svg"', "", rendered)
    assert not re.search(r"(?:https?:)?//[\w.]+", re.sub(r"/\*.*?\*/", "", allowed))
    assert not {element.tag for element in page.all()} & {"script", "img", "link", "iframe", "object", "base", "form"}
    for element in page.all():
        assert not [name for name in element.attributes if name == "style" or name.startswith("on")]
        for name in ("href", "src", "action"):
            assert element.attributes.get(name, "#").startswith("#")


def test_the_policy_allows_the_one_style_sheet_by_its_hash(rendered: str) -> None:
    page = parse(rendered)
    (style,) = page.all("style")
    text = "".join(child for child in style.children if isinstance(child, str))
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    (policy,) = [m.attributes["content"] for m in page.all("meta") if "http-equiv" in m.attributes]
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "@import" not in text and "url(" not in text


def test_ids_are_unique_and_every_reference_finds_one(rendered: str) -> None:
    page = parse(rendered)
    ids = Counter(element.attributes["id"] for element in page.all() if "id" in element.attributes)
    assert not [name for name, times in ids.items() if times > 1]
    references = re.findall(r'(?:href="|url\()#([\w-]+)', rendered)
    for element in page.all():
        references += element.attributes.get("aria-labelledby", "").split()
    assert references and set(references) <= set(ids)


def test_tables_are_tables_to_a_screen_reader(rendered: str) -> None:
    for table in parse(rendered).all("table"):
        assert table.all("caption")[0].text()
        head = table.all("thead")[0].all("th")
        assert all(cell.attributes["scope"] == "col" for cell in head)
        for row in table.all("tbody")[0].all("tr"):
            cells = row.all("th") + row.all("td")
            assert len(cells) == len(head) and row.all("th")[0].attributes["scope"] == "row"


def test_every_chart_has_a_caption_and_its_numbers() -> None:
    figures = parse(page_of("full")).all("figure")
    assert len(figures) == 11
    for figure in figures:
        (chart,) = figure.all("svg")
        assert figure.all("figcaption")[0].text() == chart.all("title")[0].text()
        assert chart.attributes["role"] == "img" and chart.all("desc")[0].text()
        plain = chart.attributes["aria-labelledby"].startswith(("chart-before-after", "chart-change", "chart-memory"))
        assert bool(figure.all("table")) is not plain, "the tables of these stand beside them in plain sight"


@pytest.mark.parametrize("variant", example.VARIANTS)
def test_golden_skeleton(variant: str) -> None:
    golden.check(f"page-{variant}.txt", "\n".join(skeleton(parse(page_of(variant)))))


def skeleton(element: Element, depth: int = 0) -> list[str]:
    """The elements that carry the structure, with the text of headings, summaries and captions."""
    lines = []
    kept = {"header", "nav", "main", "section", "footer", "h1", "h2", "h3", "figure", "table", "details", "pre"}
    for child in element.children:
        if isinstance(child, str):
            continue
        if child.tag in kept:
            named = [each.text() for each in child.all() if each.tag in {"caption", "summary", "figcaption"}][:1]
            words = (
                child.text()
                if child.tag in {"h1", "h2", "h3"}
                else named[0]
                if named and child.tag != "section"
                else ""
            )
            identity = f"#{child.attributes['id']}" if child.tag == "section" else ""
            state = " open" if "open" in child.attributes else ""
            lines.append(f"{'  ' * depth}{child.tag}{identity}{state} {words if child.tag != 'main' else ''}".rstrip())
        if child.tag != "svg":
            lines += skeleton(child, depth + (child.tag in kept))
    return lines


@pytest.mark.parametrize("start", [0, 3])
def test_hostile_names_are_only_text(start: int) -> None:
    names = [f"name{index}" for index in range(len(CORPUS))]
    benign = Counter(element.tag for element in _outside_charts(html.render(filled(example.full(), *names))))
    hostile = html.render(filled(example.full(), *CORPUS[start:], *CORPUS[:start]))
    assert Counter(element.tag for element in _outside_charts(hostile)) == benign
    assert len(hostile.encode("utf-8")) < html.SIZE_LIMIT_BYTES
    # A template inside a name is never run.
    assert "{{ 7 * 7 }}" in parse(hostile).text()


def _outside_charts(page: str) -> list[Element]:
    document = parse(page)
    inside = {id(element) for chart in document.all("svg") for element in chart.all()}
    return [element for element in document.all() if id(element) not in inside]


def test_a_page_stays_small_however_much_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    audit = example.full()
    many = replace(audit, trials=audit.trials * 10, phases=audit.phases * 20, frames=audit.frames * 500)
    assert len(page_of("full").encode()) < 300_000
    assert len(html.render(many).encode()) < html.SIZE_LIMIT_BYTES
    monkeypatch.setattr(html, "SIZE_LIMIT_BYTES", 1000)
    with pytest.raises(FtprofError, match="more than the limit"):
        html.render(audit)


def test_the_same_audit_gives_the_same_page() -> None:
    assert html.render(example.full()) == page_of("full")
