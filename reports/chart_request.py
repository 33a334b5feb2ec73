"""Which phase costs what: one request from its first phase to its last, as a waterfall."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from ftprof.advisors.audit import Audit
from ftprof.profiler.diagnosis import Interval
from ftprof.reports import figures, units, wording
from ftprof.reports.chart import Chart, label_of, made
from ftprof.reports.palette import CAUSES, INK, Paint
from ftprof.reports.table import Table, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

ORDER = ("tokenise", "prefill", "decode", "forward")
TOO_MUCH = 1.1
"""Phases timed apart that sum to more than this many times the whole do not make it up."""
PLAIN = Paint(letter="", label="not attributed")


class _Step(msgspec.Struct, frozen=True, kw_only=True):
    """One phase of the request: seconds in all, with the interval, and how often it ran; `after` in the best variant."""

    label: str
    times: int
    before: Interval
    after: Interval | None
    cause: str

    @property
    def seconds(self) -> float:
        return self.times * self.before.median


def request(audit: Audit) -> Chart | None:
    """One request of the objective's scenario (a unit of its batch), phase after phase; None where the phases that were
    timed do not make it up."""
    scenario = audit.settings.objective_scenario
    times = {entry.name: entry for entry in audit.phases if entry.scenario == scenario}
    whole = times["e2e"].time_s.median if "e2e" in times else 0.0
    steps = [_step(audit, scenario, name, times[name].time_s) for name in ORDER if name in times]
    if not steps or whole <= 0 or sum(step.seconds for step in steps) > TOO_MUCH * whole:
        return None
    longest = max(steps, key=lambda step: step.seconds)
    title = (
        f"A request takes {units.duration(whole)}: {units.percent(min(1.0, longest.seconds / whole))} of it is "
        f"{longest.label[:1].lower()}{longest.label[1:]}"
    )
    description = "Phases of one request, one after the other: " + "; ".join(
        f"{step.label} {units.duration(step.seconds)}" for step in steps
    )
    return made("request", title, description + ".", partial(_draw, steps, whole), _table(steps, whole))


def _step(audit: Audit, scenario: str, name: str, before: Interval) -> _Step:
    tokens = max(audit.workload.tokens(scenario) - 1, 1) if name == "decode" else 1
    label = wording.capital(wording.phase(name)) if name != "decode" else f"Decode of {tokens} tokens"
    found = audit.diagnosis.phase(scenario, name) if audit.diagnosis else None
    final = audit.final
    both = final is not None and bool(final.changes) and name in final.before.get(scenario, {})
    return _Step(
        label=label,
        times=tokens,
        before=before,
        after=final.after.get(scenario, {}).get(name) if both and final else None,
        cause=found.bound if found is not None else "unknown",
    )


def _table(steps: Sequence[_Step], whole: float) -> Table:
    rows: list[tuple[str, ...]] = [
        (
            step.label,
            units.interval(step.before),
            units.duration(step.seconds),
            units.percent(step.seconds / whole),
            units.duration(step.times * step.after.median) if step.after else units.ABSENT,
        )
        for step in steps
    ]
    rest = whole - sum(step.seconds for step in steps)
    if rest > 0:
        rows.append(("Between and after them", "", units.duration(rest), units.percent(rest / whole), ""))
    head = ("Phase", "Once (95% interval)", "In all", "Share", "In the best variant")
    return table("One request, phase by phase", head, rows)


def _draw(steps: Sequence[_Step], whole: float) -> Figure:
    scale, unit = units.time_unit(whole)
    figure, axes = figures.blank(figures.ROW_IN * len(steps) + 1.0)
    begin = 0.0
    for row, step in enumerate(steps):
        length = step.seconds / scale
        axes.barh(row, length, left=begin, height=0.5, facecolor="none", edgecolor=INK, linewidth=0.9)
        shown = step.after or step.before
        axes.barh(row, step.times * shown.median / scale, left=begin, height=0.3, **figures.bar_style(_paint(step)))
        ends = [begin + step.times * end / scale for end in (shown.low, shown.high)]
        axes.plot(ends, [row, row], color=INK, linewidth=1.6)
        text = units.duration(step.seconds)
        if step.after:
            text += f" → {units.duration(step.times * step.after.median)}"
        axes.text(max(begin + length, ends[1]) + 0.012 * whole / scale, row, text, va="center")
        begin += length
    figures.row_labels(axes, [label_of(step.label) for step in steps])
    # Room for the text beside the last bar.
    axes.set_xlim(0, 1.36 * max(begin, whole / scale))
    axes.set_xlabel(f"Time from the start of the request in {unit}")
    paints = {step.cause: _paint(step) for step in steps}
    changed = any(step.after for step in steps)
    outline = Paint(letter="", label="before" if changed else "as called today")
    figures.legend(figure, {"outline": outline, **{name: _named(name, paint) for name, paint in paints.items()}})
    return figure


def _paint(step: _Step) -> Paint:
    return CAUSES.get(step.cause, PLAIN)


def _named(cause: str, paint: Paint) -> Paint:
    """The paint in the legend: what limits the phases that have it."""
    said = {"mixed": "no single limit", "unknown": "limit not known"}.get(cause, f"limited by {paint.label}")
    return msgspec.structs.replace(paint, label=said, letter="")
