"""A whole audit: measure, diagnose, advise, try, compare, save. The document is published after every stage."""

from __future__ import annotations

import datetime
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from ftprof.advisors import baseline
from ftprof.advisors.advise import Advised, applies, inapplicable
from ftprof.advisors.artefact import check_destination, save
from ftprof.advisors.audit import Artefact, Audit, BaseDifference, Control, ModelEntry, PhaseEntry, Settings, Trial
from ftprof.advisors.base_costs import base_differences
from ftprof.advisors.budget import Budget
from ftprof.advisors.context import Context, Options, objective_of
from ftprof.advisors.decide import guard_broken
from ftprof.advisors.duel import Samples, ratios
from ftprof.advisors.environment import environment
from ftprof.advisors.estimate import estimate
from ftprof.advisors.final import final
from ftprof.advisors.gate import open_gate
from ftprof.advisors.improve import Best, Improved, advised, improve, unloaded_pairs
from ftprof.advisors.progress import Progress
from ftprof.advisors.resume import decided
from ftprof.advisors.rules import load_rules
from ftprof.advisors.trust import trust
from ftprof.advisors.variant import Variant
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.digest import digest_directory
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.ledger import diagnose
from ftprof.profiler.located import Located
from ftprof.profiler.nvml import device_use
from ftprof.profiler.processes import prepare
from ftprof.profiler.record import RunRecord
from ftprof.profiler.rows import RowSet, write_rows
from ftprof.profiler.weights import weight_files
from ftprof.profiler.workload import Call, Workload, generates

Publish = Callable[[Audit], object]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for, already checked as far as files allow."""

    located: Located
    rows: RowSet
    call: Call
    options: Any
    budget_s: float = 300.0
    device: str = "cpu"
    seed: int = 0
    offline: bool = False
    command: str = ""
    version: str = ""
    previous: Audit | None = None
    """An earlier audit of the same model to go on from."""


class Draft:
    """The document while it grows; `set` replaces parts and publishes the whole."""

    def __init__(self, audit: Audit, publish: Publish, budget: Budget) -> None:
        self.audit = audit
        self._publish = publish
        self._budget = budget

    def set(self, **parts: Any) -> None:
        """Replace these parts, note the time spent, and publish."""
        settings = parts.pop("settings", self.audit.settings)
        settings = msgspec.structs.replace(settings, spent_s=round(self._budget.spent(), 1))
        self.audit = msgspec.structs.replace(self.audit, settings=settings, **parts)
        self._publish(self.audit)

    def warn(self, sentence: str) -> None:
        """Add a warning, once."""
        if sentence not in self.audit.warnings:
            self.set(warnings=(*self.audit.warnings, sentence))


def run(request: Request, progress: Progress, publish: Publish) -> Audit:
    """The finished audit. KeyboardInterrupt and FtprofError pass through after what was measured was published."""
    options: Options = request.options
    if options.save is not None:
        check_destination(options.save, protected(request.located))
    budget = Budget(request.budget_s)
    prepare(request.device, offline=request.offline)
    with _scratch() as scratch:
        context = Context(
            options=options,
            budget=budget,
            progress=progress,
            scratch=scratch,
            device=request.device,
            seed=request.seed,
        )
        draft = Draft(_empty(request, workload_of(request, scratch)), publish, budget)
        _announce(request, context)
        try:
            _stages(context, draft, request)
        except KeyboardInterrupt:
            draft.warn("Interrupted: only what was measured until then is here.")
            raise
        except FtprofError as error:
            draft.warn(f"Stopped: {error.message}")
            raise
        finally:
            context.end_workers()
        return draft.audit


@contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ftprof-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def protected(located: Located) -> list[Path]:
    """The user's own directories, which are never written to."""
    return [Path(path) for path in (located.model, located.adapter, located.base_directory) if path]


def workload_of(request: Request, scratch: Path) -> Workload:
    """The recipe, before prompts were looked at; its rows are written to `scratch`."""
    located = request.located
    digest = write_rows(request.rows.rows, scratch / "rows.jsonl")
    return Workload(
        model=located.model,
        built=located.graph,
        adapter=located.adapter,
        tokenizer=located.tokenizer,
        task=located.task,
        rows=str(scratch / "rows.jsonl"),
        rows_digest=digest,
        call=request.call,
        labels=located.labels,
        vocab_rows=located.vocab_rows,
        device=request.device,
        seed=request.seed,
        trust_remote_code=located.trust_remote_code,
    )


