"""Did it really change: the final ratio of every phase with its interval, beside the original against itself."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from ftprof.advisors.audit import Audit
from ftprof.profiler.comparison import Ratio
from ftprof.profiler.paired import DELTA
from ftprof.reports import figures, timing_tables, wording
from ftprof.reports.chart import BAR_LIMIT, Chart, label_of, made
from ftprof.reports.palette import FAINT, INK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure


class _Row(msgspec.Struct, frozen=True):
    label: str
    ratio: Ratio


def change(audit: Audit) -> Chart | None:
    """Change of each phase's time in the final comparison; None where nothing was compared."""
    comparison = audit.final.comparison if audit.final else None
    rows = [
        _Row(label_of(wording.place(audit, scenario, phase)), ratio)
        for scenario, phases in (comparison.ratios if comparison else {}).items()
        for phase, ratio in phases.items()
    ][:BAR_LIMIT]
    if not rows:
        return None
    proven = sum(_proven(row.ratio) for row in rows)
    title = f"{proven} of {len(rows)} phases changed by more than the original differs from itself"
    description = "Change of the time in percent with its 95% interval: " + "; ".join(
        f"{row.label} {_percent(row.ratio.speedup):+.0f}% ({_percent(row.ratio.high):+.0f}% to "
        f"{_percent(row.ratio.low):+.0f}%), {row.ratio.verdict}"
        for row in rows
    )
    return made("change", title, description + ".", partial(_draw, rows), timing_tables.before_after(audit))


def _proven(ratio: Ratio) -> bool:
    """Whether the verdict is a change, and its interval lies beyond the control's."""
    low, high = ratio.aa_low or 1.0, ratio.aa_high or 1.0
    return ratio.verdict in ("faster", "slower") and (ratio.low > max(high, 1.0) or ratio.high < min(low, 1.0))


def _percent(speedup: float) -> float:
    """Change of the time in percent; below zero is faster."""
    return 100 * (1 / speedup - 1)


def _draw(rows: Sequence[_Row]) -> Figure:
    figure, axes = figures.blank(figures.ROW_IN * len(rows) + 0.9)
    band = 100 * DELTA
    axes.axvspan(-band, band, color=FAINT, alpha=0.25, linewidth=0)
    axes.axvline(0, color=INK, linewidth=0.9, linestyle=(0, (3, 2)))
    for place, row in enumerate(rows):
        ratio = row.ratio
        if ratio.aa_low and ratio.aa_high:
            axes.plot([_percent(ratio.aa_high), _percent(ratio.aa_low)], [place + 0.2] * 2, color=FAINT, linewidth=5)
        axes.plot([_percent(ratio.high), _percent(ratio.low)], [place] * 2, color="#3c9adb", linewidth=3)
        axes.plot([_percent(ratio.speedup)], [place], marker="o", color="#3c9adb", markersize=7)
    figures.row_labels(axes, [f"{row.label}: {row.ratio.verdict}" for row in rows])
    axes.set_xlabel("Change of the time in percent (left is faster); band: counts as no change")
    _explain(figure)
    return figure


def _explain(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], label="best variant against original, 95% interval", color="#3c9adb", marker="o", linewidth=3),
        Line2D([], [], label="original against itself", color=FAINT, linewidth=5),
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=2, frameon=False)
