"""Demands without an interval: a finished audit, quality, findings, trust, and what a release asks for."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Sequence

from ftprof.advisors.audit import AdviceEntry, Audit
from ftprof.advisors.rules import get_rule
from ftprof.profiler.rows import load_rows, write_rows
from ftprof.reports import units
from ftprof.reports.check_budget import Budget, Deployment, FindingLimits, Ignore, QualityDemands
from ftprof.reports.check_document import Judged, Outcome, Site, Subject, missing, yes_no

GRADES = "ABCD"
OWN_PROMPTS = "ftprof's own, not yours"
"""What an audit's warnings say of the built-in prompts, whatever they were in the version that made it."""


def demands(subject: Subject, budget: Budget, site: Site, today: datetime.date) -> Iterator[Judged]:
    """All demands of the budget that are met or not, without an interval."""
    yield _complete(subject.audit)
    if budget.quality is not None:
        yield from _quality(subject, budget.quality)
    yield from _findings(subject, budget.findings or FindingLimits(), budget.ignore, today)
    if budget.trust is not None and budget.trust.grade is not None:
        yield _trust(subject.audit, budget.trust.grade)
    if budget.deployment is not None:
        yield from _deployment(subject, budget, budget.deployment, site)


def _complete(audit: Audit) -> Judged:
    done = audit.settings.complete
    why = "the run was interrupted or stopped; its figures are provisional"
    return yes_no("complete", done, limit="a finished audit", found="finished" if done else "not finished", why=why)


def _quality(subject: Subject, wanted: QualityDemands) -> Iterator[Judged]:
    if wanted.verdict is not None:
        yield _verdict(subject)
    if wanted.own_data:
        own = not _built_in(subject.audit)
        found = "your own data" if own else "ftprof's built-in prompts"
        yield yes_no("quality.own_data", own, limit="your own data", found=found, why="run ftprof diagnose with --data")


def _verdict(subject: Subject) -> Judged:
    final = subject.audit.final
    if final is None or not final.changes:
        return Judged(name="quality.verdict", outcome="met", limit="pass", found="nothing was changed")
    if final.quality is None:
        return missing("quality.verdict", "pass", "the outputs of the changed model were not checked")
    outcomes: dict[str, Outcome] = {"pass": "met", "fail": "broken", "inconclusive": "uncertain"}
    check = final.quality
    return Judged(
        name="quality.verdict", outcome=outcomes[check.verdict], limit="pass", found=check.verdict, why=check.why
    )


def _built_in(audit: Audit) -> bool:
    """Whether the rows were the ones that ftprof brings along."""
    if any(OWN_PROMPTS in warning for warning in audit.warnings):
        return True
    return write_rows(load_rows(None, task=audit.workload.task).rows, os.devnull) == audit.workload.rows_digest


def firing(subject: Subject) -> list[AdviceEntry]:
    """Findings that hold for the subject: those of the loaded model, less what the best variant has fixed."""
    changes = subject.audit.final.changes if subject.changed and subject.audit.final else ()
    fixed = {change.rule for change in changes}
    return [entry for entry in subject.audit.advice if entry.finding is not None and entry.rule not in fixed]


def _findings(
    subject: Subject, wanted: FindingLimits, ignores: Sequence[Ignore], today: datetime.date
) -> Iterator[Judged]:
    found = firing(subject)
    for rule in (*wanted.forbid, *(ignore.rule for ignore in ignores)):
        if all(rule != entry.rule for entry in subject.audit.advice):
            get_rule(rule)  # an unknown name is a slip of the pen, and the error says which was meant
    yield from (_expired(ignore) for ignore in ignores if ignore.expires < today)
    accepted = {ignore.rule: ignore for ignore in ignores if ignore.expires >= today}
    fires = {entry.rule: entry for entry in found}
    for rule in dict.fromkeys(wanted.forbid):
        yield _forbidden(rule, fires.get(rule), accepted.get(rule))
    for entry in found:
        if entry.safety in wanted.safety and entry.rule not in wanted.forbid and _left_undone(subject.audit, entry):
            why = f"a fix of class {entry.safety} is left undone"
            yield _forbidden(entry.key, entry, accepted.get(entry.rule), why)
    if wanted.most is not None:
        counted = [rule for rule in fires if rule not in accepted]
        text = f"{len(counted)} ({', '.join(counted)})" if counted else "0"
        yield yes_no("findings.most", len(counted) <= wanted.most, limit=f"at most {wanted.most}", found=text)


def _expired(ignore: Ignore) -> Judged:
    why = f"expired on {ignore.expires}; decide anew whether it is accepted ({ignore.reason})"
    return Judged(name=f"ignore.{ignore.rule}", outcome="broken", limit="not expired", found="expired", why=why)


