"""JUnit XML, as the test reports of GitLab, Jenkins and others read it."""

from __future__ import annotations

from xml.etree import ElementTree

from ftprof.reports.check_document import FAILURES, Checked, Judged
from ftprof.reports.clean import visible


def junit(checked: Checked) -> bytes:
    """One test case for each demand: a failure where it is broken or not measured, skipped where it is undecided."""
    failures = sum(one.outcome in FAILURES for one in checked.demands)
    skipped = sum(one.outcome in ("uncertain", "ignored") for one in checked.demands)
    counts = {"tests": str(len(checked.demands)), "failures": str(failures), "errors": "0", "skipped": str(skipped)}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": "ftprof check", **counts})
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (("model", checked.model), ("subject", checked.subject), ("headline", checked.headline)):
        ElementTree.SubElement(properties, "property", {"name": name, "value": _text(value)})
    for one in checked.demands:
        _case(suite, one)
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _case(suite: ElementTree.Element, one: Judged) -> None:
    table, _, key = one.name.rpartition(".")
    names = {"classname": _text(f"ftprof.{table}" if table else "ftprof"), "name": _text(key), "time": "0"}
    case = ElementTree.SubElement(suite, "testcase", names)
    message = _text(f"{one.outcome}: demanded {one.limit}, found {one.found}" + (f"; {one.why}" if one.why else ""))
    if one.outcome in FAILURES:
        ElementTree.SubElement(case, "failure", {"type": one.outcome, "message": message}).text = message
    elif one.outcome != "met":
        ElementTree.SubElement(case, "skipped", {"message": message})
    else:
        ElementTree.SubElement(case, "system-out").text = message


def _text(text: str) -> str:
    """Characters that XML forbids, as escapes."""
    return visible(text)
