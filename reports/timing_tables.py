"""Tables of times: each phase, before and after, predicted and measured."""

from __future__ import annotations

from collections.abc import Iterable

from ftprof.advisors.audit import Audit, Trial
from ftprof.profiler.comparison import Ratio
from ftprof.profiler.diagnosis import Interval, Ledger, PhaseDiagnosis
from ftprof.reports import clean, units, wording
from ftprof.reports.table import Table, table

GROUPS = ("compute", "memory", "host", "io", "sync", "unattributed")
LEDGER_PARTS = {
    "compute_s": "compute, at the measured limit",
    "compute_inefficiency_s": "compute, beyond the limit",
    "memory_s": "memory, at the measured limit",
    "memory_inefficiency_s": "memory, beyond the limit",
    "latency_s": "operations too small for either limit",
    "host_s": "host: Python and dispatch",
    "io_s": "reading files",
    "sync_s": "waiting for the device",
    "unattributed_s": "unattributed",
}


def phase_entries(audit: Audit) -> list[tuple[str, str, Interval, Ledger | None]]:
    """Scenario, phase, time and ledger of everything timed, from the phases or else from the diagnosis."""
    if audit.phases:
        return [(entry.scenario, entry.name, entry.time_s, entry.ledger) for entry in audit.phases]
    diagnosed = audit.diagnosis.phases if audit.diagnosis else ()
    return [(entry.scenario, entry.name, entry.time_s, entry.ledger) for entry in diagnosed]


def phases(audit: Audit) -> Table:
    """How long each phase takes and what limits it."""
    rows = []
    for scenario, name, time, _ in phase_entries(audit):
        found = audit.diagnosis.phase(scenario, name) if audit.diagnosis else None
        rows.append(
            (*_place(audit, scenario, name), *_bound(found), units.interval(time), str(time.n), _headroom(found))
        )
    head = ("Phase", "Batch", "Limited by", "How sure", "Time (95% interval)", "Samples", "Of the limit")
    return table("Time of each phase as the model is called today", head, rows, words=4)


def _place(audit: Audit, scenario: str, name: str) -> tuple[str, str]:
    return wording.capital(wording.phase(name)), wording.batch(audit, scenario, name)


def _bound(found: PhaseDiagnosis | None) -> tuple[str, str]:
    if found is None or found.bound == "unknown":
        return "not known", ""
    return wording.BOUNDS[found.bound], "confirmed" if found.confirmed else "suspected"


def _headroom(found: PhaseDiagnosis | None) -> str:
    return units.percent(found.headroom) if found else units.ABSENT


def ledgers(audit: Audit) -> Table:
    """Where the time of each phase goes, by group of causes."""
    rows = []
    for scenario, name, time, ledger in phase_entries(audit):
        if ledger is not None:
            grouped = ledger.grouped()
            shares = (units.percent(grouped[group] / ledger.total_s if ledger.total_s else None) for group in GROUPS)
            rows.append((*_place(audit, scenario, name), units.duration(time.median), *shares))
    head = ("Phase", "Batch", "Time", "Compute", "Memory", "Host", "I/O", "Sync", "Unattributed")
    return table("Where the time of each phase goes; the shares of a row sum to 100%", head, rows, words=2)


def ledger_parts(audit: Audit) -> Table:
    """The whole ledger in times."""
    entries = [entry for entry in phase_entries(audit) if entry[3] is not None]
    head = tuple(wording.capital(wording.place(audit, entry[0], entry[1])) for entry in entries)
    rows = [
        (wording.capital(label), *(units.duration(getattr(entry[3], part)) for entry in entries))
        for part, label in LEDGER_PARTS.items()
    ]
    return table("The full ledger, per occurrence of the phase", ("Part", *head), rows if entries else [])


