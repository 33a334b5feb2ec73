from __future__ import annotations

from xml.etree import ElementTree

import pytest

from ftprof.reports.check import check
from ftprof.reports.junit import junit
from tests.reports import example
from tests.reports.hostile import CORPUS, filled
from tests.reports.test_check import TODAY, budget, judged

TEXT = """
[latency.single]
e2e = { p50 = "1.5 s", p99 = "9 s" }
ttft = { p50 = "187 ms" }
[trust]
grade = "B"
"""


def test_one_case_for_each_demand() -> None:
    root = ElementTree.fromstring(junit(judged(TEXT)))
    cases = {f"{case.get('classname')}.{case.get('name')}": case for case in root.iter("testcase")}
    assert set(cases) == {
        "ftprof.complete",
        "ftprof.latency.single.e2e.p50",
        "ftprof.latency.single.e2e.p99",
        "ftprof.latency.single.ttft.p50",
        "ftprof.trust.grade",
    }
    failed = {name for name, case in cases.items() if case.find("failure") is not None}
    skipped = {name for name, case in cases.items() if case.find("skipped") is not None}
    assert failed == {"ftprof.latency.single.e2e.p50", "ftprof.latency.single.e2e.p99"}
    assert skipped == {"ftprof.latency.single.ttft.p50"}
    for element in (root, root[0]):
        assert [element.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["5", "2", "0", "1"]


def test_a_failure_says_what_was_demanded_and_found() -> None:
    root = ElementTree.fromstring(junit(judged(TEXT)))
    message = next(root.iter("failure")).get("message") or ""
    assert "at most 1.5 s" in message and "1.56 s" in message


@pytest.mark.parametrize("text", CORPUS)
def test_hostile_names_give_well_formed_xml(text: str) -> None:
    found = check(filled(example.full(), text), budget('[trust]\ngrade = "A"\n[findings]\nmost = 0'), today=TODAY)
    root = ElementTree.fromstring(junit(found))
    assert len(list(root.iter("testcase"))) == len(found.demands)
