"""Did the answers change: each quality figure of the fixes that were judged, against its limit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from ftprof.advisors.audit import Audit
from ftprof.reports import figures, units, wording
from ftprof.reports.chart import BAR_LIMIT, Chart, label_of, made
from ftprof.reports.palette import INK
from ftprof.reports.table import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure


class _Row(msgspec.Struct, frozen=True):
    """How much of what the limit allows was used: 1 is the limit; its bound reaches further."""

    label: str
    used: float
    bound: float
    passed: bool
    text: str


SHOWN = ("kl", "top1", "perplexity_ratio", "label_agreement", "cosine", "neighbour_overlap")
PERFECT = {"kl": 0.0}
"""Where a figure lies when nothing changed; 1 for all others."""
FURTHEST = 4.0
"""Times the limit at which the axis ends."""


def outputs(audit: Audit) -> Chart | None:
    """Figures of every judged trial; None where none was judged."""
    rows = []
    for trial in audit.trials:
        for name in SHOWN:
            found = trial.quality.figures.get(name) if trial.quality else None
            if found is None or found.limit is None or trial.quality is None:
                continue
            perfect = PERFECT.get(name, 1.0)
            allowed = abs(found.limit - perfect)
            if allowed > 0:
                used = abs(found.value - perfect) / allowed
                bound = max(abs(end - perfect) for end in (found.low, found.high)) / allowed
                text = f"{wording.figure(name, found.value)}, limit {wording.figure(name, found.limit)}"
                label = label_of(f"{trial.rule}: {name.replace('_', ' ')}")
                rows.append(_Row(label, used, bound, trial.quality.verdict == "pass", text))
    if not rows:
        return None
    judged = [trial for trial in audit.trials if trial.quality is not None]
    passed = sum(trial.quality is not None and trial.quality.verdict == "pass" for trial in judged)
    title = f"{passed} of {len(judged)} judged fixes left the outputs within their limits"
    description = "Share of the allowed change that was used: " + "; ".join(f"{row.label} {row.text}" for row in rows)
    shown = table(
        "Quality figures against their limits",
        ("Fix and figure", "Measured", "Of the allowed change"),
        [(row.label, row.text, units.percent(row.used)) for row in rows],
        words=2,
    )
    return made("outputs", title, description + ".", partial(_draw, rows[:BAR_LIMIT]), shown)


def _draw(rows: Sequence[_Row]) -> Figure:
    figure, axes = figures.blank(figures.ROW_IN * len(rows) + 0.7)
    furthest = min(FURTHEST, max([1.25, *(row.bound * 1.1 for row in rows)]))
    for place, row in enumerate(rows):
        colour = "#3c9adb" if row.passed else INK
        axes.plot([row.used, min(row.bound, furthest)], [place] * 2, color=colour, linewidth=3)
        axes.plot([min(row.used, furthest)], [place], marker="o" if row.passed else "D", color=colour, markersize=7)
    axes.axvline(1, color=INK, linewidth=1.2)
    axes.set_xlim(0, furthest)
    figures.row_labels(axes, [row.label for row in rows])
    axes.set_xlabel("Change of the outputs; the line at 1 is the limit, lines reach to the 95% bound")
    return figure
