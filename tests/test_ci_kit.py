"""The pull-request kit: the comment and its size, the action's YAML and its shell, and the examples in docs/ci.md."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from ftprof.profiler.errors import FtprofError
from ftprof.reports import markdown
from ftprof.reports.check_budget import parse_budget
from ftprof.reports.pull_request import CUT, LIMIT, comment, fitted, marker, split
from tests.reports import example
from tests.reports.hostile import CORPUS, filled

ROOT = Path(__file__).resolve().parents[1]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
SCRIPTS = {step["name"]: step["run"] for step in STEPS if "run" in step}
CI_PAGE = (ROOT / "docs" / "ci.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", CI_PAGE, re.DOTALL)


def test_a_comment_that_fits_is_the_report_under_its_marker() -> None:
    audit = example.full()
    assert comment(audit) == markdown.render(audit)
    text = comment(audit, ["### part one\n", ""], "my-model")
    assert text.startswith("<!-- ftprof:my-model -->\n\n### part one\n\n### ")


@pytest.mark.parametrize("key", ["a--b", "a b", "-->", "a/b", '"', "$(x)", "é", "x" * 101])
def test_a_key_cannot_break_the_marker_or_the_search(key: str) -> None:
    with pytest.raises(FtprofError):
        marker(key)


FOLD = "folded " * 40
PART = f"### Head\n\nverdict\n\n#### Table\n\n| a |\n|--:|\n| 1 |\n\n<details><summary>More</summary>\n\n{FOLD}\n\n</details>"
CODE = "#### Code\n\n```python\n# no heading\n#### neither\n<details>\n```"


def test_the_ladder_drops_folds_then_sections_then_lines() -> None:
    text = f"{PART}\n\n{CODE}\n\n#### Last\n\nthe end"
    assert fitted(text, len(text)) == text
    once = fitted(text, len(text) - 1)
    assert "folded" not in once and "the end" in once and once.endswith(CUT)
    twice = fitted(text, 190)
    assert "the end" not in twice and "verdict" in twice and "| 1 |" in twice
    least = fitted(text, 100)
    assert least.startswith("### Head") and "| 1 |" not in least and least.endswith(CUT)


def test_a_heading_in_code_is_none() -> None:
    assert [section.splitlines()[0] for section in split(f"{PART}\n\n{CODE}")] == [
        "### Head",
        "#### Table",
        "#### Code",
    ]


@pytest.mark.parametrize("limit", range(90, 400, 7))
def test_whatever_is_cut_is_still_markdown(limit: int) -> None:
    text = (
        "### Head\n\n"
        + "\n".join(["````python", *(f"line {number}" for number in range(40)), "```", "````"])
        + "\n\nend"
    )
    cut = fitted(text, limit)
    assert len(cut) <= max(limit, len(CUT) + 2)
    assert sum(line.startswith("````") for line in cut.splitlines()) % 2 == 0


@pytest.mark.parametrize("text", CORPUS)
def test_a_huge_comment_is_cut_below_githubs_limit(text: str) -> None:
    audit = filled(example.full(), text)
    huge = "\n\n".join(f"#### Part {number}\n\n{markdown.escape((text * 40)[:2000])[:3000]}" for number in range(60))
    body = comment(audit, [huge], "k")
    assert len(body) <= LIMIT < 65_536
    assert body.startswith("<!-- ftprof:k -->\n")
    assert body.count("<details>") == body.count("</details>")


def test_the_action_is_a_whole_composite_action() -> None:
    assert ACTION["name"] and ACTION["description"] and ACTION["runs"]["using"] == "composite"
    for step in STEPS:
        assert step["name"]
        assert ("run" in step) != ("uses" in step), step
        if "run" in step:
            assert step["shell"] == "bash"
        else:
            assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"])
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text()))
    assert used == set(ACTION["inputs"]), "each input is used, and each that is used is declared"
    assert all(entry["description"] for entry in ACTION["inputs"].values())
    assert all("required" in entry or "default" in entry for entry in ACTION["inputs"].values())


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_expression_is_pasted_into_a_script(name: str) -> None:
    """A branch or a file name in an expression would be run as code; the environment carries it as data."""
    assert "${{" not in SCRIPTS[name]
    step = next(step for step in STEPS if step["name"] == name)
    names = set(re.findall(r"\$\{?([A-Z][A-Z_]+)", SCRIPTS[name]))
    given = {*step["env"], "GITHUB_ACTION_PATH", "GITHUB_REPOSITORY", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"}
    assert names - set(re.findall(r"\b([A-Z_]+)=", SCRIPTS[name])) <= given


def _bash_scripts() -> list[str]:
    found = [*SCRIPTS.values()]
    for text in EXAMPLES:
        document = yaml.safe_load(text)
        jobs = document.get("jobs", {}).values()
        found += [step["run"] for job in jobs for step in job.get("steps", []) if "run" in step]
        found += ["\n".join(job["script"]) for job in document.values() if isinstance(job, dict) and "script" in job]
    return found


@pytest.mark.parametrize("script", _bash_scripts())
def test_shell_is_well_formed(script: str) -> None:
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_examples_are_whole_workflows() -> None:
    assert len(EXAMPLES) == 3
    github = [yaml.safe_load(text) for text in EXAMPLES[:2]]
    for document in github:
        # YAML 1.1 reads the key `on` as true.
        assert {"name", "permissions", "jobs"} <= set(document) and (True in document or "on" in document)
        for job in document["jobs"].values():
            assert job["runs-on"] and job["steps"]
    uses = [step for step in github[0]["jobs"]["measure"]["steps"] if step.get("uses", "").startswith("OWNER/ftprof")]
    assert set(uses[0]["with"]) <= set(ACTION["inputs"])
    assert {name for name, entry in ACTION["inputs"].items() if entry.get("required")} <= set(uses[0]["with"])


def test_the_budget_on_the_page_is_one() -> None:
    text = re.findall(r"```toml\n(.*?)```", CI_PAGE, re.DOTALL)[0]
    found = parse_budget(tomllib.loads(text), "docs/ci.md")
    unset = [name for name in found.__struct_fields__ if getattr(found, name) in (None, ())]
    assert unset == ["deployment"], "every table is shown"


STUB = """#!/usr/bin/env bash
printf '%s' "${0##*/}" >> "$LOG"; printf '|%s' "$@" >> "$LOG"; echo >> "$LOG"
"""
FTPROF = """
case "$1" in
  compare) echo "compared"; exit "${COMPARE_CODE:-0}" ;;
  check) echo "checked"; exit "${CHECK_CODE:-0}" ;;
  comment) echo "<!-- ftprof -->"; echo "body" ;;
  diagnose) for last; do :; done; mkdir -p "$last" ;;
