"""From a record and its diagnosis to advice: which rules fire, what they predict, and in what order to try them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from ftprof.advisors.audit import AdviceEntry, Predicted
from ftprof.advisors.rule import Finding, PredictedRatio, Prediction, Rule
from ftprof.advisors.rules import load_rules
from ftprof.advisors.track import TrackRecord, corrected
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.quality import Safety
from ftprof.profiler.record import ProbeCase, RunRecord
from ftprof.profiler.workload import Change, labelled

Objective = tuple[str, str]
"""(scenario, phase) that decides."""

# Below 3 % a trial of a few minutes cannot tell a gain from noise: the equivalence margin of the comparison.
WORTHWHILE = 1.03
CLEARLY = 1.15
"""A conversion predicted faster by less than this is not worth more loss."""
ORDER: tuple[Safety, ...] = ("exact", "rounding", "int8", "int4")


class Advised(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, and what was looked at and left alone, as sentences with their figures."""

    entries: tuple[AdviceEntry, ...] = ()
    checked: tuple[str, ...] = ()


LACKING = {"adapter": "no adapter is loaded", "load": "the cold load was not measured", "ops": "nothing was traced"}
"""Why a part of the record is missing, where it can be said better than by its name."""


def applies(rule: Rule, record: RunRecord) -> bool:
    """Whether the rule is for this task and engine, and the record has the parts that it needs."""
    return inapplicable(rule, record) is None


def inapplicable(rule: Rule, record: RunRecord) -> str | None:
    """Why the rule has nothing to say about this record, or None."""
    task = record.workload.task if record.workload else None
    if task is not None and task not in rule.tasks:
        return f"it is not for {task}"
    if record.model is not None and record.model.engine not in rule.engines:
        return f"it reads {', '.join(sorted(rule.engines))}, and the model runs on {record.model.engine}"
    missing = [part for part in rule.needs if getattr(record, part) is None]
    return LACKING.get(missing[0], f"{missing[0]} was not measured") if missing else None


def within(max_loss: Safety, rules: Iterable[Rule]) -> tuple[list[Rule], list[Rule]]:
    """The rules whose class `max_loss` allows, and the others."""
    allowed: list[Rule] = []
    forbidden: list[Rule] = []
    for rule in rules:
        (allowed if ORDER.index(rule.safety) <= ORDER.index(max_loss) else forbidden).append(rule)
    return allowed, forbidden


def wanted_probes(record: RunRecord, diagnosis: Diagnosis, rules: Iterable[Rule]) -> tuple[ProbeCase, ...]:
    """What the rules want timed before they predict, each case once."""
    return tuple(dict.fromkeys(case for rule in rules for case in _probes_of(rule, record, diagnosis)))


def _probes_of(rule: Rule, record: RunRecord, diagnosis: Diagnosis) -> tuple[ProbeCase, ...]:
    try:
        finding = rule.detect(record, diagnosis) if applies(rule, record) else None
        if finding is None:
            return ()
        options = [msgspec.structs.replace(finding, options=options) for options in rule.alternatives(record)]
        wanted = [one for one in options if rule.refuse(record, one) is None]
        return tuple(case for one in wanted for case in rule.probes(record, one))
    except Exception:  # noqa: BLE001 - any fault of a rule: `advise` meets it again and writes it down
        return ()


def advise(
    record: RunRecord,
    diagnosis: Diagnosis,
    rules: Iterable[Rule],
    objective: Objective,
    *,
    now: str,
    tracks: Mapping[str, TrackRecord] = MappingProxyType({}),
) -> Advised:
    """Every rule's advice on this record. `now` (UTC, ISO 8601) stamps the predictions, which `tracks`, the earlier
    ones by rule, correct; nothing is applied here.

    A fix is advice where it is predicted to gain 3 % or more on the objective, and its 80 % interval lies above 1; else
    it is listed under `checked`. A rule that raises becomes an entry with its error.
    """
    entries: list[AdviceEntry] = []
    checked: list[str] = []
    for rule in rules:
        if not applies(rule, record):
            continue
        try:
            finding = rule.detect(record, diagnosis)
            if finding is None:
                continue
            for options in rule.alternatives(record):
                asked = msgspec.structs.replace(finding, options=options)
                found = _examine(rule, record, asked, objective, now, tracks.get(labelled(rule.name, options)))
                (checked if isinstance(found, str) else entries).append(found)  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001 - one rule's fault must not cost the others
            entries.append(_entry(rule, None, error=f"{type(error).__name__}: {error}"))
    return Advised(entries=tuple(entries), checked=tuple(checked))


def _entry(rule: Rule, finding: Finding | None, **more: object) -> AdviceEntry:
    options = finding.options if finding is not None else {}
    bare = AdviceEntry(
        rule=rule.name,
        title=labelled(rule.title, options),
        safety=rule.safety,
        finding=finding,
        options=options,
        fixable=rule.fixes(),
        steps=rule.steps,
    )
    return msgspec.structs.replace(bare, **more)


