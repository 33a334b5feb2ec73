"""The words for one measured thing. Every view uses these, so that no two views can say different things."""

from __future__ import annotations

import math

from ftprof.advisors.audit import Audit, Final, Predicted, Trade, Trial
from ftprof.advisors.rule import PredictedRatio
from ftprof.advisors.track import LEAST
from ftprof.profiler.comparison import Ratio
from ftprof.profiler.diagnosis import Ledger, PhaseDiagnosis
from ftprof.profiler.quality import QualityCheck
from ftprof.reports import clean, units

PHASES = {
    "load": "cold load",
    "tokenise": "tokenising",
    "prefill": "first token",
    "decode": "decode per token",
    "forward": "forward pass",
    "e2e": "end to end",
}
BOUNDS = {
    "compute": "compute",
    "memory": "memory bandwidth",
    "host": "the host (Python)",
    "io": "reading files",
    "sync": "waiting for the device",
    "mixed": "no single resource",
    "unknown": "an unknown cause",
}
FIGURES = {
    "kl": "mean KL divergence",
    "top1": "top-1 agreement",
    "perplexity_ratio": "perplexity ratio",
    "prompt_kl": "mean KL divergence, prompt positions",
    "prompt_top1": "top-1 agreement, prompt positions",
    "label_agreement": "label agreement",
    "accuracy_change": "change of accuracy",
    "cosine": "mean cosine similarity",
    "neighbour_overlap": "top-10 neighbour overlap",
    "task_score_change": "change of task score",
}
SENTENCE_LIMIT = 600
"""Characters of a reason from elsewhere (an error's message, say); the whole is in audit.json."""
STATUSES = {
    "kept": "kept",
    "reverted": "reverted",
    "failed": "failed",
    "refused": "refused",
    "not_tried": "not tried",
    "advice": "advice",
}


def phase(name: str) -> str:
    """The name of a phase inside a sentence."""
    return PHASES.get(name, name)


def batch(audit: Audit, scenario_name: str, phase_name: str = "") -> str:
    """The rows of one call in a scenario: "1", "8"; "" for the cold load, which belongs to no scenario."""
    if phase_name == "load" or not scenario_name:
        return ""
    rows = {"single": 1, "batch": audit.workload.call.batch_size}.get(scenario_name)
    return str(rows) if rows else scenario_name


def place(audit: Audit, scenario_name: str, phase_name: str) -> str:
    """A phase of a scenario: "decode per token (batch of 1)"."""
    rows = batch(audit, scenario_name, phase_name)
    return f"{phase(phase_name)} ({f'batch of {rows}' if rows.isdigit() else rows})" if rows else phase(phase_name)


def adapter(audit: Audit) -> str:
    """What people call the kind of adapter: LoRA unless the audit says otherwise."""
    facts = audit.model.adapter
    return clean.name(facts.title) if facts is not None and facts.title else "LoRA"


def capital(text: str) -> str:
    """`text` with its first letter upper-case and the rest as it is."""
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """`text` as a sentence: a capital first, a full stop last, at most `SENTENCE_LIMIT` long; "" stays ""."""
    text = clean.name(" ".join(text.split()), SENTENCE_LIMIT)
    return text and capital(text) + ("" if text.endswith((".", "!", "?", ":")) else ".")


def measured(ratio: Ratio | None) -> str:
    """A measured ratio with what it shows: "1.58x faster (1.51 to 1.66)"."""
    if ratio is None:
        return "speed not measured"
    if ratio.verdict == "faster":
        return f"{units.factor(ratio.speedup)} faster ({units.speedup(ratio).partition('(')[2]}"
    if ratio.verdict == "slower" and min(ratio.low, ratio.speedup, ratio.high) > 0:
        low, high = units.factor(1 / ratio.high)[:-1], units.factor(1 / ratio.low)[:-1]
        return f"{units.factor(1 / ratio.speedup)} slower ({low} to {high})"
    what = "same speed" if ratio.verdict == "equivalent" else "speed inconclusive"
    return f"{what}, {units.speedup(ratio)}"


def predicted(ratio: PredictedRatio | None) -> str:
    """A predicted speed-up, always labelled so; "" where there is none."""
    return f"predicted {units.speedup(ratio)}" if ratio else ""


def predicted_for(prediction: Predicted | None, scenario_name: str, phase_name: str) -> PredictedRatio | None:
    """The prediction for one phase, or None."""
    return prediction.get(scenario_name, phase_name) if prediction else None


def track(prediction: Predicted) -> str:
    """How good the rule's earlier predictions on this machine were, and whether that corrected this one."""
    found = prediction.track
    if found is None:
        return "the rule has no earlier predictions on this machine"
    many = f"{found.n} earlier prediction{'' if found.n == 1 else 's'} of the rule on this machine"
    off = f"{many}: off by {units.percent(math.expm1(found.error))} in the median, {units.percent(found.inside)} inside"
    return f"{off} their interval{', and this one is corrected by that' if found.n >= LEAST else ''}"


