"""Progress of a slow preparation: a bar for a person at a terminal, plain lines for a log, or nothing."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

# What is being done now, and the share of the whole that is done, 0 to 1.
Progress = Callable[[str, float], None]


def silent(step: str, share: float) -> None:
    """For callers that show nothing."""


@contextlib.contextmanager
def show_progress(title: str) -> Iterator[Progress]:
    """Gives a `Progress` that reports on stderr. Shows nothing at all if it is never called."""
    if sys.stderr.isatty():
        with _bar(title) as progress:
            yield progress
    else:
        yield lambda step, share: print(f"{title}: {step}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _bar(title: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=1.0, visible=False)
        yield lambda step, share: bars.update(task, description=f"{title}: {step}", completed=share, visible=True)
