"""The command that is offered after a run does what it says it is for."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from ftprof.advisors.audit import Audit
from ftprof.cli import app
from ftprof.reports.next_step import again, next_step
from tests.reports.example import bare, full, settings

FOLDER = Path("out/run 1")
COMMAND = "ftprof diagnose model/ --data rows.jsonl --budget=300s --out old --force"


def unsaved() -> Audit:
    audit = full()
    assert audit.final is not None
    return replace(audit, final=replace(audit.final, artefact=None))


def unchanged() -> Audit:
    return replace(full(), final=None)


@pytest.mark.parametrize(
    ("audit", "why", "words"),
    [
        (full(), "Before it is deployed", ["check", "out/run 1/audit.json", "--preset", "pre-deployment"]),
        (
            unsaved(),
            "Save the faster model",
            ["diagnose", "model/", "--data", "rows.jsonl", "--budget=300s", "--out", "out/run 1", "--resume", "--save", "faster"],
        ),
        (
            unchanged(),
            "Give the fixes that were not tried more time",
            ["diagnose", "model/", "--data", "rows.jsonl", "--out", "out/run 1", "--resume", "--budget", "900s"],
        ),
        (
            bare(),
            "Go on where it stopped",
            ["diagnose", "model/", "--data", "rows.jsonl", "--budget=300s", "--out", "out/run 1", "--resume"],
        ),
        (replace(bare(), settings=settings(fixes=False)), "Explain a rule", ["explain", "unmerged-adapter"]),
    ],
)  # fmt: skip
def test_each_end_has_its_next_step(audit: Audit, why: str, words: list[str]) -> None:
    step = next_step(audit, FOLDER, COMMAND)
    assert step.why == why
    assert shlex.split(step.command) == ["ftprof", *words]


def test_the_demo_starts_again_with_what_is_new() -> None:
    assert again("ftprof demo --sample minilm-tickets", FOLDER, "--save", "faster") == (
        "ftprof demo --sample minilm-tickets --save faster"
    )


@pytest.mark.parametrize("audit", [full(), unsaved(), unchanged(), bare()])
def test_the_command_line_knows_every_option_that_is_offered(audit: Audit) -> None:
    """`--help` beside them parses the options first."""
    words = shlex.split(next_step(audit, FOLDER, COMMAND).command)[1:]
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    text = CliRunner().invoke(app, [words[0], "--help"], env={"COLUMNS": "200"}).output
    assert [option for option in options if option not in text] == []
