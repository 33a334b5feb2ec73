"""A trace report on a terminal or in a pipe. Colour and bold only repeat what the words say."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ftprof.reports.gate_views import encodable, print_table, say
from ftprof.reports.terminal import TONES
from ftprof.reports.trace_document import TraceReport
from ftprof.reports.trace_view import BRIEF, DiffView, FileView, FindingView, view


def render(document: TraceReport, console: Console) -> None:
    """Print the comparison first where there is one, then each file: verdict, findings, tables."""
    shown = view(document, BRIEF)
    if shown.diff:
        _diff(shown.diff, console)
    for number, file in enumerate(shown.files):
        if number or shown.diff:
            console.print()
        # Of a comparison's two sides only the verdicts are shown here; the page has their tables.
        _file(file, console, tables=shown.diff is None)


def _diff(change: DiffView, console: Console) -> None:
    say(console, "BEFORE AND AFTER", TONES[change.tone])
    say(console, change.headline)
    for note in change.notes:
        say(console, note, "yellow")
    for table in change.tables:
        print_table(console, table)


def _file(file: FileView, console: Console, *, tables: bool) -> None:
    say(console, file.name, "bold")
    say(console, file.context, "dim")
    console.print()
    say(console, file.title.upper(), TONES[file.tone])
    for text in file.sentences:
        say(console, text)
    console.print()
    say(console, file.confidence)
    for doubt in file.doubts:
        _indented(console, f"- {doubt}", "yellow")
    for text in filter(None, (file.absent, file.window)):
        say(console, text, "dim")
    _findings(file.findings, console)
    for table in file.tables if tables else ():
        print_table(console, table)


def _findings(findings: tuple[FindingView, ...], console: Console) -> None:
    console.print()
    say(console, "Findings" if findings else "No findings.", "bold" if findings else "")
    for finding in findings:
        console.print()
        say(console, f"{finding.severity}: {finding.rule}", "bold yellow")
        _indented(console, finding.summary)
        _indented(console, f"Fix: {finding.advice}")
        for what, where, *figures in finding.evidence.rows:
            _indented(console, f"- {what}{f' ({where})' if where else ''}: {', '.join(filter(None, figures))}", "dim")


def _indented(console: Console, text: str, style: str = "") -> None:
    console.print(Padding(Text(encodable(text, console), style=style), (0, 0, 0, 2)))
