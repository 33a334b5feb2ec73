"""How sure is it: each phase's shares by cause, and the confidence in what the largest is named."""

from __future__ import annotations

from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from ftprof.advisors.audit import Audit
from ftprof.profiler.diagnosis import PhaseDiagnosis
from ftprof.profiler.verdict import MARGIN
from ftprof.reports import figures, units, wording
from ftprof.reports.chart import BAR_LIMIT, Chart, label_of, made
from ftprof.reports.palette import CAUSES, FAINT, INK, Paint
from ftprof.reports.table import Table, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

LEAST_SHOWN = 0.02
"""Smaller shares would only crowd the left edge."""
TOUCHING = 0.03


def evidence(audit: Audit) -> Chart | None:
    """The strength of every cause in each phase, the margin that a verdict needs, and the confidence in it."""
    found = [entry for entry in (audit.diagnosis.phases if audit.diagnosis else ()) if _shares(entry)][:BAR_LIMIT]
    if not found:
        return None
    confirmed = sum(entry.confirmed for entry in found)
    title = f"{confirmed} of {len(found)} verdicts {'is' if confirmed == 1 else 'are'} confirmed by an experiment"
    description = "Shares of each phase by cause, with the confidence in the verdict: " + "; ".join(
        f"{wording.place(audit, entry.scenario, entry.name)} {wording.BOUNDS[entry.bound]}, "
        f"confidence {units.percent(entry.confidence)}"
        for entry in found
    )
    labels = [label_of(wording.place(audit, entry.scenario, entry.name)) for entry in found]
    return made("evidence", title, description + ".", partial(_draw, found, labels), _table(audit, found))


def _shares(entry: PhaseDiagnosis) -> dict[str, float]:
    """Share of the time by cause, largest first; empty without a ledger."""
    if entry.ledger is None or entry.ledger.total_s <= 0:
        return {}
    groups = sorted(entry.ledger.grouped().items(), key=lambda item: -item[1])
    return {name: max(0.0, seconds) / entry.ledger.total_s for name, seconds in groups}


def _table(audit: Audit, found: Sequence[PhaseDiagnosis]) -> Table:
    rows = []
    for entry in found:
        (first, most), (second, next_most) = list(_shares(entry).items())[:2]
        rows.append(
            (
                wording.capital(wording.place(audit, entry.scenario, entry.name)),
                wording.BOUNDS[entry.bound],
                "confirmed" if entry.confirmed else "suspected",
                f"{CAUSES[first].label} {units.percent(most)}",
                f"{CAUSES[second].label} {units.percent(next_most)}",
                units.percent(entry.confidence),
            )
        )
    head = ("Phase", "Limited by", "How sure", "Largest share", "Next", "Confidence")
    note = f"A verdict needs {100 * MARGIN:.0f} points between the largest share and the next; else the phase is mixed."
    return table("How sure each verdict is", head, rows, words=3, note=note)


def _draw(found: Sequence[PhaseDiagnosis], labels: Sequence[str]) -> Figure:
    figure, axes = figures.blank(figures.ROW_IN * len(found) + 1.1)
    for row, entry in enumerate(found):
        shares = {name: share for name, share in _shares(entry).items() if share >= LEAST_SHOWN}
        leading = 100 * max(shares.values())
        axes.plot([leading - 100 * MARGIN, leading], [row, row], color=FAINT, linewidth=7, alpha=0.35)
        for name, share in shares.items():
            fill = CAUSES[name].light or "none"
            edge = INK if fill == "none" else fill
            axes.plot([100 * share], [row], marker="o", markersize=8, markerfacecolor=fill, markeredgecolor=edge)
        for place, letters in _letters(shares):
            axes.text(place, row - 0.2, letters, ha="center", va="bottom", fontsize=8)
        if entry.confidence is not None:
            fill = INK if entry.confirmed else "none"
            axes.plot(
                [100 * entry.confidence], [row], marker="D", markersize=7, markerfacecolor=fill, markeredgecolor=INK
            )
    figures.row_labels(axes, labels)
    axes.set_xlim(-2, 102)
    axes.set_xticks([0, 25, 50, 75, 100], ["0%", "25%", "50%", "75%", "100%"])
    axes.set_xlabel("Dots: share of the time by cause; diamonds: confidence in the verdict")
    _explain(figure, {name for entry in found for name, share in _shares(entry).items() if share >= LEAST_SHOWN})
    return figure


def _letters(shares: Mapping[str, float]) -> list[tuple[float, str]]:
    """Where letters stand, in percent: those of dots that touch stand side by side over the middle of these."""
    groups: list[list[tuple[float, str]]] = []
    for share, name in sorted((share, name) for name, share in shares.items()):
        if groups and share - groups[-1][-1][0] < TOUCHING:
            groups[-1].append((share, name))
        else:
            groups.append([(share, name)])
    return [
        (100 * fmean(share for share, _ in group), " ".join(CAUSES[name].letter for _, name in group))
        for group in groups
    ]


def _explain(figure: Figure, seen: set[str]) -> None:
    from matplotlib.lines import Line2D

    def dot(paint: Paint) -> Line2D:
        fill = paint.light or "none"
        edge = INK if fill == "none" else fill
        label = f"{paint.letter} {paint.label}"
        return Line2D([], [], label=label, linestyle="none", marker="o", markerfacecolor=fill, markeredgecolor=edge)

    handles = [dot(paint) for name, paint in CAUSES.items() if name in seen]
    handles += [
        Line2D([], [], label="confirmed", linestyle="none", marker="D", markerfacecolor=INK, markeredgecolor=INK),
        Line2D([], [], label="suspected", linestyle="none", marker="D", markerfacecolor="none", markeredgecolor=INK),
        Line2D([], [], label="margin that a verdict needs", color=FAINT, linewidth=7, alpha=0.35),
    ]
    figure.legend(
        handles=handles, loc="outside upper left", ncols=5, frameon=False, columnspacing=1.0, handlelength=1.2
    )