def _empty(request: Request, workload: Workload) -> Audit:
    options: Options = request.options
    located = request.located
    scenario, phase = objective_of(options.objective, located.task, ("single",))
    return Audit(
        ftprof_version=request.version,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        command=request.command,
        settings=Settings(
            objective=options.objective,
            objective_scenario=scenario,
            objective_phase=phase,
            max_loss=options.max_loss,
            budget_s=request.budget_s,
            guards=dict(options.guards),
            fixes=options.fixes,
        ),
        environment=environment(request.device),
        model=ModelEntry(
            name=located.name,
            path=located.given,
            base=located.base,
            task=located.task,
            sha256=digest_directory(Path(located.given)),
        ),
        workload=workload,
        warnings=(*located.notes, *request.rows.notes),
    )


def weight_paths(located: Located) -> list[Path]:
    """Safetensors files that a load reads; what else lies in the directory (checkpoints, other formats) is not."""
    if located.graph is not None:
        # Weights lie in the graph's own file, or in files beside it.
        graph = Path(located.graph)
        return sorted(graph.glob("*.onnx*") if graph.is_dir() else graph.parent.glob(f"{graph.name}*"))
    adapter = sorted(Path(located.adapter).glob("adapter_model*.safetensors")) if located.adapter else []
    return [*weight_files(Path(located.model)), *adapter]


def _announce(request: Request, context: Context) -> None:
    from ftprof.profiler.config_file import read_config_if_there

    config = read_config_if_there(Path(request.located.model) / "config.json")
    vocabulary = config.integer("vocab_size") if config is not None else None
    sizes = [path.stat().st_size for path in weight_paths(request.located)]
    found = estimate(request.located.task, sizes, vocabulary, request.budget_s, save=context.options.save is not None)
    context.progress.note(found.sentence())
    free = shutil.disk_usage(context.scratch).free
    if found.disk_bytes > free:
        raise FtprofError(
            f"{context.scratch.parent} has {free / 2**30:.1f} GiB free, {found.disk_bytes / 2**30:.1f} are needed",
            "set TMPDIR to a directory with more room",
        )


def _stages(context: Context, draft: Draft, request: Request) -> None:
    machine, peak = baseline.limits(context)
    draft.set(machine=machine, environment=environment(request.device, machine.fingerprint))
    files = weight_paths(request.located)
    original = Variant(context, "original", draft.audit.workload)
    earlier = decided(request.previous, draft.audit) if request.previous else ()
    best, controls = _measured(context, draft, original, files)
    improved = _improved(context, draft, best, request.rows, earlier)
    _finish(context, draft, best, improved, request.located)
    _grade(context, draft, best, controls, peak)


def _measured(
    context: Context, draft: Draft, original: Variant, files: Sequence[Path]
) -> tuple[Best, tuple[Control, ...]]:
    """The original, measured and diagnosed."""
    sizes = sum(path.stat().st_size for path in files)
    opened = baseline.open_model(context, original, [str(path) for path in files])
    workload = opened.workload
    objective = objective_of(
        context.options.objective, workload.task, tuple(scenario.name for scenario in workload.scenarios)
    )
    settings = msgspec.structs.replace(
        draft.audit.settings, objective_scenario=objective[0], objective_phase=objective[1]
    )
    assert draft.audit.machine is not None, "limits come first"
    for sentence in _unlike_asked(context.options.objective, objective, draft.audit.workload.call, workload):
        draft.warn(sentence)
    quick = baseline.quick_look(context, original, opened, draft.audit.machine)
    provisional = diagnose(quick, "single", objective[1])
    context.progress.note(f"Provisional, from a few rounds: {provisional.headline}{_provisional_lora(provisional)}")
    _set_diagnosis(draft, quick, provisional, settings=settings, workload=workload)
    record, samples = baseline.complete(context, original, opened, quick, sizes)
    diagnosis = diagnose(record, *objective)
    _set_diagnosis(draft, record, diagnosis, workload=original.workload)
    context.progress.note(diagnosis.headline)
    return Best(variant=original, record=record, diagnosis=diagnosis, objective=objective), _control_entries(samples)


def _unlike_asked(asked: str, objective: tuple[str, str], call: Call, workload: Workload) -> list[str]:
    """Where the run measures something else than the user's words say."""
    found = []
    if asked in ("ttft", "tpot") and not generates(workload.task):
        found.append(f"--objective {asked} is about generation; for this model {' '.join(objective)} decides instead.")
    if asked == "throughput" and objective[0] != "batch":
        found.append("--objective throughput needs a batch size above 1 and several rows; single end to end decides.")
    if call.new_tokens and call.new_tokens != workload.new_tokens:
        found.append(
            f"Samples make {workload.new_tokens} new tokens instead of {call.new_tokens}, so that enough of them fit "
            f"into the budget; with more tokens decode weighs more."
        )
    return found


def _provisional_lora(diagnosis: Diagnosis) -> str:
    lora = diagnosis.lora
    share = (lora.ablation or lora.attributed) if lora else None
    return f" LoRA takes about {share.share:.0%} ({share.low:.0%} to {share.high:.0%})." if share else ""


