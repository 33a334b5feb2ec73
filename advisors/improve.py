"""The loop: advise, try the most promising fix beside the best so far, keep or revert, look again."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec

from ftprof.advisors.advise import Advised, advise, applies, blocked, rank, wanted_probes, within
from ftprof.advisors.afford import OTHER_PART, first_affordable
from ftprof.advisors.audit import AdviceEntry, Trial
from ftprof.advisors.baseline import LEAST_QUADS, ablation_pairs, phase_timing, traced
from ftprof.advisors.context import Context, Options
from ftprof.advisors.conversions import probe_depths
from ftprof.advisors.decide import enough, gate_reason, guard_broken, speed_reason, trades
from ftprof.advisors.duel import Samples, duel, ratios
from ftprof.advisors.gate import Gate
from ftprof.advisors.ladder import next_rungs
from ftprof.advisors.laxest import laxest
from ftprof.advisors.memory import fits
from ftprof.advisors.rule import Rule
from ftprof.advisors.rules import load_rules
from ftprof.advisors.scored import fingerprint, log_error, remember_trial
from ftprof.advisors.stacking import MERGE, stacked
from ftprof.advisors.track import track_records
from ftprof.advisors.untried import refused, unmade
from ftprof.advisors.variant import RestartArm, Variant, VariantArm
from ftprof.profiler.comparison import Comparison
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.ledger import diagnose
from ftprof.profiler.record import AblationPair, ProbeCase, ProbeResult, RunRecord
from ftprof.profiler.workload import Change

PROBE_S = 8.0
# Of timing alone; building the shallow copies takes as long again.
DEPTH_PROBE_S = 6.0
# Writing the best variant, loading it again and running its own lines.
SAVE_SHARE = 0.06
# A worker from the fork server, before it loads.
START_S = 0.5
# Without fixes, the comparison with a merged copy may take this share of the budget.
ABLATION_SHARE = 0.12


@dataclass(frozen=True, kw_only=True)
class Best:
    """The best variant so far and what is known of it."""

    variant: Variant
    record: RunRecord
    diagnosis: Diagnosis
    objective: tuple[str, str]

    @property
    def changes(self) -> tuple[Change, ...]:
        """The fixes that it carries."""
        return self.variant.workload.changes


@dataclass(frozen=True, kw_only=True)
class Improved:
    """What the loop came to. `pairs` compare the adapter with none at all, where a trial measured that."""

    best: Best
    advice: Advised
    trials: tuple[Trial, ...]
    pairs: tuple[AblationPair, ...] = ()


def utc_now() -> str:
    """The time now, UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def advised(context: Context, best: Best) -> tuple[Best, Advised]:
    """Advice for the best variant, after timing what its rules asked for. Rules of a class that --max-loss forbids are
    not looked at, since what they need to be predicted takes time."""
    rules, forbidden = _looked_into(context.options)
    done = {result.case for result in best.record.probes or ()}
    cases = [case for case in wanted_probes(best.record, best.diagnosis, rules) if case not in done]
    if cases and not context.budget.left():
        context.progress.note("The budget was spent before fixes could be predicted.")
    elif cases:
        context.progress.stage("probing what fixes would bring")
        probes = (*(best.record.probes or ()), *_probed(context, best, cases))
        best = replace(best, record=msgspec.structs.replace(best.record, probes=probes))
    tracks = track_records(fingerprint(best.record))
    found = advise(best.record, best.diagnosis, rules, best.objective, now=utc_now(), tracks=tracks)
    left = [f"{rule.name}: {why}: not looked at" for rule, why in forbidden if applies(rule, best.record)]
    return best, msgspec.structs.replace(found, checked=(*found.checked, *left))


def _looked_into(options: Options) -> tuple[list[Rule], list[tuple[Rule, str]]]:
    """The rules that the user's choices allow, and the others with the reason."""
    allowed, forbidden = within(options.max_loss, load_rules())
    others = [(rule, f"its class is {rule.safety}, and --max-loss allows {options.max_loss}") for rule in forbidden]
    if options.runtime == "torch":
        others += [(rule, "--runtime torch keeps the model on PyTorch") for rule in allowed if rule.convert]
        allowed = [rule for rule in allowed if rule.convert is None]
    return allowed, others


