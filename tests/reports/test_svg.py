from __future__ import annotations

import re
from functools import cache
from xml.etree import ElementTree

import pytest

from ftprof.reports.chart import Chart
from ftprof.reports.charts import charts
from ftprof.reports.clean import cleaned
from ftprof.reports.palette import CLASSES
from ftprof.reports.svg import embed
from tests.reports import example
from tests.reports.hostile import CORPUS, filled

RAW = """<?xml version="1.0"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9pt" viewBox="0 0 9 9">
 <metadata>who</metadata><defs><style>*{stroke-linejoin: round}</style><path id="p1" d="M 0.123456 1"/></defs>
 <g id="axes_1" style="clip-path: url(#c1); fill: #010203; stroke: #3c9adb">
  <use xlink:href="#p1" x="1.5"/><text style="font: 700 9.5px 'A', sans-serif; text-anchor: middle">a &lt; b</text>
 </g></svg>"""


def test_everything_that_a_page_cannot_bear_is_gone() -> None:
    svg = embed(RAW, "x", "Title & <more>", "Words", CLASSES)
    root = ElementTree.fromstring(svg)
    assert not re.search(r"<\?xml|DOCTYPE|metadata|<style|style=|xlink|w3\.org/1999", svg)
    assert [child.text for child in root][:2] == ["Title & <more>", "Words"]
    assert root.attrib["aria-labelledby"] == "x-title x-desc" and root.attrib["role"] == "img"
    assert 'id="x-axes_1"' in svg and 'clip-path="url(#x-c1)"' in svg and 'href="#x-p1"' in svg
    assert 'fill="currentColor"' in svg and 'stroke="#3c9adb"' in svg and 'class="stroke-compute"' in svg
    assert 'font-size="9.5"' in svg and 'font-weight="700"' in svg and 'd="M 0.12 1"' in svg


@pytest.mark.parametrize(
    "bad",
    [
        '<script xmlns="http://www.w3.org/2000/svg">x</script>',
        '<image xmlns="http://www.w3.org/2000/svg"/>',
        '<rect xmlns="http://www.w3.org/2000/svg" onclick="x"/>',
        '<use xmlns="http://www.w3.org/2000/svg" href="http://x.example/#a"/>',
    ],
)
def test_what_is_not_on_the_list_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match=r"not allowed|leaves the chart"):
        embed(f'<svg xmlns="http://www.w3.org/2000/svg">{bad}</svg>', "x", "", "", {})


@cache
def full_charts() -> dict[str, Chart]:
    return charts(example.full())


def test_charts_have_findings_and_numbers() -> None:
    made = full_charts()
    assert list(made) == [
        *("request", "causes", "evidence", "roofline", "limits", "before-after", "change", "fixes", "lora", "memory"),
        "outputs",
    ]
    for chart in made.values():
        assert re.search(r"\d", chart.title), "a title is a finding"
        assert chart.table.rows and chart.description
    assert made["causes"].title == "Decode per token (batch of 1): 61% of the time is memory"
    assert charts(example.bare()) == {}


def test_the_same_audit_gives_the_same_bytes() -> None:
    assert charts(example.full()) == full_charts()


def test_hostile_names_cannot_break_a_chart() -> None:
    made = charts(cleaned(filled(example.full(), *CORPUS)))
    benign = full_charts()
    assert {name: _tags(chart.svg) for name, chart in made.items()} == {
        name: _tags(chart.svg) for name, chart in benign.items()
    }


def _tags(svg: str) -> set[str]:
    assert "style=" not in re.sub(r">[^<]*<", "><", svg)
    return {element.tag for element in ElementTree.fromstring(svg).iter()}
