"""What the documents promise is there: make targets, commands, options, exit codes, files; and docs/ is current."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import msgspec
import pytest

from ftprof.advisors.audit import Audit
from ftprof.profiler.errors import Exit
from ftprof.profiler.workload import Call

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
ENTRY = "import sys; sys.argv[0] = 'ftprof'; from ftprof.cli import main; sys.exit(main())"


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def code_spans(text: str) -> list[str]:
    """Lines of shell blocks, without comments, and what stands between backticks in prose and tables."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return [line for line in lines if line] + [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]


def spans_of(program: str) -> list[tuple[str, str]]:
    """(document, command) for each command line of `program` in the documents."""
    return [(name, span) for name in DOCUMENTS for span in code_spans(text_of(name)) if span.startswith(f"{program} ")]


@cache
def help_of(*command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "NO_COLOR": "1"}
    arguments = [sys.executable, "-c", ENTRY, *command, "--help"]
    return subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True).stdout


def options_of(*command: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", help_of(*command)))


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", text_of("Makefile"), re.MULTILINE))


def test_readme_opens_with_what_it_is_and_the_two_commands() -> None:
    commands = [span for span in code_spans(text_of("README.md")) if span.startswith(("make ", "pip ", "ftprof "))]
    assert commands[:2] == ["make demo", "make test"]
    assert commands.index("pip install .") + 1 == commands.index("ftprof diagnose model/")


def test_documents_name_only_make_targets_that_exist() -> None:
    named = {span.split()[1] for _, span in spans_of("make")}
    assert {"demo", "test", "docs"} <= named <= make_targets()


def test_make_help_lists_every_target_but_itself() -> None:
    phony = set(re.search(r"^\.PHONY: (.*)$", text_of("Makefile"), re.MULTILINE).group(1).split())  # type: ignore[union-attr]
    shown = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert phony - {"help"} == {name for name in make_targets() if re.search(rf"\b{name}\b", shown)}


@pytest.mark.parametrize(("document", "command"), spans_of("ftprof"))
def test_documented_command_exists_with_its_options(document: str, command: str) -> None:
    name, *rest = [word for word in shlex.split(command)[1:] if word != "--help"] or [""]
    if name:
        assert re.search(rf"^ +{name}\b", help_of(), re.MULTILINE), f"{document}: there is no command {name}"
    used = {word.partition("=")[0] for word in rest if word.startswith("-")}
    assert used <= options_of(*([name] if name else []))


def test_options_in_the_readme_exist() -> None:
    spans = [span for span in code_spans(text_of("README.md")) if span.startswith("--")]
    assert {"--data", "--budget", "--save", "--trust-remote-code"} <= {span.split()[0] for span in spans}
    assert {span.split()[0] for span in spans} <= options_of("diagnose")


def test_readme_exit_codes_are_those_of_the_code() -> None:
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", text_of("README.md"), re.MULTILINE)} == set(Exit)


def test_readme_call_file_is_read_and_complete() -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", text_of("README.md"), re.DOTALL)
    settings = tomllib.loads(block)
    assert msgspec.convert(settings, Call) != Call()
    assert set(settings) == set(Call.__struct_fields__)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_between_documents_lead_somewhere(name: str) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", text_of(name))
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_generated_docs_are_current() -> None:
    command = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_schema_has_the_keys_that_readers_rely_on() -> None:
    schema = json.loads(text_of("docs/audit.schema.json"))
    properties = schema["$defs"]["Audit"]["properties"]
    assert list(properties) == list(Audit.__struct_fields__)
    assert set(schema["$defs"]["Trial"]["properties"]["status"]["enum"]) == {
        "kept",
        "reverted",
        "refused",
        "failed",
        "not_tried",
    }


def test_command_line_page_has_every_command() -> None:
    sections = set(re.findall(r"^## ftprof (\S+)$", text_of("docs/cli.md"), re.MULTILINE))
    assert {"diagnose", "demo", "report", "rules", "explain", "machine"} <= sections


def test_modules_that_measure_or_judge_name_their_section_of_the_method() -> None:
    method = text_of("docs/method.md")
    headings = set(re.findall(r"^## (.+)$", method, re.MULTILINE))
    named: dict[str, set[str]] = {}
    for path in (*(ROOT / "profiler").glob("*.py"), *(ROOT / "advisors").glob("*.py")):
        for section in re.findall(r"^Method: (.+) \(docs/method\.md\)\.$", path.read_text("utf-8"), re.MULTILINE):
            named.setdefault(section, set()).add(path.name)
    assert set(named) <= headings
    assert set(named) == headings - {"What it does not say"}
    mentioned = set(re.findall(r"`(?:\w+/)?(\w+\.py)`", method))
    assert mentioned <= set().union(*named.values()), "a module that the method mentions names its section"