def _probed(context: Context, best: Best, cases: Sequence[ProbeCase]) -> tuple[ProbeResult, ...]:
    """Results of probes in the best variant's worker, and of shallow copies of the model on other runtimes."""
    depth = tuple(case for case in cases if case.kind == "depth")
    rest = tuple(case for case in cases if case.kind != "depth")
    results: list[ProbeResult] = []
    try:
        if rest:
            seconds = min(PROBE_S, context.budget.left())
            results += best.variant.handle().call("probe", rest, seconds, timeout_s=context.patience())
        best.variant.rest()
        if depth:
            results += probe_depths(context, best.variant.workload, depth, DEPTH_PROBE_S)
    except FtprofError as error:
        context.progress.note(f"Probes failed, so what needs them is not predicted: {error.message}")
    return tuple(results)


def improve(
    context: Context,
    best: Best,
    gate: Gate,
    on_change: Callable[[Improved], None],
    earlier: Sequence[Trial] = (),
) -> Improved:
    """Try fixes until none is left or the time is; `on_change` sees the state after each trial.

    `earlier` are trials of an earlier run that stay decided.
    """
    trials = list(earlier)
    pairs: tuple[AblationPair, ...] = ()
    tried = {trial.key for trial in earlier}
    best, first = advised(context, best)
    best, advice = _with_earlier(context, best, first, earlier)
    while waiting := _waiting(advice, best, tried, context, trials):
        on_change(Improved(best=best, advice=first, trials=tuple(trials), pairs=pairs))
        chosen = first_affordable(
            waiting,
            best.record,
            best.objective,
            gate.seconds,
            _room_s(context),
            context.budget.total_s,
            _restart_s(context, best),
        )
        if chosen is None:
            trials += [unmade(left, best.changes, "not_tried", "the budget was spent") for left in waiting]
            tried |= {left.key for left in waiting}
            break
        entry, seconds = chosen
        tried.add(entry.key)
        outcome = attempt(context, best, gate, entry, seconds)
        trials.append(outcome.trial)
        remember_trial(outcome.trial, best.objective, fingerprint(best.record))
        pairs = pairs or outcome.pairs
        if outcome.better is not None:
            best, advice = advised(context, outcome.better)
    trials += refused(first, advice, best.changes, tried, context.options.max_loss, trials)
    return Improved(best=best, advice=first, trials=tuple(trials), pairs=pairs)


def _with_earlier(context: Context, best: Best, advice: Advised, earlier: Sequence[Trial]) -> tuple[Best, Advised]:
    """The best variant with the fixes that an earlier run kept, timed and advised on; as it is where it kept none."""
    kept: tuple[Change, ...] = ()
    for trial in earlier:
        if trial.status == "kept" and trial.change is not None:
            kept = stacked(kept, trial.change, attached=best.record.adapter is not None)
    if not kept:
        return best, advice
    context.progress.stage("the variant that the earlier run kept")
    workload = msgspec.structs.replace(best.variant.workload, changes=kept)
    variant = Variant(context, "resumed", workload)
    samples: dict[str, Samples] = {scenario.name: _alone(variant, scenario.name) for scenario in workload.scenarios}
    better = _better(context, best, variant, samples)
    best.variant.close()
    return advised(context, better)


def _alone(variant: Variant, scenario: str) -> Samples:
    """A few samples of one variant with nothing beside it; they feed the diagnosis, no comparison."""
    arm = VariantArm(variant)
    arm.enter(scenario, 0)
    units = [arm.sample(scenario, unit) for unit in range(3)]
    phases = {phase: tuple(times[phase] for times in units) for phase in units[0]}
    return Samples(sequence=("B",) * len(units), phases=phases)


def _waiting(
    advice: Advised, best: Best, tried: set[str], context: Context, trials: Sequence[Trial]
) -> list[AdviceEntry]:
    rules = load_rules()
    entries = [
        entry
        for entry in next_rungs(advice.entries, tried, trials)
        if entry.key not in tried and blocked(entry, best.changes, context.options.max_loss, rules) is None
    ]
    return list(rank(entries, 1.0, best.objective))


def _room_s(context: Context) -> float:
    """Seconds for trials: what is left without the final comparison and without saving the best variant."""
    return context.budget.left_for_trials() - (SAVE_SHARE * context.budget.total_s if context.options.save else 0.0)


