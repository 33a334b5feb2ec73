from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ftprof.reports import clean
from tests.reports.example import full
from tests.reports.hostile import CORPUS, filled


@given(st.text(st.characters()))
def test_nothing_invisible_remains(text: str) -> None:
    shown = clean.visible(text)
    assert not {unicodedata.category(char) for char in shown.replace("\n", "")} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    shown.encode("utf-8")


@given(st.text())
def test_cleaning_twice_changes_nothing(text: str) -> None:
    assert clean.visible(clean.visible(text)) == clean.visible(text)


def test_a_name_is_one_short_line() -> None:
    shown = clean.name("start\n" + "x" * 500 + "end")
    assert len(shown) == clean.NAME_LIMIT
    assert shown.startswith("start\\n") and shown.endswith("end")


def test_ordinary_names_stay() -> None:
    for name in ("model.layers.0.self_attn.q_proj", "模型 é 🤗", "a b", "C:\\models\\x"):
        assert clean.name(name) == name


@pytest.mark.parametrize("text", CORPUS)
def test_a_whole_audit_is_cleaned_and_stays_valid(text: str) -> None:
    audit = filled(full(), text)
    assert clean.cleaned(audit).model.name == clean.visible(text)
    assert clean.cleaned(full()) == full()
