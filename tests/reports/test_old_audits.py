"""Every version of the document that was ever written still loads, renders, compares and can be judged."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from ftprof.advisors.audit import SCHEMA_VERSION
from ftprof.reports.check import check
from ftprof.reports.check_budget import Budget
from ftprof.reports.check_presets import with_preset
from ftprof.reports.compare import compare
from ftprof.reports.output import rendered
from ftprof.reports.write import load_audit

AUDITS = sorted((Path(__file__).resolve().parents[1] / "data" / "audits").glob("*.json"))


def test_there_is_one_of_every_version() -> None:
    versions = {json.loads(path.read_text())["schema_version"] for path in AUDITS}
    assert versions == set(range(1, SCHEMA_VERSION + 1))


@pytest.mark.parametrize("path", AUDITS, ids=lambda path: path.stem)
@pytest.mark.parametrize("form", ["text", "md", "json", "html"])
def test_it_renders(path: Path, form: str) -> None:
    audit = load_audit(path)
    text = rendered(audit, form)
    assert audit.model.name in text
    assert "decode" in text.lower()


@pytest.mark.parametrize("path", AUDITS, ids=lambda path: path.stem)
def test_it_compares_with_itself_and_is_judged(path: Path) -> None:
    audit = load_audit(path)
    found = compare(audit, audit)
    assert found.outcome != "regression"
    assert not found.differences
    judged = check(audit, with_preset(Budget(), "pull-request"), today=datetime.date(2026, 12, 1))
    assert [one.name for one in judged.demands][:1] == ["complete"]