def outputs(check: QualityCheck | None) -> str:
    """What the quality check showed: "outputs unchanged (16 of 16 replies identical)"."""
    if check is None:
        return "outputs not checked"
    if check.verdict == "fail":
        return "outputs changed beyond the limit"
    if check.verdict == "inconclusive":
        return "outputs not proven the same"
    return unchanged(check) or f"outputs within limits{_headline_figure(check)}"


def unchanged(check: QualityCheck) -> str:
    """What was seen to be identical in every case that was looked at, or "". A label can stay while its score moves."""
    generation = check.generation
    if generation is not None:
        same = generation.prompts > 0 and generation.identical == generation.prompts
        return f"outputs unchanged ({generation.identical} of {generation.prompts} replies identical)" if same else ""
    labels = check.figures.get("label_agreement")
    if labels is not None and labels.value == 1 and check.documents:
        return f"labels unchanged (all {check.documents} rows)"
    return ""


def _headline_figure(check: QualityCheck) -> str:
    for name in ("top1", "label_agreement", "cosine", "kl"):
        if name in check.figures:
            return f" ({FIGURES[name]} {figure(name, check.figures[name].value)})"
    return ""


def figure(name: str, value: float) -> str:
    """A quality figure in its own unit: shares in percent, the rest as numbers."""
    if name in {"top1", "prompt_top1", "label_agreement", "neighbour_overlap"}:
        return units.percent(value)
    if name in {"accuracy_change", "task_score_change"}:
        return f"{100 * value:+.1f} points"
    if name == "cosine":
        return f"{value:.4f}"
    if name == "perplexity_ratio":
        return f"{value:.4f}"
    return units.significant(value, 2)


def limit(audit: Audit, diagnosis: PhaseDiagnosis) -> str:
    """What limits one phase, how sure that is, and how near the measured limit it runs."""
    where = capital(place(audit, diagnosis.scenario, diagnosis.name))
    if diagnosis.bound == "unknown":
        return f"{where}: what limits it is not known."
    how = "confirmed" if diagnosis.confirmed else "suspected, not confirmed"
    text = f"{where} is limited by {BOUNDS[diagnosis.bound]} ({how})"
    if diagnosis.bound == "mixed" and diagnosis.ledger is not None:
        text = (
            f"{where} has no single limit: {_parts(diagnosis.ledger)} of its {units.duration(diagnosis.time_s.median)}"
        )
    elif diagnosis.bound_share is not None:
        text += f": {units.percent(diagnosis.bound_share)} of its {units.duration(diagnosis.time_s.median)}"
    if diagnosis.headroom is not None:
        text += f". It reaches {units.percent(diagnosis.headroom)} of the limit measured on this machine"
    return text + "."


def _parts(ledger: Ledger) -> str:
    """The two largest groups of a ledger with their shares of the time."""
    groups = sorted(ledger.grouped().items(), key=lambda item: -item[1])[:2]
    return " and ".join(f"{name} {units.percent(seconds / ledger.total_s)}" for name, seconds in groups)


def trade(audit: Audit, loss: Trade, fix: str = "") -> str:
    """A phase that a kept fix slows, as a sentence."""
    by = f' by "{clean.name(fix)}"' if fix else ""
    return f"Trade: {place(audit, loss.scenario, loss.phase)} was made {measured(loss.ratio)}{by}."


def fix(audit: Audit, trial: Trial) -> str:
    """One trial as a finished sentence: "Merge the adapter: 1.58x faster (1.51 to 1.66), outputs unchanged."

    Views print the status beside it.
    """
    settings = audit.settings
    guess = predicted(predicted_for(trial.predicted, settings.objective_scenario, settings.objective_phase))
    title, why = capital(clean.name(trial.title)), sentence(trial.why)
    if trial.status == "kept":
        return f"{title}: {measured(trial.objective)}, {outputs(trial.quality)}."
    if trial.status == "reverted":
        seen = [measured(trial.objective)] if trial.objective else []
        seen += [outputs(trial.quality)] if trial.quality else []
    else:
        seen = [guess] if guess else []
    # A title alone says nothing: with neither figure nor reason, the status itself must.
    text = ", ".join(seen) or ("" if why else STATUSES[trial.status])
    return f"{title}: {' '.join(filter(None, (text and text + '.', why)))}"


def result(audit: Audit, final: Final) -> str:
    """The direct comparison of the best variant with the original, as a sentence."""
    settings = audit.settings
    what = place(audit, settings.objective_scenario, settings.objective_phase)
    return f"{capital(what)}: {measured(final.objective)}, {outputs(final.quality)}."
