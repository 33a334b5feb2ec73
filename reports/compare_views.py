"""A comparison of two audits as text, as Markdown for a pull request, and as JSON."""

from __future__ import annotations

import msgspec
from rich.console import Console

from ftprof.reports import markdown, units, wording
from ftprof.reports.compare import change, value
from ftprof.reports.compare_document import Compared, CountChange, TimeChange
from ftprof.reports.gate_views import print_table, say
from ftprof.reports.table import Table, table

MARKS = {"regression": "✗", "inconclusive": "?", "no regression": "✓", "nothing to compare": "·"}
MOST_SHOWN = 10.0
"""Beyond ten times as slow the figure itself says nothing any more."""
STYLES = {"regression": "bold red", "inconclusive": "bold yellow", "no regression": "bold green"}


def as_json(compared: Compared) -> str:
    """The whole result as JSON, one line feed at its end."""
    return msgspec.json.format(msgspec.json.encode(compared), indent=2).decode() + "\n"


def as_markdown(compared: Compared) -> str:
    """The result as GitHub-flavoured Markdown, without a marker: a part of a comment or of a job summary."""
    title = f"### {MARKS[compared.outcome]} {markdown.escape(compared.headline)}"
    sides = f"Base: {markdown.escape(compared.base)}  \nHead: {markdown.escape(compared.head)}"
    tables = [times(compared), counts(compared, every=False)]
    blocks = [title, sides, *map(markdown.escape, notes(compared)), *map(markdown.table, filter(_filled, tables))]
    rest = [markdown.escape(compared.method)]
    rest += [markdown.table(shown) for shown in (conditions(compared),) if shown.rows]
    folded = "\n\n".join(rest)
    return "\n\n".join([*blocks, f"<details><summary>How this was compared</summary>\n\n{folded}\n\n</details>"]) + "\n"


def _filled(shown: Table) -> bool:
    return bool(shown.rows)


def render(compared: Compared, console: Console) -> None:
    """Print the verdict, then the tables behind it."""
    say(console, compared.outcome.upper(), STYLES.get(compared.outcome, "bold"))
    say(console, compared.headline)
    say(console, f"base: {compared.base}", "dim")
    say(console, f"head: {compared.head}", "dim")
    for note in notes(compared):
        say(console, note, "yellow")
    print_table(console, times(compared))
    print_table(console, counts(compared, every=True))
    print_table(console, conditions(compared))
    console.print()
    say(console, compared.method, "dim")


def notes(compared: Compared) -> tuple[str, ...]:
    """What else a reader must know, as sentences."""
    found = [f"New findings: {', '.join(compared.appeared)}."] if compared.appeared else []
    found += [f"Findings gone: {', '.join(compared.fixed)}."] if compared.fixed else []
    return (*found, *compared.warnings)


def times(compared: Compared) -> Table:
    """One row for each phase that was timed on both sides."""
    rows = [_time(row) for row in compared.times if row.base is not None and row.head is not None]
    head = ("Time of", "Verdict", "Base", "Head", "Change (95% interval)", "Provable from")
    return table("Times of the models as loaded", head, rows, words=2)


def _time(row: TimeChange) -> tuple[str, ...]:
    medians = (units.duration(side.median) if side else units.ABSENT for side in (row.base, row.head))
    return (
        wording.capital(row.label),
        row.verdict if row.gates or row.verdict == "not compared" else f"{row.verdict} (shown only)",
        *medians,
        "" if row.change is None else change(row),
        _provable(row.detectable),
    )


def _provable(share: float | None) -> str:
    if share is None:
        return ""
    return units.percent(share) if share < MOST_SHOWN else f"over {units.percent(MOST_SHOWN)}"


def counts(compared: Compared, *, every: bool) -> Table:
    """What was counted on both sides; without `every`, arithmetic and traffic only where they changed."""
    shown = [row for row in compared.counts if row.base is not None and row.head is not None]
    if not every:
        shown = [row for row in shown if row.gates or row.verdict == "changed"]
    rows = [_count(row) for row in shown]
    return table("Counted, free of noise", ("Count", "Verdict", "Base", "Head"), rows, words=2)


def _count(row: CountChange) -> tuple[str, ...]:
    verdict = str(row.verdict)
    if row.tolerance and row.verdict in ("same", "worse", "better"):
        verdict += f" (tolerance {units.percent(row.tolerance)})"
    return wording.capital(row.name), verdict, value(row, row.base), value(row, row.head)


def conditions(compared: Compared) -> Table:
    """Fields in which the two runs differ, and what that forbids."""
    rows = [(one.field, one.base, one.head, _effect(one.stops)) for one in compared.differences]
    head = ("Condition", "Base", "Head", "Effect")
    return table("What differs between the two runs", head, rows, words=4)


def _effect(stops: str) -> str:
    if not stops:
        return "named only"
    scenario, _, phase = stops.partition("/")
    if stops == "*" or not phase:
        return "times are not compared"
    return f"{wording.phase(phase) if phase != '*' else 'times'} of {scenario} not compared"