def _examine(
    rule: Rule, record: RunRecord, finding: Finding, objective: Objective, now: str, track: TrackRecord | None
) -> AdviceEntry | str:
    """An entry, or the sentence why the finding was left alone."""
    refused = rule.refuse(record, finding)
    prediction = rule.predict(record, finding)
    prediction = msgspec.structs.replace(prediction, ratios=corrected(prediction.ratios, track))
    predicted = (
        Predicted(ratios=prediction.ratios, basis=prediction.basis, at=now, track=track) if prediction.ratios else None
    )
    if refused is None and rule.fixes():
        probed = bool(rule.probes(record, finding))
        if why := _not_worth(labelled(rule.name, finding.options), prediction, objective, probed=probed):
            return why
    return _entry(rule, finding, predicted=predicted, refused=refused)


def worthwhile(ratio: PredictedRatio) -> bool:
    """Whether a trial could tell the predicted gain from noise."""
    return ratio.speedup >= WORTHWHILE and ratio.low > 1.0


def _not_worth(name: str, prediction: Prediction, objective: Objective, *, probed: bool) -> str | None:
    """Why a fix is left alone, or None where it promises enough (or promises nothing but needs no probe)."""
    scenario, phase = objective
    ratio = prediction.get(scenario, phase)
    if not prediction.ratios:
        return f"{name}: its probes were not run, so nothing is predicted: left alone" if probed else None
    if ratio is not None and worthwhile(ratio):
        return None
    said = f"predicted {spell(ratio)} on {scenario} {phase}" if ratio else f"does not touch {scenario} {phase}"
    return f"{name}: {said} ({prediction.basis}): left alone{_elsewhere(prediction, objective)}"


def _elsewhere(prediction: Prediction, objective: Objective) -> str:
    """Where else the fix would gain most, for a person with another objective."""
    others = [
        (ratio.speedup, scenario, phase)
        for scenario, phases in prediction.ratios.items()
        for phase, ratio in phases.items()
        if (scenario, phase) != objective and worthwhile(ratio)
    ]
    if not others:
        return ""
    speedup, scenario, phase = max(others)
    return f"; {scenario} {phase} alone would gain {speedup:.2f}x"


def spell(ratio: PredictedRatio) -> str:
    """`0.84x (0.78 to 0.91)`."""
    return f"{ratio.speedup:.2f}x ({ratio.low:.2f} to {ratio.high:.2f})"


def rank(
    entries: Iterable[AdviceEntry], seconds_per_trial: float | Mapping[str, float], objective: Objective | None = None
) -> tuple[AdviceEntry, ...]:
    """Order of trials: exact, then rounding, then lossy, and inside a class by predicted share of time saved per second
    of trial (a number, or one by rule). Conversions to another runtime come after what stays on this one, since they
    build on it; they are alternatives, so the one predicted clearly faster goes first whatever its class, and a milder
    one is left for when that fails. What cannot be tried (advice only, refused, failed) comes last.

    Without `objective`, each entry is judged by the phase of its own finding.
    """

    rules = {rule.name: rule for rule in load_rules()}

    def key(entry: AdviceEntry) -> tuple[bool, bool, int, int, float, str]:
        cost = seconds_per_trial[entry.rule] if isinstance(seconds_per_trial, Mapping) else seconds_per_trial
        untried = not entry.fixable or entry.refused is not None or entry.error is not None
        moves = entry.rule in rules and rules[entry.rule].convert is not None
        saved = gain(entry, objective)
        steps = round(-math.log1p(-saved) / math.log(CLEARLY)) if moves else 0
        return untried, moves, -steps, ORDER.index(entry.safety), -saved / max(cost, 1e-9), entry.rule

    return tuple(sorted(entries, key=key))


def gain(entry: AdviceEntry, objective: Objective | None = None) -> float:
    """Predicted share of the objective's time that is saved; 0 where nothing is predicted."""
    if objective is None and entry.finding is not None:
        objective = (entry.finding.scenario, entry.finding.phase)
    if entry.predicted is None or objective is None:
        return 0.0
    ratio = entry.predicted.ratios.get(objective[0], {}).get(objective[1])
    return 1.0 - 1.0 / ratio.speedup if ratio else 0.0


def blocked(
    entry: AdviceEntry, kept: Sequence[Change], max_loss: Safety = "int4", rules: Iterable[Rule] | None = None
) -> str | None:
    """Why an entry must not be tried on top of the changes kept so far, or None.

    `conflicts` names the rules after which this one is void; `requires` those that must be kept before it.
    """
    if entry.error is not None or entry.refused is not None:
        return entry.refused or "the rule itself failed"
    if not entry.fixable:
        return "advice only: there is nothing that ftprof could apply"
    if ORDER.index(entry.safety) > ORDER.index(max_loss):
        return f"its class is {entry.safety}, and --max-loss allows {max_loss}"
    rule = {rule.name: rule for rule in (load_rules() if rules is None else rules)}[entry.rule]
    if entry.key in [change.key for change in kept]:
        return "it is applied already"
    return _out_of_turn(rule, [change.rule for change in kept])


def _out_of_turn(rule: Rule, kept: Sequence[str]) -> str | None:
    if void := [name for name in kept if name in rule.conflicts]:
        return f"void after {', '.join(void)}"
    if missing := [name for name in rule.requires if name not in kept]:
        return f"needs {', '.join(missing)} first"
    return None


def applicable(entry: AdviceEntry, kept: Sequence[Change], max_loss: Safety = "int4") -> bool:
    """Whether an entry may be tried on top of the changes kept so far; `blocked` says why not."""
    return blocked(entry, kept, max_loss) is None
