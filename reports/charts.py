"""From an audit to charts: each with its finding as title, a description in words, and its numbers as a table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ftprof.advisors.audit import Audit
from ftprof.profiler.diagnosis import Interval, Lora, LoraTarget, PhaseDiagnosis
from ftprof.reports import clean, fact_tables, figures, timing_tables, units, wording
from ftprof.reports.chart import BAR_LIMIT, LABEL_LIMIT, Chart, label_of, made
from ftprof.reports.chart_change import change
from ftprof.reports.chart_evidence import evidence
from ftprof.reports.chart_limits import limits
from ftprof.reports.chart_memory import memory
from ftprof.reports.chart_outputs import outputs
from ftprof.reports.chart_request import request
from ftprof.reports.palette import CAUSES, LORA
from ftprof.reports.summary import limiting_phase, lora_of
from ftprof.reports.table import table

ARROW = "→"


def charts(audit: Audit) -> dict[str, Chart]:
    """All charts for which the `cleaned` audit has numbers, by id."""
    makers: tuple[Callable[[Audit], Chart | None], ...] = (
        request,
        causes,
        evidence,
        roofline,
        limits,
        before_after,
        change,
        fixes,
        lora,
        memory,
        outputs,
    )
    found = (maker(audit) for maker in makers)
    return {chart.id: chart for chart in found if chart is not None}


def causes(audit: Audit) -> Chart | None:
    """Where the time of each phase goes."""
    bars = []
    for scenario, name, time, ledger in timing_tables.phase_entries(audit)[:BAR_LIMIT]:
        if ledger is not None and ledger.total_s > 0:
            parts = {group: 100 * max(value, 0.0) / ledger.total_s for group, value in ledger.grouped().items()}
            label = label_of(wording.place(audit, scenario, name))
            bars.append(figures.Stack(label=label, end=units.duration(time.median), parts=parts))
    if not bars:
        return None
    shown = timing_tables.ledgers(audit)
    draw = partial(figures.stacks, bars, CAUSES, "Share of the untraced wall time of the phase", percent=True)
    description = "One bar for each phase, split by cause: " + "; ".join(
        f"{bar.label}, {bar.end}: " + ", ".join(f"{key} {value:.0f}%" for key, value in bar.parts.items() if value >= 1)
        for bar in bars
    )
    return made("causes", _causes_title(audit), description + ".", draw, shown)


def _causes_title(audit: Audit) -> str:
    chosen = limiting_phase(audit)
    if chosen is None or chosen.ledger is None or not chosen.ledger.total_s:
        return "Where the time of each phase goes"
    group, value = max(chosen.ledger.grouped().items(), key=lambda item: item[1])
    where = wording.capital(wording.place(audit, chosen.scenario, chosen.name))
    share = units.percent(value / chosen.ledger.total_s)
    return f"{where}: {share} of the time is {'not attributed' if group == 'unattributed' else CAUSES[group].label}"


def _points(audit: Audit) -> list[tuple[PhaseDiagnosis, figures.Point]]:
    points = []
    for entry in audit.diagnosis.phases if audit.diagnosis else ():
        if entry.flops and entry.bytes and entry.time_s.median > 0:
            point = figures.Point(
                label=label_of(wording.place(audit, entry.scenario, entry.name)),
                letter=entry.name,
                intensity=entry.flops / entry.bytes,
                flops_per_s=entry.flops / entry.time_s.median,
            )
            points.append((entry, point))
    return points


def roofline(audit: Audit) -> Chart | None:
    """Phases under the limits measured on this machine."""
    points = _points(audit)
    machine = audit.machine
    if not points or machine is None or not machine.flops_per_s or not machine.bandwidth:
        return None
    sizes = sorted(machine.bandwidth, key=lambda entry: entry.working_set_bytes)
    ends = {entry.working_set_bytes: entry for entry in (sizes[0], sizes[-1])}
    roofs = figures.Roofs(
        flops_per_s={clean.name(dtype): rate for dtype, rate in machine.flops_per_s.items()},
        bytes_per_s={units.size(size): entry.bytes_per_s for size, entry in ends.items()},
    )
    draw = partial(figures.roofline, [point for _, point in points], roofs)
    rows = [
        (point.label, units.significant(point.intensity), units.rate(point.flops_per_s, "FLOP"), _attained(entry))
        for entry, point in points
    ]
    head = ("Phase", "FLOP per byte", "Reached", "Of the measured limit")
    shown = table("Work of each phase against the limits measured on this machine", head, rows)
    description = "Reached speed over arithmetic intensity, under measured roofs: " + "; ".join(
        f"{row[0]} {row[2]} at {row[1]} FLOP per byte" for row in rows
    )
    return made("roofline", _roofline_title(audit, points), description + ".", draw, shown)


def _attained(entry: PhaseDiagnosis) -> str:
    return units.percent(entry.headroom)


def _roofline_title(audit: Audit, points: list[tuple[PhaseDiagnosis, figures.Point]]) -> str:
    known = [entry for entry, _ in points if entry.headroom is not None]
    chosen = limiting_phase(audit)
    entry = chosen if chosen in known else (known[0] if known else None)
    if entry is None:
        return "Each phase under the limits measured on this machine"
    where = wording.capital(wording.place(audit, entry.scenario, entry.name))
    return f"{where} reaches {units.percent(entry.headroom)} of what this machine allows"


def before_after(audit: Audit) -> Chart | None:
    """Times of the original and of the best variant."""
    final = audit.final
    pairs = []
    for scenario, by_phase in (final.before if final else {}).items():
        for name, before in by_phase.items():
            after = final.after.get(scenario, {}).get(name) if final else None
            if after is not None and before.median > 0:
                pairs.append(_pair(wording.place(audit, scenario, name), before, after))
    if final is None or not pairs or not final.changes:
        return None
    description = "Median times before and after: " + "; ".join(f"{pair.label} {pair.text}" for pair in pairs)
    shown = timing_tables.before_after(audit)
    draw = partial(figures.before_after, pairs[:BAR_LIMIT])
    title = next((pair for pair in pairs if pair.label == _objective(audit)), pairs[0])
    return made(
        "before-after", f"{title.label}: {title.text.replace(ARROW, 'before,')} after", description + ".", draw, shown
    )


def _objective(audit: Audit) -> str:
    return label_of(wording.place(audit, audit.settings.objective_scenario, audit.settings.objective_phase))


def _pair(label: str, before: Interval, after: Interval) -> figures.Pair:
    base = before.median
    return figures.Pair(
        label=label_of(label),
        before=(1.0, before.low / base, before.high / base),
        after=(after.median / base, after.low / base, after.high / base),
        text=f"{units.duration(base)} {ARROW} {units.duration(after.median)}",
    )


def fixes(audit: Audit) -> Chart | None:
    """Predicted and measured speed-up of each fix."""
    settings = audit.settings
    speeds = []
    for trial in audit.trials:
        guess = wording.predicted_for(trial.predicted, settings.objective_scenario, settings.objective_phase)
        ratio = trial.objective
        if guess or ratio:
            speed = figures.Speed(
                label=label_of(trial.title),
                predicted=(guess.speedup, guess.low, guess.high) if guess else None,
                measured=(ratio.speedup, ratio.low, ratio.high) if ratio else None,
                kept=trial.status == "kept",
            )
            speeds.append(speed)
    if not speeds:
        return None
    measured = sum(speed.measured is not None for speed in speeds)
    kept = sum(speed.kept for speed in speeds)
    title = f"{kept} of {measured} measured {'fix' if measured == 1 else 'fixes'} kept; predictions beside them"
    description = "Predicted interval and measured interval of the speed-up for each fix; the table has the numbers."
    draw = partial(figures.fixes, speeds[:BAR_LIMIT])
    return made("fixes", title, description, draw, timing_tables.trials(audit))


def lora(audit: Audit) -> Chart | None:
    """Time at each kind of target of the adapter, in the phase where it costs a request most."""
    cost = lora_of(audit)
    phase = _dearest_phase(audit, cost) if cost else None
    chosen = [target for target in cost.targets if target.phase == phase] if cost else []
    if cost is None or phase is None or not chosen:
        return None
    longest = max(target.base_s + _added(target) for target in chosen)
    if longest <= 0:
        return None
    scale, unit = units.time_unit(longest)
    bars = []
    for target in chosen[:BAR_LIMIT]:
        parts = {key: max(getattr(target, key), 0.0) / scale for key in LORA}
        added = sum(parts.values()) - parts["base_s"]
        share = units.percent(added / sum(parts.values())) if sum(parts.values()) else units.ABSENT
        label = clean.name(target.target, LABEL_LIMIT)
        bars.append(figures.Stack(label=label, end=f"{share} LoRA", parts=parts))
    what = wording.place(audit, cost.scenario, phase)
    draw = partial(figures.stacks, bars, LORA, f"Time in {unit}: {what}", percent=False)
    description = f"One bar for each kind of target, {what}: " + "; ".join(f"{bar.label} {bar.end}" for bar in bars)
    most = max(chosen, key=_added)
    title = f"LoRA adds most at {clean.name(most.target)}: {units.duration(_added(most))} of {what}"
    return made("lora", title, description + ".", draw, fact_tables.lora_targets(cost))


def _added(target: LoraTarget) -> float:
    return target.a_s + target.b_s + target.rest_s


def _dearest_phase(audit: Audit, cost: Lora) -> str | None:
    """The phase of the objective, or for end to end the part in which the adapter costs a request most."""
    phases = {target.phase: 0.0 for target in cost.targets}
    if cost.phase in phases:
        return cost.phase
    tokens = max(audit.workload.tokens(cost.scenario), 1)
    for target in cost.targets:
        phases[target.phase] += _added(target) * (tokens if target.phase == "decode" else 1)
    return max(phases, key=phases.__getitem__, default=None)
