"""Writes the pages of docs/ that come from the code; `--check` only says which of them are not current.

python docs/generate.py [--check]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from ftprof.advisors.audit import Audit
from ftprof.advisors.rule import Rule
from ftprof.advisors.rules import load_rules
from ftprof.advisors.trace_rule import TraceRule
from ftprof.advisors.trace_rules import load_trace_rules

DOCS = Path(__file__).resolve().parent
# The dialect that msgspec writes.
DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Runs the command line in a fresh process under its own name, whether or not it is installed as a script.
ENTRY = "import sys; sys.argv[0] = 'ftprof'; from ftprof.cli import main; sys.exit(main())"
HELP_COLUMNS = 100
SAFETY_MEANS = {
    "exact": "the model computes the same thing",
    "rounding": "the same mathematics with other rounding",
    "int8": "weights in 8 bits",
    "int4": "weights in 4 bits",
}


def audit_schema() -> str:
    """The JSON Schema of `audit.json`, from the types."""
    schema = {"$schema": DIALECT, **msgspec.json.schema(Audit)}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def rule_page(rule: Rule) -> str:
    """The page of one rule: its docstring under its name, with what a reader asks first in a table."""
    facts = {
        "Remedy": rule.title,
        "Safety class": f"`{rule.safety}`: {SAFETY_MEANS[rule.safety]}",
        "Tasks": ", ".join(sorted(rule.tasks)),
        "Needs": ", ".join(rule.needs) or "nothing beyond the directory",
        "Applied by ftprof": "yes" if rule.fixes() else "no, advice only",
        "Requires": ", ".join(rule.requires),
        "Conflicts with": ", ".join(rule.conflicts),
    }
    rows = [f"| {name} | {value} |" for name, value in facts.items() if value]
    return "\n".join([f"# {rule.name}", "", "| | |", "|---|---|", *rows, "", rule.page.strip(), ""])


def trace_rule_page(rule: TraceRule) -> str:
    """The page of a rule on traces: its docstring under its name."""
    facts = "| | |\n|---|---|\n| Remedy | {} |\n| Looks at | traces: `ftprof trace FILE` |\n| Applied by ftprof | no, advice only |"
    return "\n".join([f"# {rule.name} (in traces)", "", facts.format(rule.title), "", rule.page.strip(), ""])


def trace_rule_index(rules: Iterable[TraceRule]) -> str:
    """The list of all rules on traces."""
    rows = [f"| [{rule.name}]({rule.name}.md) | {rule.title} |" for rule in rules]
    return "\n".join(["# Rules on traces", "", "| rule | remedy |", "|---|---|", *rows, ""])


def rule_index(rules: Iterable[Rule]) -> str:
    """The list of all rules."""
    rows = [f"| [{rule.name}]({rule.name}.md) | {rule.title} | `{rule.safety}` |" for rule in rules]
    return "\n".join(["# Rules", "", "| rule | remedy | safety class |", "|---|---|---|", *rows, ""])


def help_text(*command: str) -> str:
    """What `ftprof COMMAND --help` prints, at a fixed width and without colour."""
    environment = {**os.environ, "COLUMNS": str(HELP_COLUMNS), "TERMINAL_WIDTH": str(HELP_COLUMNS), "NO_COLOR": "1"}
    arguments = [sys.executable, "-c", ENTRY, *command, "--help"]
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, check=True)
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


def commands(root_help: str) -> list[str]:
    """The subcommands, in the order in which `ftprof --help` lists them."""
    listed = root_help.partition("Commands:\n")[2].splitlines()
    return [line.split()[0] for line in listed if line.startswith("  ") and not line.startswith("   ")]


def cli_page() -> str:
    """The help of every command."""
    root = help_text()
    parts = ["# Command line", "", "```text", root, "```"]
    for name in commands(root):
        parts += ["", f"## ftprof {name}", "", "```text", help_text(name), "```"]
    return "\n".join([*parts, ""])


def pages() -> dict[Path, str]:
    """Every generated page, by its path."""
    rules = sorted(load_rules(), key=lambda rule: rule.name)
    return {
        DOCS / "audit.schema.json": audit_schema(),
        DOCS / "cli.md": cli_page(),
        DOCS / "rules" / "README.md": rule_index(rules),
        **{DOCS / "rules" / f"{rule.name}.md": rule_page(rule) for rule in rules},
        DOCS / "trace_rules" / "README.md": trace_rule_index(load_trace_rules()),
        **{DOCS / "trace_rules" / f"{rule.name}.md": trace_rule_page(rule) for rule in load_trace_rules()},
    }


def orphans(wanted: Iterable[Path]) -> list[Path]:
    """Pages of rules that are gone."""
    there = {page for folder in ("rules", "trace_rules") for page in (DOCS / folder).glob("*.md")}
    return sorted(there - set(wanted))


def stale(wanted: dict[Path, str]) -> list[Path]:
    """Pages that are missing, differ from what the code says, or have no rule any more."""
    differing = [p for p, text in wanted.items() if not p.exists() or p.read_text(encoding="utf-8") != text]
    return differing + orphans(wanted)


def write(wanted: dict[Path, str]) -> None:
    """Brings docs/ up to date."""
    for path in orphans(wanted):
        path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main() -> int:
    """Returns 1 where `--check` found a page that is not current."""
    parser = argparse.ArgumentParser(description="Write the pages of docs/ that come from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is not current")
    check = parser.parse_args().check
    wanted = pages()
    outdated = stale(wanted)
    for path in outdated:
        print(f"{'not current' if check else 'written'}: {path.relative_to(DOCS.parent)}")
    if outdated and check:
        print("run: make docs", file=sys.stderr)
        return 1
    write(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
