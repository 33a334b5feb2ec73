"""The first screen as sentences. Terminal, page and comment all print these, word for word."""

from __future__ import annotations

from typing import Literal

import msgspec

from ftprof.advisors.audit import AdviceEntry, Audit, Final
from ftprof.profiler.diagnosis import Lora, PhaseDiagnosis
from ftprof.reports import clean, units, wording

Verdict = Literal["Faster", "Slower", "Unchanged", "Inconclusive", "Failed", "Diagnosed", "Interrupted", "Not measured"]
Tone = Literal["good", "bad", "unsure", "plain"]
FixStatus = Literal["kept", "reverted", "failed", "refused", "not_tried", "advice"]
TONES: dict[Verdict, Tone] = {"Faster": "good", "Slower": "bad", "Failed": "bad", "Inconclusive": "unsure"}
ORDER: tuple[FixStatus, ...] = ("kept", "reverted", "failed", "refused", "not_tried", "advice")


class FixLine(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one fix, as a finished sentence."""

    rule: str
    status: FixStatus
    sentence: str


class Number(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the first screen; `after` is "" where nothing was compared."""

    label: str
    before: str
    after: str = ""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader must know in ten seconds. Every text is finished; "" or () where there is nothing to say."""

    model: str
    context: str
    verdict: Verdict
    tone: Tone
    headline: str
    limit: str
    lora: str
    trades: tuple[str, ...]
    fixes: tuple[FixLine, ...]
    trust: str
    where: str
    load: str
    """Lines of code that load the faster model; not a sentence, printed as they are."""
    warnings: tuple[str, ...]
    numbers: tuple[Number, ...]

    def sentences(self) -> tuple[str, ...]:
        """All sentences of the first screen in the order in which every view prints them."""
        fixes = tuple(line.sentence for line in self.fixes)
        every = (self.headline, self.limit, self.lora, *self.trades, *fixes, self.trust, self.where, *self.warnings)
        return tuple(filter(None, every))


def summarise(audit: Audit) -> Summary:
    """The first screen of a `cleaned` audit."""
    verdict = _verdict(audit)
    return Summary(
        model=clean.name(audit.model.name),
        context=_context(audit),
        verdict=verdict,
        tone=TONES.get(verdict, "plain"),
        headline=_headline(audit, verdict),
        limit=_limit(audit),
        lora=_lora(audit),
        trades=_trades(audit),
        fixes=_fixes(audit),
        trust=_trust(audit),
        where=_where(audit),
        load=_load(audit),
        warnings=tuple(map(wording.sentence, audit.warnings)),
        numbers=_numbers(audit),
    )


def _context(audit: Audit) -> str:
    cpu = audit.machine.cpu if audit.machine else ""
    device = audit.machine.device if audit.machine else audit.workload.device
    hardware = f"{clean.name(cpu)} ({clean.name(device)})" if cpu else clean.name(device)
    made = f"{clean.name(units.moment(audit.created))}, ftprof {clean.name(audit.ftprof_version)}"
    commit = f", commit {clean.name(audit.environment.commit[:12])}" if audit.environment.commit else ""
    return f"{audit.model.task}, {hardware}, {made}{commit}"


def _verdict(audit: Audit) -> Verdict:
    if not audit.settings.complete:
        return "Interrupted"
    if not audit.phases and not (audit.diagnosis and audit.diagnosis.phases):
        return "Not measured"
    if not audit.settings.fixes:
        return "Diagnosed"
    return _final_verdict(audit.final)


def _final_verdict(final: Final | None) -> Verdict:
    if final is None or not final.changes:
        return "Unchanged"
    if final.quality is not None and final.quality.verdict == "fail":
        return "Failed"
    speed = final.objective.verdict if final.objective else "inconclusive"
    if speed == "faster":
        unproven = final.quality is None or final.quality.verdict == "inconclusive"
        return "Inconclusive" if unproven else "Faster"
    return "Slower" if speed == "slower" else "Unchanged" if speed == "equivalent" else "Inconclusive"


def _headline(audit: Audit, verdict: Verdict) -> str:
    final = audit.final
    if final is not None and final.changes:
        found = wording.result(audit, final)
    elif verdict == "Diagnosed":
        found = "Fixes were not asked for, so none was tried."
    elif verdict == "Unchanged":
        found = "No fix made the model faster and kept its outputs, so the original stays."
    elif verdict == "Not measured":
        return "No phase was measured, so nothing can be said about speed."
    else:
        found = _so_far(audit)
    return (
        f"The audit did not finish; what follows is what was measured until then. {found}".strip()
        if (verdict == "Interrupted")
        else found
    )


def _so_far(audit: Audit) -> str:
    kept = sum(trial.status == "kept" for trial in audit.trials)
    if not kept:
        return ""
    fixes = "1 fix was" if kept == 1 else f"{kept} fixes were"
    return f"{fixes} kept, but the result was not compared with the original."


def _limit(audit: Audit) -> str:
    chosen = limiting_phase(audit)
    if chosen is not None:
        return wording.limit(audit, chosen)
    return wording.sentence(audit.diagnosis.headline if audit.diagnosis else "") or "What limits it: not measured."


def limiting_phase(audit: Audit) -> PhaseDiagnosis | None:
    """The phase that the first screen speaks of: the objective's, or the part of it with most time behind a bound."""
    if audit.diagnosis is None:
        return None
    settings = audit.settings
    known = [
        entry
        for entry in audit.diagnosis.phases
        if entry.scenario == settings.objective_scenario and entry.bound != "unknown"
    ]
    # An end-to-end time is a sum of phases with bounds of their own: the parts say more than the sum.
    parts = [entry for entry in known if entry.name not in {"e2e", "load"}]
    exact = [entry for entry in known if entry.name == settings.objective_phase]
    if settings.objective_phase != "e2e" and exact:
        return exact[0]
    tokens = max(audit.workload.tokens(settings.objective_scenario), 1)
    return max(parts or exact, key=lambda entry: _weight(entry, tokens), default=None)


def _weight(entry: PhaseDiagnosis, tokens: int) -> float:
    # Decode is per token, the other phases per unit.
    return entry.time_s.median * (tokens if entry.name == "decode" else 1)


def lora_of(audit: Audit) -> Lora | None:
    """What the adapter costs, wherever the audit holds it."""
    return audit.lora or (audit.diagnosis.lora if audit.diagnosis else None)


def _lora(audit: Audit) -> str:
    lora, name = lora_of(audit), wording.adapter(audit)
    if lora is None:
        has = audit.model.adapter is not None or audit.workload.adapter is not None
        return f"{name} cost: not measured." if has else "LoRA: no adapter is loaded, so there is nothing to merge."
    both = ((_ablation(lora), lora.ablation), ("attribution", lora.attributed))
    what = wording.place(audit, lora.scenario, lora.phase)
    ways = [f"{units.share(share)} by {how}" for how, share in both if share is not None]
    if not ways:
        return f"{name} cost: not measured."
    return f"{name}'s share of {what}: {' and '.join(ways)}{_agreement(lora)}.{_advice(audit, lora)}"


def _ablation(lora: Lora) -> str:
    """How the adapter was taken away. Switched off it keeps its wrappers, which merging removes as well."""
    if lora.ablation is None or lora.ablation != lora.disabled:
        return "ablation"
    stays = f", which leaves its wrappers' {units.percent(lora.wrapper.share)}" if lora.wrapper else ""
    return f"switching it off{stays},"


def _agreement(lora: Lora) -> str:
    if lora.attributed is None or lora.ablation is None:
        missing = "attribution" if lora.attributed is None else "ablation"
        return f"; {missing} was not measured, so nothing confirms it"
    if lora.agree is None:
        return "; whether the two ways agree is not known"
    return "; the two ways agree" if lora.agree else "; the two ways do not agree"


def _advice(audit: Audit, lora: Lora) -> str:
    if audit.final is not None and _merged(audit.final):
        return " It is merged in the best variant."
    words = {
        "merge": " Merge it.",
        "merge-if-single": " Merge it if only one adapter is served.",
        "leave": " Leave it as it is.",
    }
    return words.get(lora.advice, "")


def _merged(final: Final) -> bool:
    """Whether the lines that load the best variant leave no adapter attached."""
    lines = final.load_lines
    return bool(final.changes and lines) and ("PeftModel" not in lines or "merge_and_unload" in lines)


def _trades(audit: Audit) -> tuple[str, ...]:
    if audit.final is not None and audit.final.trades:
        return tuple(wording.trade(audit, loss) for loss in audit.final.trades)
    kept = (trial for trial in audit.trials if trial.status == "kept")
    return tuple(wording.trade(audit, loss, trial.title) for trial in kept for loss in trial.trades)


def _fixes(audit: Audit) -> tuple[FixLine, ...]:
    lines = [
        FixLine(rule=trial.rule, status=trial.status, sentence=wording.fix(audit, trial)) for trial in audit.trials
    ]
    tried = {trial.rule for trial in audit.trials}
    lines += [line for entry in audit.advice if entry.rule not in tried and (line := _advice_line(audit, entry))]
    return tuple(sorted(lines, key=lambda line: ORDER.index(line.status)))


def _advice_line(audit: Audit, entry: AdviceEntry) -> FixLine | None:
    title = wording.capital(clean.name(entry.title))
    if entry.error is not None:
        text = f"{title}: the rule itself failed. {wording.sentence(entry.error)}"
        return FixLine(rule=entry.rule, status="failed", sentence=text)
    if entry.finding is None:
        return None
    finding, seen = entry.finding, wording.sentence(entry.finding.summary)
    if entry.refused is not None:
        return FixLine(rule=entry.rule, status="refused", sentence=f"{title}: {wording.sentence(entry.refused)}")
    if not entry.fixable:
        return FixLine(rule=entry.rule, status="advice", sentence=f"{title}: {seen}")
    guess = wording.predicted(wording.predicted_for(entry.predicted, finding.scenario, finding.phase))
    text = " ".join(filter(None, (guess and f"{guess}.", seen)))
    return FixLine(rule=entry.rule, status="not_tried", sentence=f"{title}: {text}")


def _trust(audit: Audit) -> str:
    if audit.trust is None:
        return "Trust: not graded."
    reasons = " ".join(map(wording.sentence, audit.trust.reasons))
    return f"Trust: grade {audit.trust.grade}. {reasons or 'Nothing cost a grade.'}"


def _where(audit: Audit) -> str:
    final = audit.final
    if final is None or not final.changes:
        return ""
    faster = final.objective is not None and final.objective.verdict == "faster"
    model = "The faster model" if faster else "The changed model"
    if final.artefact is not None and final.artefact.reload == "ok":
        return f"{model} is in {clean.name(final.artefact.path)} and was reloaded and checked."
    if final.artefact is not None:
        return f"The saved model in {clean.name(final.artefact.path)} failed to reload: do not use it."
    return f"{model} was not saved; these lines load it:" if final.load_lines else ""


def _load(audit: Audit) -> str:
    final = audit.final
    if final is None or not final.changes or (final.artefact is not None and final.artefact.reload != "ok"):
        return ""
    return (final.load_lines or (final.artefact.load if final.artefact else "")).strip("\n")


def _numbers(audit: Audit) -> tuple[Number, ...]:
    name = audit.settings.objective_scenario
    times = {entry.name: entry.time_s for entry in audit.phases if entry.scenario == name}
    before = audit.final.before.get(name, {}) if audit.final else {}
    after = audit.final.after.get(name, {}) if audit.final else {}
    numbers = [
        Number(
            label=wording.capital(wording.place(audit, name, phase)),
            # A pair of times comes from one comparison; yesterday's time beside today's would mislead.
            before=units.duration(before[phase].median if phase in after and phase in before else times[phase].median),
            after=units.duration(after[phase].median) if phase in after and phase in before else "",
        )
        for phase in ("e2e", "forward", "prefill", "decode")
        if phase in times
    ]
    memory = audit.model.memory
    return (*numbers, *([Number(label="Peak memory", before=units.size(memory.peak_bytes))] if memory else []))
