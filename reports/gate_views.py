"""Lines and tables of the gate commands on a terminal; in a pipe the same without colour."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from ftprof.reports.table import Table
from ftprof.reports.terminal import BUILD_COMMANDS


def say(console: Console, text: str, style: str = "") -> None:
    """Print one paragraph, wrapped to the terminal."""
    console.print(Text(encodable(text, console), style=style))


def print_table(console: Console, shown: Table) -> None:
    """Print a table under its caption; nothing where it has no rows."""
    if not shown.rows:
        return
    console.print()
    say(console, shown.caption, "bold")
    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for index, title in enumerate(shown.head):
        grid.add_column(title, justify="left" if index < shown.words else "right", overflow="fold")
    for row in shown.rows:
        grid.add_row(*(Text(encodable(cell, console)) for cell in row))
    console.print(Padding(grid, (0, 0, 0, 2)))
    if shown.note:
        say(console, shown.note, "dim")


def encodable(text: str, console: Console) -> str:
    """`text` with what the stream cannot carry as escapes, and with nothing that a build log obeys as a command."""
    encoding = console.encoding or "utf-8"
    for command in BUILD_COMMANDS:
        text = text.replace(command, " ".join(command))
    if not encoding.lower().startswith("utf"):
        text = text.replace("µ", "u")
    return text.encode(encoding, "backslashreplace").decode(encoding)