def kinds(audit: Audit, diagnosis: PhaseDiagnosis, *, modules: bool) -> Table:
    """Time of one phase by kind of operation, or by kind of module."""
    source = diagnosis.modules if modules else diagnosis.kinds
    total = diagnosis.time_s.median
    rows = [
        (clean.name(kind), units.duration(seconds), units.percent(seconds / total if total else None))
        for kind, seconds in sorted(source.items(), key=lambda item: -item[1])
    ]
    what = "module" if modules else "operation"
    caption = f"{wording.capital(wording.place(audit, diagnosis.scenario, diagnosis.name))}, by kind of {what}"
    return table(caption, (f"Kind of {what}", "Time", "Share"), rows)


def before_after(audit: Audit, *, brief: bool = False) -> Table:
    """The original against the best variant, phase by phase, compared directly; `brief` leaves out intervals of times."""
    final = audit.final
    shown = (lambda time: units.duration(time and time.median)) if brief else units.interval
    rows = []
    for scenario, name, ratio in ratios(final.comparison.ratios if final and final.comparison else None):
        assert final is not None
        times = (shown(side.get(scenario, {}).get(name)) for side in (final.before, final.after))
        rows.append((*_place(audit, scenario, name), *times, wording.measured(ratio), control(ratio)))
    head = ("Phase", "Batch", "Before", "After", "Change (95% interval)", "A/A control")
    return table("The original and the best variant, measured against each other", head, rows, words=2)


def ratios(nested: dict[str, dict[str, Ratio]] | None) -> Iterable[tuple[str, str, Ratio]]:
    """Scenario, phase and ratio of a nested mapping; nothing for None."""
    for scenario, by_phase in (nested or {}).items():
        for name, ratio in by_phase.items():
            yield scenario, name, ratio


def control(ratio: Ratio | None) -> str:
    """The interval of the A/A control beside a ratio."""
    if ratio is None or ratio.aa_low is None or ratio.aa_high is None:
        return units.ABSENT
    return f"{units.factor(ratio.aa_low)[:-1]} to {units.factor(ratio.aa_high)}"


def trial(audit: Audit, tried: Trial) -> Table:
    """Predicted and measured speed-up of one fix, phase by phase."""
    predicted = tried.predicted.ratios if tried.predicted else {}
    measured = tried.measured or {}
    keys = [(scenario, name) for scenario in measured for name in measured[scenario]]
    keys += [(scenario, name) for scenario in predicted for name in predicted[scenario]]
    rows = []
    for scenario, name in dict.fromkeys(keys):
        guess = (
            units.speedup(predicted.get(scenario, {}).get(name)) if predicted.get(scenario, {}).get(name) else "none"
        )
        ratio = measured.get(scenario, {}).get(name)
        result = wording.measured(ratio) if ratio else units.ABSENT
        pairs = str(ratio.pairs) if ratio else ""
        rows.append((*_place(audit, scenario, name), guess, result, pairs, control(ratio)))
    head = ("Phase", "Batch", "Predicted (80% interval)", "Measured (95% interval)", "Pairs", "A/A control")
    return table("Predicted before the trial, and measured", head, rows, words=2)


def trials(audit: Audit) -> Table:
    """Every fix that was looked at, in one line each."""
    settings = audit.settings
    rows = []
    for tried in audit.trials:
        guess = wording.predicted_for(tried.predicted, settings.objective_scenario, settings.objective_phase)
        measured = wording.measured(tried.objective) if tried.objective else units.ABSENT
        predicted = units.speedup(guess) if guess else "none"
        checked = wording.outputs(tried.quality)
        rows.append(
            (wording.capital(tried.title), wording.STATUSES[tried.status], tried.safety, predicted, measured, checked)
        )
    where = wording.place(audit, settings.objective_scenario, settings.objective_phase)
    head = ("Fix", "Status", "Class", "Predicted (80% interval)", "Measured (95% interval)", "Outputs")
    return table(f"Every fix tried; speeds are of the objective ({where})", head, rows, words=6)
