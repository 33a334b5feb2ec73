"""How far from the machine's limits: arithmetic, memory traffic and dispatches of each phase against what was measured."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from ftprof.advisors.audit import Audit
from ftprof.profiler.diagnosis import PhaseDiagnosis
from ftprof.profiler.record import Machine
from ftprof.reports import figures, units, wording
from ftprof.reports.chart import BAR_LIMIT, Chart, label_of, made
from ftprof.reports.palette import CAUSES, INK, Paint
from ftprof.reports.table import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure


class _Bullet(msgspec.Struct, frozen=True, kw_only=True):
    """One resource in one phase: what was reached and the measured limit, both as texts, and the one over the other."""

    place: str
    resource: str
    share: float
    reached: str
    limit: str


RESOURCES = {
    "compute": Paint(letter="C", label="arithmetic", light=CAUSES["compute"].light),
    "memory": Paint(letter="M", label="memory traffic", light=CAUSES["memory"].light, hatch=CAUSES["memory"].hatch),
    "host": Paint(letter="H", label="dispatches", light=CAUSES["host"].light, hatch=CAUSES["host"].hatch),
}


def limits(audit: Audit) -> Chart | None:
    """What each phase reaches of the limits measured here; None where work or limits are not known."""
    machine = audit.machine
    phases = audit.diagnosis.phases if audit.diagnosis else ()
    if machine is None or not machine.flops_per_s or not machine.bandwidth:
        return None
    bullets = [bullet for entry in phases for bullet in _bullets(audit, machine, entry)][:BAR_LIMIT]
    if not bullets:
        return None
    nearest = max(bullets, key=lambda bullet: bullet.share)
    title = (
        f"Nearest to a limit: {RESOURCES[nearest.resource].label} of {nearest.place}, "
        f"{units.percent(nearest.share)} of {nearest.limit}"
    )
    rows = [
        (wording.capital(one.place), RESOURCES[one.resource].label, one.reached, one.limit, units.percent(one.share))
        for one in bullets
    ]
    head = ("Phase", "Resource", "Reached", "Limit measured here", "Of the limit")
    note = (
        "Work is counted from the shapes of the operations. Memory traffic above 100% was served by a cache that is"
        " faster than main memory."
    )
    shown = table("What each phase reaches of the measured limits", head, rows, words=2, note=note)
    description = "Reached over the limit: " + "; ".join(f"{row[0]}, {row[1]} {row[4]}" for row in rows)
    return made("limits", title, description + ".", partial(_draw, bullets), shown)


def _bullets(audit: Audit, machine: Machine, entry: PhaseDiagnosis) -> list[_Bullet]:
    seconds = entry.time_s.median
    if seconds <= 0:
        return []
    main = max(machine.bandwidth, key=lambda one: one.working_set_bytes)
    facts, peaks = audit.model.facts, machine.flops_per_s
    dtype = facts.dtype if facts and facts.dtype in peaks else max(peaks, key=peaks.__getitem__)
    found = {
        "compute": (entry.flops, peaks[dtype], "FLOP"),
        "memory": (entry.bytes, main.bytes_per_s, "B"),
        "host": (sum(entry.calls.values()), 1 / machine.dispatch_s if machine.dispatch_s else 0.0, "op"),
    }
    place = wording.place(audit, entry.scenario, entry.name)
    return [
        _Bullet(
            place=place,
            resource=resource,
            share=work / seconds / limit,
            reached=units.rate(work / seconds, unit),
            limit=units.rate(limit, unit),
        )
        for resource, (work, limit, unit) in found.items()
        if work and limit
    ]


def _draw(bullets: Sequence[_Bullet]) -> Figure:
    figure, axes = figures.blank(0.36 * len(bullets) + 1.1)
    longest = max(100.0, *(100 * bullet.share for bullet in bullets))
    for row, bullet in enumerate(bullets):
        paint = RESOURCES[bullet.resource]
        axes.barh(row, 100 * bullet.share, height=0.4, **figures.bar_style(paint))
        axes.plot([100, 100], [row - 0.36, row + 0.36], color=INK, linewidth=2.4)
        axes.text(
            max(100 * bullet.share, 100.0) + 0.015 * longest, row, f"{bullet.reached} of {bullet.limit}", va="center"
        )
    names = [f"{label_of(bullet.place)}: {RESOURCES[bullet.resource].letter}" for bullet in bullets]
    # One name a phase: its rows belong together.
    shown = [
        name if not row or bullet.place != bullets[row - 1].place else RESOURCES[bullet.resource].letter
        for row, (bullet, name) in enumerate(zip(bullets, names, strict=True))
    ]
    figures.row_labels(axes, shown)
    axes.set_xlim(0, 1.5 * longest)
    axes.set_xticks([0, 25, 50, 75, 100], ["0%", "25%", "50%", "75%", "100%"])
    axes.set_xlabel("Of the limit measured on this machine (the tick)")
    seen = {bullet.resource for bullet in bullets}
    figures.legend(figure, {name: paint for name, paint in RESOURCES.items() if name in seen})
    return figure