def _forbidden(rule: str, entry: AdviceEntry | None, ignore: Ignore | None, why: str = "") -> Judged:
    name = f"findings.{rule}"
    if entry is None or entry.finding is None:
        return Judged(name=name, outcome="met", limit="does not fire", found="does not fire")
    seen = entry.finding.summary
    if ignore is not None:
        reason = f"accepted until {ignore.expires}: {ignore.reason}"
        return Judged(name=name, outcome="ignored", limit="does not fire", found=seen, why=reason)
    return Judged(
        name=name, outcome="broken", limit="does not fire", found=seen, why=why or f"ftprof explain {entry.rule}"
    )


def _left_undone(audit: Audit, entry: AdviceEntry) -> bool:
    """Whether a fix is there that nothing speaks against: not refused, and not found useless or harmful in its trial."""
    if not entry.fixable or entry.refused is not None:
        return False
    last = [trial.status for trial in audit.trials if trial.key == entry.key][-1:]
    return not last or last[0] in ("kept", "not_tried")


def _trust(audit: Audit, wanted: str) -> Judged:
    if audit.trust is None:
        return missing("trust.grade", f"{wanted} or better", "the audit was not graded")
    met = GRADES.index(audit.trust.grade) <= GRADES.index(wanted)
    why = "; ".join(audit.trust.reasons)
    return yes_no("trust.grade", met, limit=f"{wanted} or better", found=audit.trust.grade, why=why)


def _deployment(subject: Subject, budget: Budget, wanted: Deployment, site: Site) -> Iterator[Judged]:
    if wanted.this_machine:
        yield _machine(subject.audit, site)
    if wanted.cold_start:
        yield _cold_start(subject)
    if wanted.peak_at_largest_context:
        yield _largest_context(subject, budget)
    if wanted.artefact:
        yield _artefact(subject, site)


def _machine(audit: Audit, site: Site) -> Judged:
    name, limit = "deployment.this_machine", "measured on the machine that it will run on"
    measured = audit.environment.fingerprint or (audit.machine.fingerprint if audit.machine else "")
    if not measured:
        return missing(name, limit, "the audit has no fingerprint of its machine")
    found = f"{measured[:12]}; this machine is {site.fingerprint[:12]}"
    why = "another processor, memory, kernel, Python or torch: run ftprof diagnose here"
    return yes_no(name, measured == site.fingerprint, limit=limit, found=found, why=why)


def _cold_start(subject: Subject) -> Judged:
    name, limit = "deployment.cold_start", "a cold start was measured"
    load = None if subject.changed else subject.audit.model.load
    if load is None:
        whose = "the changed model's" if subject.changed else "the model's"
        return missing(name, limit, f"{whose} cold start is not in the audit; run ftprof diagnose on the saved model")
    seconds = units.duration(load.import_s + load.build_s + load.adapter_s + load.first_use_s)
    why = "its files were still in memory, so the disk was not measured: the system did not let them be dropped"
    return yes_no(name, load.evicted, limit=limit, found=seconds, why=why)


def _largest_context(subject: Subject, budget: Budget) -> Judged:
    """The run's peak counts where its longest prompt with its answer was as long as any that will be served."""
    audit, name = subject.audit, "deployment.peak_at_largest_context"
    stated = budget.memory.largest_context if budget.memory else None
    facts = audit.model.facts
    largest = int(stated.value) if stated else facts.max_context if facts else None
    limit = f"peak memory at {largest} tokens" if largest else "peak memory at the largest context"
    if largest is None:
        return missing(name, limit, "the model's largest context is not known; set memory.largest-context")
    if subject.changed or audit.model.memory is None:
        return missing(name, limit, "not measured for the model that is deployed; run ftprof diagnose on it")
    # The places of a decoder that has an encoder beside it are not the prompt's.
    after = 0 if audit.workload.task == "seq2seq-lm" else audit.workload.new_tokens
    seen = max(audit.workload.prompt_tokens, default=0) + after
    if seen < largest:
        advice = "give --data with prompts as long as they get, or set memory.largest-context to what is served"
        return missing(name, limit, f"not measured: the longest sample had {seen} tokens; {advice}")
    return Judged(name=name, outcome="met", limit=limit, found=units.size(audit.model.memory.peak_bytes))


def _artefact(subject: Subject, site: Site) -> Judged:
    name, limit = "deployment.artefact", "the files that were proven"
    final = subject.audit.final
    saved = final.artefact if final is not None and subject.changed else None
    if subject.changed and saved is None:
        return missing(name, limit, "the faster model was not saved: run ftprof diagnose with --save")
    if saved is not None and saved.reload != "ok":
        return yes_no(name, False, limit=limit, found="failed to reload", why=saved.reload_detail)
    proven = saved.sha256 if saved else subject.audit.model.sha256
    if not site.digest or not proven:
        return missing(name, limit, site.problem or "the audit has no digest of what it proved")
    found = f"sha256 {site.digest[:12]} in {site.directory}"
    return yes_no(name, site.digest == proven, limit=limit, found=found, why=f"sha256 {proven[:12]} was proven")
