"""`ftprof compare`: two audits held against each other. Pure: documents in, document out."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from ftprof.advisors.audit import Audit
from ftprof.profiler.errors import Exit
from ftprof.reports import clean, units
from ftprof.reports.compare_counts import count_changes, firing
from ftprof.reports.compare_document import Compared, CountChange, Difference, Outcome, TimeChange
from ftprof.reports.compare_fingerprint import differences
from ftprof.reports.compare_times import METHOD, MIN_EFFECT, time_changes

EXITS: dict[Outcome, Exit] = {
    "regression": Exit.GATE_FAILED,
    "inconclusive": Exit.UNRELIABLE,
    "no regression": Exit.DONE,
    "nothing to compare": Exit.NOTHING,
}


def compare(
    base: Audit,
    head: Audit,
    *,
    allow: Collection[str] = (),
    min_effect: float = MIN_EFFECT,
    require_times: bool = False,
) -> Compared:
    """What changed from `base` to `head`, each as its model was loaded, before any fix.

    `allow` names conditions (compare_fingerprint.ALLOWED) that may differ; `min_effect` is the relative change of a time
    that counts as none. With `require_times`, audits whose times cannot be compared have nothing to compare.
    """
    base, head = clean.cleaned(base), clean.cleaned(head)
    found = differences(base, head, allow)
    times = time_changes(base, head, found, min_effect)
    counts = count_changes(base, head, found)
    before, now = firing(base), firing(head)
    draft = Compared(
        outcome="nothing to compare",
        headline="",
        exit_code=int(Exit.NOTHING),
        base=_label(base),
        head=_label(head),
        differences=found,
        times=times,
        counts=counts,
        appeared=tuple(rule for rule in now if rule not in before),
        fixed=tuple(rule for rule in before if rule not in now),
        method=METHOD.format(least=units.percent(min_effect)),
        warnings=_warnings(base, head),
    )
    return concluded(draft, require_times=require_times)


def concluded(compared: Compared, *, require_times: bool = False) -> Compared:
    """`compared` with the outcome, headline and exit code that its rows call for."""
    outcome = _outcome(compared, require_times=require_times)
    headline = _headline(outcome, compared.differences, compared.times, compared.counts)
    return msgspec.structs.replace(compared, outcome=outcome, headline=headline, exit_code=int(EXITS[outcome]))


def _label(audit: Audit) -> str:
    return f"{clean.name(audit.model.name)} ({audit.model.sha256[:12]}), {units.moment(audit.created)}"


def _outcome(compared: Compared, *, require_times: bool) -> Outcome:
    times, counts = compared.times, compared.counts
    timed = [row for row in times if row.verdict != "not compared"]
    counted = [row for row in counts if row.verdict != "not compared"]
    other_task = any(one.field == "task" for one in compared.differences)
    if other_task or not (timed or counted) or (require_times and not timed):
        return "nothing to compare"
    if regressions(times, counts):
        return "regression"
    if any(row.decisive and row.verdict == "inconclusive" for row in timed):
        return "inconclusive"
    # Same conditions, but the objective was not timed on both sides: that is no clean bill.
    decided = [row for row in timed if row.decisive]
    return "inconclusive" if timed and not decided else "no regression"


def regressions(times: Sequence[TimeChange], counts: Sequence[CountChange]) -> tuple[str, ...]:
    """Each proven regression as a phrase."""
    slower = [f"{row.label} {change(row)}" for row in times if row.gates and row.verdict == "slower"]
    more = [f"{row.name} {value(row, row.base)} to {value(row, row.head)}" for row in counts if row.verdict == "worse"]
    return (*slower, *more)


def _headline(
    outcome: Outcome, found: Sequence[Difference], times: Sequence[TimeChange], counts: Sequence[CountChange]
) -> str:
    stopped = not any(row.verdict != "not compared" for row in times)
    reason = next((f"{one.field} differs ({one.base} against {one.head})" for one in found if one.stops == "*"), "")
    untimed = f" Times were not compared: {reason or 'no phase was timed in both'}." if stopped else ""
    if outcome == "nothing to compare":
        return f"Nothing can be compared.{untimed}"
    if outcome == "regression":
        return f"Regression: {'; '.join(regressions(times, counts))}.{untimed}"
    decisive = [row for row in times if row.decisive]
    if outcome == "inconclusive":
        open_rows = [row for row in decisive if row.verdict == "inconclusive"]
        why = "; ".join(f"{row.label}: {row.why}" for row in open_rows) or "the objective was not timed in both audits"
        return f"No verdict on speed. {why[:1].upper()}{why[1:]}."
    seen = "; ".join(f"{row.label}: {_decided(row)}" for row in decisive if row.verdict != "not compared")
    return f"No regression.{untimed}" + (f" {seen[:1].upper()}{seen[1:]}." if seen else "")


def _decided(row: TimeChange) -> str:
    return f"{row.verdict}, {change(row)}"


def change(row: TimeChange) -> str:
    """The change of a time with its interval: "+17.5% (+15.8% to +19.3%)"."""
    if row.change is None:
        return "not compared"
    if row.low is None or row.high is None:
        return signed(row.change)
    return f"{signed(row.change)} ({signed(row.low)} to {signed(row.high)})"


def signed(share: float) -> str:
    """A relative change: "+17.5%", "-1.6%"."""
    return f"{100 * share:+.1f}%"


def value(row: CountChange, number: float | None) -> str:
    """A counted figure in its unit."""
    if number is None:
        return "not counted"
    if row.unit == "bytes":
        return units.size(number)
    if row.unit == "flops":
        return f"{units.significant(number / 1e9)} GFLOP"
    return f"{number:.2f}" if row.unit == "ratio" else f"{number:,.6g}"


def _warnings(base: Audit, head: Audit) -> tuple[str, ...]:
    named = {"base": base, "head": head}
    found = [
        f"The {name} is an audit that did not finish." for name, audit in named.items() if not audit.settings.complete
    ]
    if base.settings.objective != head.settings.objective:
        found.append(f"The objectives differ; the head's decides: {head.settings.objective}.")
    for name, audit in named.items():
        if audit.trust is not None and audit.trust.grade == "D":
            found.append(f"The {name} has trust grade D: {'; '.join(audit.trust.reasons)}.")
    if base.created > head.created:
        found.append("The base is younger than the head.")
    return tuple(found)
