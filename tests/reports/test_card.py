"""The card beside a saved model says what was measured, and nothing where nothing was saved."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from ftprof.reports import card
from ftprof.reports.markdown import escape
from ftprof.reports.write import write_card
from tests.reports.example import damaged, full


def test_the_card_has_the_figures_the_proof_and_the_lines() -> None:
    document = full()
    text = card.render(document)
    assert text is not None and document.final is not None and document.final.artefact is not None
    assert document.final.artefact.sha256 in text
    assert document.final.artefact.load.strip() in text
    assert escape(document.environment.packages["torch"]) in text
    assert "x" in text.split("## What was measured")[1]
    assert text.count("\n## ") == 4


def test_a_copy_that_does_not_reload_gets_no_card() -> None:
    assert card.render(damaged()) is None


def test_the_card_lies_in_the_saved_directory(tmp_path: Path) -> None:
    document = full()
    assert document.final is not None and document.final.artefact is not None
    saved = replace(document.final.artefact, path=str(tmp_path))
    write_card(replace(document, final=replace(document.final, artefact=saved)))
    assert (tmp_path / "README.md").read_text("utf-8").startswith("# ")
