"""One chart of the page: its finding as title, a description in words, and its numbers as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ftprof.reports import clean, figures, wording
from ftprof.reports.palette import CLASSES
from ftprof.reports.svg import embed
from ftprof.reports.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABEL_LIMIT = 34
"""Characters of a label beside a bar: more would leave no room for the bar."""
BAR_LIMIT = 16
"""Bars of one chart; its table has the rest."""


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """One chart, ready for the page."""

    id: str
    title: str
    description: str
    svg: str
    table: Table


def made(name: str, title: str, description: str, draw: Callable[[], Figure], shown: Table) -> Chart:
    """The chart that `draw` draws, fit to stand in the page."""
    svg = embed(figures.to_svg(draw), f"chart-{name}", title, description, CLASSES)
    return Chart(id=name, title=title, description=description, svg=svg, table=shown)


def label_of(text: str) -> str:
    """What stands beside a bar."""
    return clean.name(wording.capital(text), LABEL_LIMIT)
