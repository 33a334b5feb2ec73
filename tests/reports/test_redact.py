from __future__ import annotations

import io
import subprocess
import sys

import msgspec
import pytest
from rich.console import Console

from ftprof.advisors.audit import AdviceEntry, Audit
from ftprof.reports import html, markdown, terminal
from ftprof.reports.document import serialised
from ftprof.reports.redact import expanded, redacted
from tests.reports import example
from tests.reports.hostile import filled

HOME, USER, HOST = "/home/rosalind", "rosalind", "gpubox7.lab.example"
PROMPT = "Dear support, my card 4000 1234 was charged twice for order 991"
# Assembled here, so that no scanner takes this file for a leak.
SECRETS = {
    "hub": "hf_" + "AbCdEfGhIjKlMnOpQrStUvWx",
    "openai": "sk-" + "proj-abcdefghijklmnop1234",
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "aws-secret": "aws_secret_access_key=" + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "github": "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789",
    "github-fine": "github_pat_" + "11ABCDEFG0abcdefghijkl_mnop",
    "jwt": "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0" + ".c2lnbmF0dXJl",
    "url": "https://rosalind:" + "hunter2secret@example.org/x",
    "flag": "--token " + "abcdef123456",
    "variable": "WANDB_API_KEY=" + "0123456789abcdef0123456789abcdef01234567",
    "mail": "rosalind.f@lab.example",
}
LEAKS = (
    *(f"planted {secret} here" for secret in SECRETS.values()),
    f"{HOME}/models/tickets",
    "/home/colleague/models/other",
    "C:\\Users\\rosalind\\models",
    f"user {USER} on {HOST}",
    "ROSALIND@gpubox7",
    "rosalind_run_3 on gpubox7",
    f"the tokenizer failed on '{PROMPT}'",
    f"the tokenizer failed on '{PROMPT[:30]}...'",
)
FORBIDDEN = (
    *("AbCdEfGhIj", "proj-abcdefgh", "IOSFODNN7", "wJalrXUtn", "ghp_abcdef", "11ABCDEFG0", "eyJzdWIi", "hunter2"),
    *("abcdef123456", "0123456789abcdef", "@lab.example", "rosalind", "colleague", "gpubox7", "lab.example"),
    *("Dear support", "4000 1234"),
)


def clean(audit: Audit, **options: bool) -> Audit:
    return redacted(audit, home=HOME, user=USER, host=HOST, prompts=(PROMPT, "Hi"), **options)


def texts(audit: Audit) -> dict[str, str]:
    """The forms that are drawn quickly; a terminal so wide that it wraps nothing."""
    buffer = io.StringIO()
    terminal.render(audit, Console(file=buffer, width=4000, highlight=False))
    return {
        "json": serialised(audit).decode(),
        "md": markdown.render(audit).replace("\u2060", "").replace("\\", ""),
        "terminal": buffer.getvalue(),
    }


@pytest.fixture(scope="module")
def planted() -> Audit:
    """A finished audit with a leak in place of every string that comes from outside."""
    return filled(example.full(), *LEAKS)


def test_the_plants_reach_every_output(planted: Audit) -> None:
    """Without this, the next test could pass for want of anything to find."""
    for form, text in texts(planted).items():
        found = [word for word in FORBIDDEN if word.lower() in text.lower()]
        assert len(found) > len(FORBIDDEN) / 2, form


def test_no_output_has_a_leak(planted: Audit) -> None:
    audit = clean(planted)
    for form, text in {**texts(audit), "html": html.render(audit)}.items():
        for word in FORBIDDEN:
            assert word.lower() not in text.lower(), f"{word} is in {form}"


@pytest.mark.parametrize("leak", LEAKS)
def test_each_kind_alone(leak: str) -> None:
    text = serialised(clean(filled(example.full(), leak))).decode().lower()
    assert not [word for word in FORBIDDEN if word.lower() in text]


@pytest.mark.parametrize("variant", example.VARIANTS)
def test_an_audit_without_secrets_stays_as_it_is(variant: str) -> None:
    audit = example.VARIANTS[variant]()
    assert clean(audit) == audit


def test_twice_is_once(planted: Audit) -> None:
    once = clean(planted)
    assert clean(once) == once
    assert msgspec.json.decode(msgspec.json.encode(once), type=Audit) == once


def test_prompts_stay_where_they_are_asked_for() -> None:
    audit = msgspec.structs.replace(example.full(), warnings=(f"cut: {PROMPT}",))
    assert PROMPT not in clean(audit).warnings[0]
    assert PROMPT in clean(audit, include_prompts=True).warnings[0]


@pytest.mark.parametrize("user", ["single", "decode", "root", "runner", "e2e", "model", "torch", "u"])
def test_a_name_that_is_a_word_of_the_report_changes_no_figure(user: str) -> None:
    audit = example.full()
    assert redacted(audit, home="/srv/x", user=user, host="localhost") == audit


def test_a_short_name_leaves_code_alone() -> None:
    audit = msgspec.structs.replace(example.full(), command="ftprof diagnose /data/max/m --x padding=max_length")
    found = redacted(audit, home="/srv/x", user="max", host="h")
    assert found.command == "ftprof diagnose /data/<user>/m --x padding=max_length"


def test_a_home_that_is_only_a_prefix_is_another_home() -> None:
    audit = msgspec.structs.replace(example.full(), command="ftprof diagnose /home/rosalind2/m /home/rosalind/n")
    assert clean(audit).command == "ftprof diagnose /home/<user>/m ~/n"


def test_the_command_still_works_in_a_shell() -> None:
    audit = msgspec.structs.replace(example.full(), command=f"ftprof diagnose '{HOME}/my model' --data {HOME}/x.jsonl")
    command = clean(audit).command
    assert command == "ftprof diagnose ~/'my model' --data ~/x.jsonl"
    shown = subprocess.run(
        ["bash", "-c", f"printf '%s|' {command}"], env={"HOME": HOME}, capture_output=True, text=True, check=True
    )
    assert shown.stdout.split("|")[2:5] == [f"{HOME}/my model", "--data", f"{HOME}/x.jsonl"]


def test_the_load_lines_still_open_the_users_files() -> None:
    lines = f"from json import dumps\nmodel = dumps('{HOME}/out/faster')\nprint(model)"
    audit = example.full()
    assert audit.final is not None and audit.final.artefact is not None
    artefact = msgspec.structs.replace(audit.final.artefact, load=lines)
    final = msgspec.structs.replace(audit.final, artefact=artefact, load_lines=lines)
    entry: AdviceEntry = msgspec.structs.replace(audit.advice[0], steps=lines)
    found = clean(msgspec.structs.replace(audit, final=final, advice=(entry,)))
    assert found.final is not None and found.final.artefact is not None
    for source in (found.final.load_lines, found.final.artefact.load, found.advice[0].steps):
        assert HOME not in source
        done = subprocess.run(
            [sys.executable, "-c", source], env={"HOME": HOME}, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == f'"{HOME}/out/faster"'


def test_expanding_twice_is_expanding_once() -> None:
    once = expanded("x('~/a')\ny(\"~/b\")")
    assert once == "import os\nx(os.path.expanduser('~/a'))\ny(os.path.expanduser(\"~/b\"))"
    assert expanded(once) == once
