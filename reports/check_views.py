"""The result of a gate as text, as Markdown and as JSON."""

from __future__ import annotations

import msgspec
from rich.console import Console

from ftprof.reports import markdown, units
from ftprof.reports.check_document import FAILURES, Checked, Judged
from ftprof.reports.gate_views import print_table, say
from ftprof.reports.table import Table, table

WORDS = {
    0: ("PASSED", "bold green"),
    1: ("FAILED", "bold red"),
    3: ("UNDECIDED", "bold yellow"),
    5: ("NOTHING JUDGED", "bold"),
}
MARKS = {0: "✓", 1: "✗", 3: "?", 5: "·"}


def as_json(checked: Checked) -> str:
    """The whole result as JSON, one line feed at its end."""
    return msgspec.json.format(msgspec.json.encode(checked), indent=2).decode() + "\n"


def as_markdown(checked: Checked) -> str:
    """The result as GitHub-flavoured Markdown: failed demands in sight, the others folded."""
    title = f"### {MARKS[checked.exit_code]} {markdown.escape(checked.headline)}"
    sides = markdown.escape(f"{checked.model}, judged: {checked.subject}")
    open_demands = [one for one in checked.demands if one.outcome != "met"]
    met = [one for one in checked.demands if one.outcome == "met"]
    blocks = [title, sides, *map(markdown.escape, checked.notes)]
    blocks += [markdown.table(_table(open_demands))] if open_demands else []
    if met:
        folded = markdown.table(_table(met))
        blocks.append(f"<details><summary>{len(met)} demands met</summary>\n\n{folded}\n\n</details>")
    return "\n\n".join(blocks) + "\n"


def render(checked: Checked, console: Console) -> None:
    """Print the verdict, then every demand, failures first."""
    word, style = WORDS[checked.exit_code]
    say(console, word, style)
    say(console, checked.headline)
    say(console, f"{checked.model}, judged: {checked.subject}", "dim")
    for note in checked.notes:
        say(console, note, "yellow")
    ordered = sorted(checked.demands, key=lambda one: (one.outcome not in FAILURES, one.outcome == "met"))
    rows = [(one.outcome, _line(one)) for one in ordered]
    print_table(console, table("Demands", ("Outcome", "Demand, and what was found"), rows, words=2))


def _line(one: Judged) -> str:
    """One demand as a line that wraps well in 80 columns."""
    found = "" if one.found == units.ABSENT else f"; found {one.found}"
    return f"{one.name}: {one.limit}{found}" + (f" ({one.why})" if one.why else "")


def _table(shown: list[Judged]) -> Table:
    rows = [(one.name, one.outcome, one.limit, one.found, one.why) for one in shown]
    return table("Demands", ("Demand", "Outcome", "Limit", "Found", "Why"), rows, words=5)