def _side_by_side(context: Context, best: Best) -> bool:
    """Whether memory holds the best variant and a candidate."""
    loaded = best.variant.loaded
    return loaded is None or fits(loaded, context.options.memory_limit_bytes, more=1 if best.variant.up else 2)


def _restart_s(context: Context, best: Best) -> float:
    """Seconds that a change of sides takes: 0 where both stay up."""
    loaded = best.variant.loaded
    if loaded is None or _side_by_side(context, best):
        return 0.0
    return START_S + loaded.build_s + loaded.adapter_s + loaded.apply_s


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One trial, the new best if it was kept, and the adapter's ablation where the trial measured it."""

    trial: Trial
    better: Best | None = None
    pairs: tuple[AblationPair, ...] = ()


def attempt(context: Context, best: Best, gate: Gate, entry: AdviceEntry, seconds: float) -> Outcome:
    """One trial whose pairs take about `seconds`. A trial that fails costs itself only."""
    begin = context.budget.now()
    context.progress.stage(f"trying {entry.key}: {entry.title}")
    trial = unmade(entry, best.changes, "failed", "")
    assert trial.change is not None, "every trial has its change"
    workload, attached = best.variant.workload, best.record.adapter is not None
    changes = stacked(workload.changes, trial.change, attached=attached)
    candidate = Variant(context, entry.rule, msgspec.structs.replace(workload, changes=changes))
    try:
        outcome = _attempt(context, best, candidate, trial, gate, seconds)
    except FtprofError as error:
        outcome = Outcome(trial=msgspec.structs.replace(trial, status="failed", why=error.message))
    (best.variant if outcome.better is not None else candidate).close()
    context.progress.note(f"{entry.key}: {outcome.trial.status}. {outcome.trial.why}")
    timed = msgspec.structs.replace(outcome.trial, seconds=context.budget.now() - begin)
    return replace(outcome, trial=timed)


def _attempt(context: Context, best: Best, candidate: Variant, trial: Trial, gate: Gate, seconds: float) -> Outcome:
    trial, samples = _measure(context, best, candidate, trial, seconds)
    pairs = _unloaded(best, candidate, samples)
    if trial.status != "kept":
        return Outcome(trial=trial, pairs=pairs)
    trial = _judge(trial, gate, candidate, context, best)
    if trial.status != "kept":
        return Outcome(trial=trial, pairs=pairs)
    return Outcome(trial=trial, better=_better(context, best, candidate, samples), pairs=pairs)


def _unloaded(best: Best, candidate: Variant, samples: dict[str, Samples]) -> tuple[AblationPair, ...]:
    """The duel of the original against the merged model is the adapter's ablation."""
    if best.changes or [change.rule for change in candidate.workload.changes] != [MERGE]:
        return ()
    workload = candidate.workload
    return tuple(pair for name, found in samples.items() for pair in ablation_pairs(found, workload, name, "unloaded"))


def unloaded_pairs(context: Context, best: Best) -> tuple[AblationPair, ...]:
    """The adapter's ablation where no fix is tried: the original against a merged copy in memory, if it can be merged."""
    mergeable = best.record.adapter is not None and not best.record.adapter.blockers
    loaded = best.variant.loaded
    if not mergeable or loaded is None or not fits(loaded, context.options.memory_limit_bytes):
        return ()
    context.progress.stage("the adapter against none at all")
    merged = Variant(context, "merged", best.variant.workload.with_change(Change(rule=MERGE)))
    try:
        samples = duel(
            VariantArm(best.variant),
            VariantArm(merged),
            "single",
            quads=16,
            least=LEAST_QUADS,
            deadline=context.budget.until(ABLATION_SHARE * context.budget.total_s),
            now=context.budget.now,
        )
        return _unloaded(best, merged, {"single": samples})
    except FtprofError as error:
        context.progress.note(f"The merged copy could not be measured: {error.message}")
        return ()
    finally:
        merged.close()


def _arms(context: Context, best: Best, candidate: Variant) -> tuple[VariantArm, VariantArm]:
    if _side_by_side(context, best):
        return VariantArm(best.variant), VariantArm(candidate)
    context.progress.note("Memory holds one variant at a time: comparing in alternating blocks.")
    best.variant.close()
    return RestartArm(best.variant), RestartArm(candidate)