esac
"""
GH = """
if [[ "$*" == *--jq* ]]; then printf '%s' "${FOUND:-}"; fi
"""


@pytest.fixture
def stubs(tmp_path: Path) -> Path:
    """ftprof, gh and python that only note how they were called."""
    for name, body in (("ftprof", FTPROF), ("gh", GH), ("python", "")):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(STUB + body)
        path.chmod(0o755)
    (tmp_path / "out dir").mkdir()
    return tmp_path


def run(name: str, stubs: Path, **environment: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """One step of the action in `stubs`, as GitHub runs it; what it printed, and the calls that it made."""
    step = next(step for step in STEPS if step["name"] == name)
    log = stubs / "calls"
    log.write_text("")
    plain = dict.fromkeys(step["env"], "")
    files = {"GITHUB_OUTPUT": str(stubs / "outputs"), "GITHUB_STEP_SUMMARY": str(stubs / "summary")}
    path = f"{stubs / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=stubs,
        env={
            **plain,
            **files,
            "PATH": path,
            "LOG": str(log),
            "OUT": "out dir",
            "GITHUB_REPOSITORY": "o/r",
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return done, log.read_text().splitlines()


def test_install(stubs: Path) -> None:
    pip = "python|-m|pip|install|--disable-pip-version-check|--quiet"
    assert run("Install ftprof", stubs, GITHUB_ACTION_PATH="/a b")[1] == [f"{pip}|/a b"]
    assert run("Install ftprof", stubs, GITHUB_ACTION_PATH="/a", INSTALL="ftprof==1")[1] == [f"{pip}|ftprof==1"]


def test_measure_passes_every_word_on_as_it_is(stubs: Path) -> None:
    done, calls = run(
        "Measure",
        stubs,
        MODEL="a; rm -rf $HOME",
        BASELINE_MODEL="old",
        BASE="b c",
        DATA="d",
        TIME="60s",
        ARGUMENTS="-v --seed 1",
    )
    assert done.returncode == 0, done.stderr
    common = "--budget|60s|--quiet|--base|b c|--data|d"
    assert calls == [
        f"ftprof|diagnose|old|{common}|--no-fix|--out|out dir/baseline",
        f"ftprof|diagnose|a; rm -rf $HOME|{common}|-v|--seed|1|--force|--out|out dir",
    ]
    assert run("Measure", stubs, MODEL="m", TIME="9s")[1] == [
        "ftprof|diagnose|m|--budget|9s|--quiet|--force|--out|out dir"
    ]


def outputs(stubs: Path) -> dict[str, str]:
    lines = (stubs / "outputs").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)  # as on GitHub, the last one holds


def test_judge_compares_checks_comments_and_hands_the_codes_on(stubs: Path) -> None:
    (stubs / "base.json").touch()
    done, calls = run(
        "Judge", stubs, BASELINE="base.json", BUDGET="b.toml", PRESET="pull-request", COMPARE_CODE="1", CHECK_CODE="3"
    )
    assert done.returncode == 0, done.stderr
    assert calls == [
        "ftprof|compare|base.json|out dir|--markdown",
        "ftprof|check|out dir|--markdown|--junit|out dir/junit.xml|--budget|b.toml|--preset|pull-request|--base|base.json",
        "ftprof|comment|out dir|--key||--part|out dir/compare.md|--part|out dir/check.md",
    ]
    assert outputs(stubs) == {"compare": "1", "check": "3"}
    assert (stubs / "summary").read_text() == "<!-- ftprof -->\nbody\n"
    assert (stubs / "out dir" / "compare.md").read_text() == "compared\n"


def test_judge_with_nothing_asked(stubs: Path) -> None:
    done, calls = run("Judge", stubs)
    assert (done.returncode, calls) == (0, ["ftprof|comment|out dir|--key|"]), done.stderr
    assert outputs(stubs) == {"compare": "", "check": ""}


def test_judge_takes_the_baseline_of_the_same_job_and_names_a_missing_one(stubs: Path) -> None:
    (stubs / "out dir" / "baseline").mkdir()
    assert run("Judge", stubs)[1][0] == "ftprof|compare|out dir/baseline|out dir|--markdown"
    done, calls = run("Judge", stubs, BASELINE="nowhere.json")
    assert (done.returncode, len(calls)) == (0, 1)
    assert "no baseline" in done.stdout and outputs(stubs)["compare"] == "5"


def test_the_comment_is_edited_where_there_is_one(stubs: Path) -> None:
    (stubs / "out dir" / "comment.md").write_text("<!-- ftprof:k -->\nbody\n")
    done, calls = run("Comment on the pull request", stubs, NUMBER="7", GH_TOKEN="x", FOUND="11\n12\n")
    assert done.returncode == 0, done.stderr
    assert '.user.type == "Bot"' in calls[0] and 'startswith("<!-- ftprof:k -->")' in calls[0]
    assert calls[1] == "gh|api|--silent|--method|PATCH|repos/o/r/issues/comments/11|-F|body=@out dir/comment.md"
    _, calls = run("Comment on the pull request", stubs, NUMBER="7", GH_TOKEN="x")
    assert calls[1] == "gh|api|--silent|--method|POST|repos/o/r/issues/7/comments|-F|body=@out dir/comment.md"


@pytest.mark.parametrize(
    ("compare", "check", "strict", "code", "word"),
    [
        ("", "", "false", 0, ""),
        ("0", "0", "true", 0, ""),
        ("1", "0", "false", 1, "error"),
        ("0", "1", "false", 1, "error"),
        ("3", "0", "false", 0, "warning"),
        ("3", "0", "true", 1, "warning"),
        ("5", "", "false", 0, "warning"),
        ("0", "2", "false", 1, "exit code 2"),
        ("0", "70", "false", 1, "exit code 70"),
    ],
)
def test_the_verdict(stubs: Path, compare: str, check: str, strict: str, code: int, word: str) -> None:
    done, _ = run("Verdict", stubs, COMPARE=compare, CHECK=check, STRICT=strict)
    assert done.returncode == code, done.stderr
    assert (word in done.stdout) if word else not done.stdout
