"""The gate commands as they are typed: exit codes, one document on standard output, and nothing slow loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
from typer.testing import CliRunner, Result

from ftprof import gate_cli
from ftprof.advisors.audit import Audit
from ftprof.profiler.errors import FtprofError
from ftprof.reports.write import write_audit
from tests.reports import example
from tests.reports.test_compare import quiet

app = typer.Typer()
for command in (gate_cli.compare, gate_cli.check, gate_cli.doctor, gate_cli.comment):
    app.command()(command)


def ftprof(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "80"})


@pytest.fixture
def audits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directories `base`, `slow`, `noisy`, `other` with audits; the current directory."""
    found: dict[str, Audit] = {
        "base": quiet(1.5),
        "slow": quiet(1.8),
        "noisy": quiet(1.8, control=0.3),
        "other": example.encoder(),
    }
    for name, audit in found.items():
        write_audit(audit, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("head", "code"), [("base", 0), ("slow", 1), ("noisy", 3), ("other", 5)])
def test_compare_ends_with_its_verdict(audits: Path, head: str, code: int) -> None:
    for form in ((), ("--json",), ("--markdown",)):
        done = ftprof("compare", "base", f"{head}/audit.json", *form)
        assert done.exit_code == code, done.output
    assert json.loads(ftprof("compare", "base", head, "--json").stdout)["exit_code"] == code


def test_compare_with_a_smaller_effect(audits: Path) -> None:
    write_audit(quiet(1.55), audits / "near")
    assert ftprof("compare", "base", "near").exit_code == 0
    assert ftprof("compare", "base", "near", "--min-effect", "2 %").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (("compare", "base", "nowhere"), "no such file", 2),
        (("compare", "base", "base", "--allow", "torhc"), "--allow 'torhc'", 2),
        (("compare", "base", "base", "--min-effect", "5"), "'5' is not a number with a unit", 2),
        (("compare", "base", "base", "--json", "--markdown"), "exclude each other", 2),
        (("check", "base"), "no budget", 5),
        (("check", "base", "--budget", "none.toml"), "cannot read none.toml", 2),
        (("check", "base", "--preset", "pull-requst"), "--preset 'pull-requst'", 2),
        (("check", "base", "--preset", "pull-request", "--junit", "base/audit.json/x"), "cannot write", 2),
        (("comment", "base", "--key", "a b"), "--key 'a b'", 2),
        (("comment", "base", "--part", "none.md"), "cannot read none.md", 2),
        (("doctor", "--budget", "0s"), "out of range", 2),
        (("doctor", "--budget", "soon"), "'soon' is not a number with a unit", 2),
    ],
)
def test_mistakes_are_told_in_one_line(audits: Path, arguments: tuple[str, ...], message: str, code: int) -> None:
    error = ftprof(*arguments).exception
    assert isinstance(error, FtprofError), error
    assert message in error.message and error.hint
    assert "\n" not in error.message and error.exit_code == code


def test_check_reads_its_budget_from_the_project_and_writes_junit(audits: Path) -> None:
    (audits / "pyproject.toml").write_text('[tool.ftprof.check.latency.single]\ne2e = { p50 = "1.6 s" }\n')
    assert ftprof("check", "base").exit_code == 0
    done = ftprof("check", "slow", "--junit", "reports/junit.xml", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["passed"] is False
    assert ElementTree.parse(audits / "reports" / "junit.xml").getroot().get("failures") == "1"
    (audits / "strict.toml").write_text('[latency.single]\ne2e = { p50 = "1.5 s" }\n')
    assert ftprof("check", "base", "--budget", "strict.toml", "--markdown").exit_code == 3


def test_check_against_a_base(audits: Path) -> None:
    (audits / "change.toml").write_text('[change]\ne2e = "10 %"\n')
    assert ftprof("check", "base", "--budget", "change.toml", "--base", "base").exit_code == 0
    assert ftprof("check", "slow", "--budget", "change.toml", "--base", "base").exit_code == 1


def test_comment_begins_with_its_marker(audits: Path) -> None:
    (audits / "part.md").write_text("### compared\n")
    done = ftprof("comment", "base", "--key", "k", "--part", "part.md")
    assert done.exit_code == 0
    assert done.stdout.startswith("<!-- ftprof:k -->\n\n### compared\n")


SLOW = ("torch", "transformers", "peft", "onnxruntime", "matplotlib", "scipy")
RUN = """
import sys, typer
from pathlib import Path
from ftprof import gate_cli
base = Path(sys.argv[1])
for run in (
    lambda: gate_cli.compare(base, base),
    lambda: gate_cli.check(base, preset="pull-request"),
    lambda: gate_cli.comment(base),
):
    try:
        run()
    except typer.Exit:
        pass
print(sorted(set(sys.argv[2:]) & set(sys.modules)), file=sys.stderr)
"""


def test_nothing_slow_is_loaded(audits: Path) -> None:
    command = [sys.executable, "-c", RUN, str(audits / "base"), *SLOW]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