def _measure(
    context: Context, best: Best, candidate: Variant, trial: Trial, seconds: float
) -> tuple[Trial, dict[str, Samples]]:
    """The trial with its ratios, its status "kept" as far as speed decides, else "reverted"."""
    scenario, phase = best.objective
    a, b = _arms(context, best, candidate)
    samples: dict[str, Samples] = {}
    names = sorted((found.name for found in candidate.workload.scenarios), key=lambda name: name != scenario)
    for name in names:
        share = 1.0 - OTHER_PART if name == scenario else OTHER_PART
        samples[name] = duel(
            a,
            b,
            name,
            quads=3 if isinstance(a, RestartArm) else 16,
            least=LEAST_QUADS if name == scenario else 1,
            deadline=context.budget.until(share * seconds),
            now=context.budget.now,
            seed=candidate.workload.seed + len(candidate.workload.changes),
            watch=phase,
        )
        if name == scenario and not enough(ratios(samples[name]).get(phase)):
            break
    measured = {name: ratios(found) for name, found in samples.items()}
    design = "alternating blocks" if isinstance(a, RestartArm) else "interleaved ABBA quads, the idle worker stopped"
    return _verdict(context, best, trial, Comparison(ratios=measured, design=design)), samples


def _verdict(context: Context, best: Best, trial: Trial, comparison: Comparison) -> Trial:
    scenario, phase = best.objective
    objective = comparison.get(scenario, phase)
    broken = guard_broken(comparison, context.options.guards)
    kept = enough(objective) and broken is None
    return msgspec.structs.replace(
        trial,
        status="kept" if kept else "reverted",
        why="" if kept else broken or speed_reason(objective, scenario, phase),
        measured=comparison.ratios,
        objective=objective,
        trades=trades(comparison),
        log_error=log_error(trial, best.objective, objective),
    )


def _judge(trial: Trial, gate: Gate, candidate: Variant, context: Context, best: Best) -> Trial:
    context.progress.stage(f"checking the outputs of {trial.rule}")
    dtype = candidate.loaded.model.dtype if candidate.loaded else ""
    quality = gate.check(candidate, *laxest([change.rule for change in candidate.workload.changes], dtype))
    trial = msgspec.structs.replace(trial, quality=quality)
    if quality.verdict != "pass":
        return msgspec.structs.replace(trial, status="reverted", why=gate_reason(quality))
    ratio = trial.objective
    assert ratio is not None, "judged only after the objective was measured"
    why = f"{ratio.speedup:.2f}x ({ratio.low:.2f} to {ratio.high:.2f}), quality gate passed"
    why += f" at {quality.safety}" if quality.safety != trial.safety else ""
    return msgspec.structs.replace(trial, status="kept", why=why)


def _better(context: Context, best: Best, candidate: Variant, samples: dict[str, Samples]) -> Best:
    """The kept variant, diagnosed again: its bound may have moved. Without a trace it keeps its times at least."""
    context.progress.stage("diagnosing the faster variant")
    candidate.handle()
    assert candidate.loaded is not None, "a live worker has loaded"
    record = msgspec.structs.replace(
        best.record,
        workload=candidate.workload,
        model=candidate.loaded.model,
        adapter=candidate.loaded.adapter,
        timing=phase_timing(samples, "B"),
        ops=None,
        modules=None,
        ablation=None,
        # Other runtimes stay what they were; passes of this model do not.
        probes=tuple(probe for probe in best.record.probes or () if probe.case.kind == "depth"),
    )
    try:
        record = _looked_at(context, candidate, record, best.objective[0], "batch" if "batch" in samples else "single")
    except FtprofError as error:
        context.progress.note(f"The faster variant could not be traced: {error.message}")
    diagnosis = diagnose(record, *best.objective)
    return Best(variant=candidate, record=record, diagnosis=diagnosis, objective=best.objective)


def _looked_at(context: Context, candidate: Variant, record: RunRecord, name: str, padded: str) -> RunRecord:
    handle = candidate.handle()
    record = traced(context, handle, record, name, unit=1 if name == "single" else 0)
    return msgspec.structs.replace(record, padding=handle.call("padding", padded, timeout_s=context.patience()))
