"""`ftprof check`: one audit judged against a budget. Pure: documents in, document out."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import msgspec

from ftprof.advisors.audit import Audit
from ftprof.profiler.errors import Exit
from ftprof.reports import clean, units
from ftprof.reports.check_budget import Budget
from ftprof.reports.check_demands import demands, firing
from ftprof.reports.check_document import FAILURES, Checked, Judged, Outcome, Site, Subject
from ftprof.reports.check_limits import limits
from ftprof.reports.compare_document import Compared

UNCERTAIN: dict[str, Outcome] = {"fail": "broken", "pass": "met"}


def check(
    audit: Audit,
    budget: Budget,
    *,
    today: datetime.date,
    site: Site | None = None,
    compared: Compared | None = None,
) -> Checked:
    """`budget`, with its preset already in it, held against `audit`.

    `site` is what the checking machine says of itself where the budget asks (`check_site.look`); `compared` a
    comparison with the base audit, for limits on change. FtprofError (usage) for a limit below the noise floor, in
    another unit than the model's, or on a rule that does not exist.
    """
    audit = clean.cleaned(audit)
    changed = budget.subject == "best" and audit.final is not None and bool(audit.final.changes)
    subject = Subject(audit=audit, changed=changed)
    found = [*limits(subject, budget, compared), *demands(subject, budget, site or Site(), today)]
    judged = tuple(_decided(one, budget) for one in found)
    code = _exit(judged)
    return Checked(
        model=f"{clean.name(audit.model.name)} ({audit.model.sha256[:12]}), {units.moment(audit.created)}",
        subject="the best variant" if changed else "the model as loaded",
        passed=code == Exit.DONE,
        exit_code=int(code),
        headline=_headline(judged, code),
        demands=judged,
        notes=_notes(subject, budget, today),
    )


def _decided(one: Judged, budget: Budget) -> Judged:
    """An uncertain figure as the budget wants it counted."""
    outcome = UNCERTAIN.get(budget.on_uncertain or "", one.outcome)
    return msgspec.structs.replace(one, outcome=outcome) if one.outcome == "uncertain" else one


def _exit(judged: Sequence[Judged]) -> Exit:
    if any(one.outcome in FAILURES for one in judged):
        return Exit.GATE_FAILED
    if any(one.outcome == "uncertain" for one in judged):
        return Exit.UNRELIABLE
    # That the audit is finished is no demand of the budget: with nothing else, nothing was judged.
    return Exit.DONE if len(judged) > 1 else Exit.NOTHING


def _headline(judged: Sequence[Judged], code: Exit) -> str:
    if code == Exit.NOTHING:
        return "The budget demands nothing of this audit."
    failed = [one.name for one in judged if one.outcome in FAILURES]
    unsure = [one.name for one in judged if one.outcome == "uncertain"]
    met = sum(one.outcome == "met" for one in judged)
    if code == Exit.GATE_FAILED:
        return f"{len(failed)} of {len(judged)} demands failed: {', '.join(failed)}."
    if code == Exit.UNRELIABLE:
        return f"{len(unsure)} of {len(judged)} demands cannot be decided from this audit: {', '.join(unsure)}."
    return f"All {met} demands are met."


def _notes(subject: Subject, budget: Budget, today: datetime.date) -> tuple[str, ...]:
    fires = {entry.rule for entry in firing(subject)}
    unused = [one.rule for one in budget.ignore if one.rule not in fires and one.expires >= today]
    found = [f"An ignore is not needed any more: {rule} does not fire." for rule in unused]
    return tuple(found)