def _control_entries(samples: dict[str, Samples]) -> tuple[Control, ...]:
    return tuple(
        Control(scenario=name, phase=phase, ratio=ratio)
        for name, found in samples.items()
        for phase, ratio in ratios(found).items()
    )


def _set_diagnosis(draft: Draft, record: RunRecord, diagnosis: Diagnosis, **parts: Any) -> None:
    model = msgspec.structs.replace(
        draft.audit.model,
        facts=record.model,
        adapter=record.adapter,
        load=record.load,
        memory=record.memory,
        device=device_use(record.samples or (), record.token_energy_j, record.device_notes),
        padding=record.padding,
    )
    draft.set(
        model=model,
        diagnosis=diagnosis,
        lora=diagnosis.lora,
        frames=record.frames or (),
        phases=tuple(
            PhaseEntry(
                scenario=phase.scenario,
                name=phase.name,
                time_s=phase.time_s,
                ledger=phase.ledger,
                samples=record.times(phase.scenario, phase.name),
            )
            for phase in diagnosis.phases
        ),
        **parts,
    )


def _improved(context: Context, draft: Draft, best: Best, rows: RowSet, earlier: tuple[Trial, ...]) -> Improved:
    def publish(state: Improved) -> None:
        draft.set(advice=state.advice.entries, checked=_checked(state.advice, original.record), trials=state.trials)

    original = best
    reasons = ((rule.name, inapplicable(rule, best.record)) for rule in load_rules())
    draft.set(not_applicable=tuple(f"{name}: {reason}" for name, reason in reasons if reason))
    if not context.options.fixes:
        best, advice = advised(context, best)
        improved = Improved(best=best, advice=advice, trials=(), pairs=unloaded_pairs(context, best))
        publish(improved)
        return improved
    gate = open_gate(context, best.variant, rows.rows)
    improved = improve(context, best, gate, publish, earlier)
    publish(improved)
    return improved


def _checked(advice: Advised, record: RunRecord) -> tuple[str, ...]:
    """What was looked at and left alone, rules that found nothing included."""
    said = {entry.rule for entry in advice.entries} | {
        sentence.partition(":")[0].partition(" (")[0] for sentence in advice.checked
    }
    silent = [rule.name for rule in load_rules() if applies(rule, record) and rule.name not in said]
    return (*advice.checked, *(f"{name}: found nothing" for name in silent))


def _finish(context: Context, draft: Draft, first: Best, improved: Improved, located: Located) -> None:
    diagnosis = first.diagnosis
    if improved.pairs:
        record = msgspec.structs.replace(first.record, ablation=(*(first.record.ablation or ()), *improved.pairs))
        diagnosis = diagnose(record, *first.objective)
        _set_diagnosis(draft, record, diagnosis)
    differences: tuple[BaseDifference, ...] = base_differences(located, diagnosis, first.record)
    draft.set(base_diff=differences)
    if not context.options.fixes:
        return
    # Saved first: the comparison may take whatever time is left, and it needs the memory of the best one's worker.
    artefact = _saved(context, draft, improved.best, located)
    last = final(context, improved.best, first.variant.workload, improved.trials)
    if artefact is not None:
        last = msgspec.structs.replace(last, artefact=artefact, load_lines=artefact.load)
    draft.set(final=last)
    broken = guard_broken(last.comparison, context.options.guards) if last.comparison else None
    if broken:
        draft.warn(f"In the final comparison: {broken}.")


def _saved(context: Context, draft: Draft, best: Best, located: Located) -> Artefact | None:
    directory = context.options.save
    if directory is None:
        return None
    if not best.changes:
        draft.warn(f"Nothing was kept, so nothing was saved to {directory}: the original stays.")
        return None
    try:
        artefact = save(context, best, directory, protected(located))
    except FtprofError as error:
        draft.warn(f"Not saved: {error.message}")
        return None
    if artefact.reload == "ok":
        draft.set(trials=_with_artefact(draft.audit, artefact.path))
    else:
        draft.warn(f"Not saved: the copy does not reload as it was ({artefact.reload_detail}).")
    return artefact


def _grade(context: Context, draft: Draft, first: Best, controls: tuple[Control, ...], peak: float) -> None:
    now = baseline.peak(context)
    diagnosis = draft.audit.diagnosis
    assert diagnosis is not None, "graded last"
    verdict = trust(
        first.record,
        diagnosis,
        controls,
        draft.audit.trials,
        draft.audit.final,
        now / peak - 1 if now else None,
        first.objective,
    )
    draft.set(trust=verdict, settings=msgspec.structs.replace(draft.audit.settings, complete=True))


def _with_artefact(audit: Audit, path: str) -> tuple[Any, ...]:
    return tuple(
        msgspec.structs.replace(trial, artefact=path) if trial.status == "kept" else trial for trial in audit.trials
    )
