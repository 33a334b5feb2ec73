"""The audit on a terminal or in a pipe. Colour and bold only repeat what the words say."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from ftprof.advisors.audit import Audit
from ftprof.reports import clean, timing_tables
from ftprof.reports.fact_tables import lora_phases
from ftprof.reports.summary import FixLine, Summary, lora_of, summarise
from ftprof.reports.table import Table

TONES = {"good": "bold green", "bad": "bold red", "unsure": "bold yellow", "plain": "bold"}
STATUSES = {
    "kept": ("+ kept", "green"),
    "reverted": ("- reverted", ""),
    "failed": ("! failed", "red"),
    "refused": ("- refused", ""),
    "not_tried": ("? not tried", ""),
    "advice": ("> advice", ""),
}
MARK_WIDTH = 12
BUILD_COMMANDS = ("::", "##[")
"""What GitHub's and Azure's build logs read as commands at the start of a line, which wrapping can make of any word."""


def render(audit: Audit, console: Console) -> None:
    """Print the first screen of `audit`, then its tables."""
    audit = clean.cleaned(audit)
    summary = summarise(audit)
    _first_screen(summary, console)
    _tables(audit, console)


def render_summary(audit: Audit, console: Console) -> None:
    """Print the first screen of `audit` alone."""
    _first_screen(summarise(clean.cleaned(audit)), console)


def _first_screen(summary: Summary, console: Console) -> None:
    _line(console, f"{summary.model}", "bold")
    _line(console, summary.context, "dim")
    console.print()
    _line(console, summary.verdict.upper(), TONES[summary.tone])
    for text in filter(None, (summary.headline, summary.limit, summary.lora)):
        _line(console, text)
    for text in summary.trades:
        _line(console, text, "yellow")
    if summary.fixes:
        console.print()
        _line(console, "Fixes", "bold")
        _fixes(summary.fixes, console)
    console.print()
    _line(console, summary.trust)
    _where(summary, console)
    if summary.warnings:
        console.print()
    for text in summary.warnings:
        _line(console, text, "yellow")


def _fixes(lines: tuple[FixLine, ...], console: Console) -> None:
    grid = Grid.grid(padding=(0, 1))
    grid.add_column(width=MARK_WIDTH, no_wrap=True)
    grid.add_column(overflow="fold")
    for line in lines:
        mark, style = STATUSES[line.status]
        grid.add_row(Text(mark, style=style), Text(_encodable(line.sentence, console)))
    console.print(grid)


def _where(summary: Summary, console: Console) -> None:
    if not summary.where:
        return
    console.print()
    _line(console, summary.where)
    for line in summary.load.splitlines():
        # Code is to be copied: never wrapped, never cut.
        console.print(Text("    " + _encodable(line, console), style="cyan"), soft_wrap=True)


def _tables(audit: Audit, console: Console) -> None:
    lora = lora_of(audit)
    # Columns that do not fit in 80 characters are in the page.
    tables = [
        timing_tables.before_after(audit, brief=True).pick(0, 1, 2, 3, 4),
        timing_tables.phases(audit).pick(0, 1, 2, 3, 4),
        timing_tables.ledgers(audit),
    ]
    tables += [lora_phases(audit, lora)] if lora else []
    for shown in tables:
        _table(shown, console)


def _table(shown: Table, console: Console) -> None:
    if not shown.rows:
        return
    console.print()
    _line(console, shown.caption, "bold")
    gap = 2 if len(shown.head) <= 6 else 1
    grid = Grid(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="dim")
    for index, title in enumerate(shown.head):
        grid.add_column(title, justify="left" if index < shown.words else "right", overflow="fold", no_wrap=index > 0)
    for row in shown.rows:
        grid.add_row(*(Text(_encodable(cell, console)) for cell in row))
    console.print(Padding(grid, (0, 0, 0, 2)))
    if shown.note:
        _line(console, shown.note, "dim")


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text(_encodable(text, console), style=style))


def _encodable(text: str, console: Console) -> str:
    """`text` with what the stream cannot carry as visible escapes, and with nothing that a build log obeys."""
    encoding = console.encoding or "utf-8"
    for command in BUILD_COMMANDS:
        text = text.replace(command, " ".join(command))
    if not encoding.lower().startswith("utf"):
        text = text.replace("µ", "u")
    return text.encode(encoding, "backslashreplace").decode(encoding)
