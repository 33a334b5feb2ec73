"""The progress of a run on the terminal: a live line for a person, plain lines in a pipe."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as RichProgress
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from ftprof.reports.clean import visible


class Live:
    """Shows the stage, the seconds since the start and the budget. `notes` above the line stay on the screen."""

    def __init__(self, console: Console, budget_s: float, *, quiet: bool = False) -> None:
        self._console = console
        self._budget_s = budget_s
        self._quiet = quiet
        self._begin = time.monotonic()
        self._bar: RichProgress | None = None
        self._stage = ""

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._quiet:
            self._bar = RichProgress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                TimeElapsedColumn(),
                TextColumn(f"of at most {self._budget_s:.0f} s"),
                console=self._console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("starting", total=None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def stage(self, name: str) -> None:
        """What is being done now."""
        text = visible(name)
        if text == self._stage:
            return
        self._stage = text
        if self._bar is not None:
            self._bar.update(self._task, description=escape(text))
        elif not self._quiet:
            self._print(text)

    def note(self, sentence: str) -> None:
        """A finished sentence."""
        if not self._quiet:
            self._print(visible(sentence))

    def _print(self, text: str) -> None:
        self._console.print(f"{time.monotonic() - self._begin:5.0f} s  {escape(text)}", highlight=False, soft_wrap=True)
