"""Measure the model as loaded: from a cold load to a complete record. No rule is involved."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from ftprof.advisors.context import Context, objective_of
from ftprof.advisors.duel import AdapterArm, Arm, Samples, duel
from ftprof.advisors.memory import fits
from ftprof.advisors.plan import BATCH_TOKENS, affordable_rows, affordable_tokens, repeats_for, scenarios, wanted_tokens
from ftprof.advisors.variant import SameArm, Variant, VariantArm
from ftprof.advisors.worker import Loaded
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.in_turns import LEAST_PAIRS
from ftprof.profiler.interventions import TESTED
from ftprof.profiler.processes import Handle, RequestFailed
from ftprof.profiler.record import (
    AblationPair,
    LoadSplit,
    Machine,
    Measurement,
    Memory,
    PhaseTiming,
    RunRecord,
)
from ftprof.profiler.workload import Task, Workload, generates

TRACE_TOKENS = 4
"""New tokens of traced and ablated runs: decode steps are alike, so a few name the shares."""
LEAST_QUADS = 3
"""Six pairs are the fewest that can prove anything at 95 %; they are taken even where a stage's share is spent."""
# Shares of the budget that parts of the baseline may use.
CONTROL_SHARE, OTHER_SHARE, ABLATION_SHARE, EXPERIMENT_SHARE = 0.08, 0.03, 0.018, 0.01
LEAST_PASSES = (1 + LEAST_PAIRS) * (1 + 2)
"""What the fewest pairs of an experiment cost in passes, one way being about twice as slow as the other."""
TOKENISER_SHOWS = 0.03
"""Of a request; what is smaller drowns in the spread of the requests."""
CONTROL_QUADS = 2
"""The control proves nothing; it shows what no change looks like."""
MACHINE_S = 2.0


def limits(context: Context) -> tuple[Machine, float]:
    """Limits of this machine, in a worker that holds nothing, and the peak to hold against the end of the run."""
    context.progress.stage("limits of this machine")
    handle = context.start("machine")
    try:
        found: Machine = handle.call("machine", MACHINE_S, context.device, timeout_s=context.patience(120))
        return found, float(handle.call("peak", context.device, timeout_s=context.patience(60)))
    finally:
        handle.close()


def peak(context: Context) -> float | None:
    """The peak now; None where it cannot be measured any more."""
    handle = context.start("drift")
    try:
        return float(handle.call("peak", context.device, timeout_s=context.patience(60)))
    except FtprofError:
        return None
    finally:
        handle.close()


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """The first worker's load, and the seconds of its very first unit by phase."""

    loaded: Loaded
    first: dict[str, float]
    workload: Workload


def open_model(context: Context, original: Variant, files: Sequence[str]) -> Opened:
    """Load cold, look at the prompts, plan the samples. FtprofError for prompts that the model cannot take.

    `files` are the weights, dropped from the page cache first where the system allows it.
    """
    context.progress.stage("cold load")
    original.evict = tuple(files)
    handle, workload = original.handle(), original.workload
    loaded = original.loaded
    assert loaded is not None, "a live worker has loaded"
    lengths = handle.call("token_lengths", timeout_s=context.patience())
    encoder = not generates(workload.task)
    tokens = (
        0 if encoder else wanted_tokens(workload.call, handle.call("completion_lengths", timeout_s=context.patience()))
    )
    _check_lengths(lengths, tokens, loaded.model.max_context, workload.task)
    planned = msgspec.structs.replace(
        workload,
        prompt_tokens=tuple(lengths),
        new_tokens=tokens,
        scenarios=scenarios(lengths, loaded.call, encoder=encoder),
    )
    handle.call("replan", planned)
    first = handle.call("unit", "single", 1, None if encoder else 2, timeout_s=context.patience())
    planned = _sized(context, handle, planned, "single")
    original.workload, original.evict = planned, ()
    return Opened(loaded=loaded, first=first, workload=planned)


def _sized(context: Context, handle: Handle, planned: Workload, name: str) -> Workload:
    """The workload with a token count and repeats for this scenario that suit the budget and the clock."""
    writes, batch = generates(planned.task), name == "batch"
    quick = handle.call("unit", name, 1, 3 if writes else None, timeout_s=context.patience())
    made, sample_s = None, quick["e2e"]
    if writes:
        wanted = math.ceil(BATCH_TOKENS * planned.new_tokens) if batch else planned.new_tokens
        # A batch sample may take half as long again as a single one.
        budget_s = context.budget.total_s * (1.5 if batch else 1.0)
        made = affordable_tokens(wanted, quick["prefill"], quick["decode"], budget_s)
        sample_s = quick["prefill"] + (made - 1) * quick["decode"]
    sized = msgspec.structs.replace(planned.scenario(name), new_tokens=made, repeats=repeats_for(sample_s))
    if batch and not writes:
        rows = sized.units[0]
        fit = affordable_rows(len(rows), planned.call.batch_size, sample_s, 2 * context.budget.total_s)
        sized = msgspec.structs.replace(sized, units=(rows[:fit],), repeats=repeats_for(sample_s * fit / len(rows)))
    planned = msgspec.structs.replace(
        planned,
        scenarios=tuple(sized if one.name == name else one for one in planned.scenarios),
        new_tokens=made if made and not batch else planned.new_tokens,
    )
    handle.call("replan", planned)
    return planned


def _check_lengths(lengths: Sequence[int], new_tokens: int, context: int | None, task: Task) -> None:
    for number, length in enumerate(lengths, 1):
        if length == 0:
            raise FtprofError(f"prompt {number} has no tokens", "remove empty prompts from the data file", Exit.USAGE)
        if generates(task) and context and (said := _too_long(length, new_tokens, context, task)):
            raise FtprofError(
                f"prompt {number} has {length} tokens{said}",
                "shorten it, or set a smaller new_tokens in the call file",
                Exit.USAGE,
            )


def _too_long(length: int, new_tokens: int, context: int, task: Task) -> str | None:
    """What is wrong with a prompt of `length` tokens, as the end of a sentence; None where it fits."""
    if task == "seq2seq-lm":  # encoder and decoder have places of their own
        said = f" and its answer {new_tokens}; each may have {context}"
        return said if max(length, new_tokens) > context else None
    said = f"; with {new_tokens} new ones that is more than the model's context of {context}"
    return said if length + new_tokens > context else None


def quick_look(context: Context, original: Variant, opened: Opened, machine: Machine) -> RunRecord:
    """A provisional record of the single scenario: shares of ops and modules, and the adapter's part."""
    workload, handle = opened.workload, original.handle()
    record = RunRecord(workload=workload, machine=machine, model=opened.loaded.model, adapter=opened.loaded.adapter)
    if opened.loaded.adapter is not None:
        context.progress.stage("first look: the adapter on and off")
        record = msgspec.structs.replace(record, ablation=_ablation(context, handle, workload, "single"))
    context.progress.stage("first look: where the time goes")
    record = msgspec.structs.replace(record, timing=_quick_timing(context, handle))
    return traced(context, handle, record, "single", unit=1)


def _quick_timing(context: Context, handle: Handle) -> tuple[PhaseTiming, ...]:
    taken = [handle.call("unit", "single", unit, timeout_s=context.patience()) for unit in (1,)]
    return tuple(
        PhaseTiming(scenario="single", phase=phase, time_s=Measurement(samples=tuple(t[phase] for t in taken)))
        for phase in taken[0]
    )


def traced(context: Context, handle: Handle, record: RunRecord, scenario: str, unit: int = 0) -> RunRecord:
    """The record with ops and modules of this scenario added. Untraced times come first; they are the truth.

    Modules cost a few per cent and are repeated for an interval; a trace costs seconds to parse and is taken once.
    """
    assert record.machine is not None, "limits come first"
    untraced = {
        phase: statistics.median(samples)
        for phase, samples in handle.call(
            "first_batch", scenario, unit, TRACE_TOKENS, 2 if scenario == "single" else 1, timeout_s=context.patience()
        ).items()
    }
    arguments = (scenario, unit, TRACE_TOKENS, untraced, record.machine)
    modules = handle.call("modules", *arguments, 3 if scenario == "single" else 2, timeout_s=context.patience())
    ops = handle.call("trace", *arguments, 1, timeout_s=context.patience())
    waits = handle.call("waits", scenario, unit, TRACE_TOKENS, timeout_s=context.patience())
    return msgspec.structs.replace(
        record,
        ops=(*(record.ops or ()), *ops),
        modules=(*(record.modules or ()), *modules),
        waits=(*(record.waits or ()), *waits),
    )


def experiments(context: Context, handle: Handle, record: RunRecord, scenario: str) -> RunRecord:
    """The record with what confirms or contradicts a bound: a narrow twin, the rows of `scenario` twice, one thread
    against all, and requests without their tokeniser.

    Each is left out where this model cannot be changed or called so, or where the budget has no room for it.
    """
    context.progress.stage("experiments on what limits it")
    with suppress(RequestFailed):
        twin = handle.call("twin", TRACE_TOKENS, timeout_s=context.patience())
        record = msgspec.structs.replace(record, twin=twin or None)
    seconds = EXPERIMENT_SHARE * context.budget.total_s
    once = _pass_s(record, scenario)
    if LEAST_PASSES * once > context.budget.left():
        context.progress.note("Rows were not doubled, which confirms bounds: the budget does not allow it.")
        return record
    with suppress(RequestFailed):
        doubling = handle.call("doubling", scenario, 0, TRACE_TOKENS, seconds, timeout_s=context.patience())
        record = msgspec.structs.replace(record, doubling=doubling)
    if LEAST_PASSES * once < 2 * seconds:
        with suppress(RequestFailed):
            threads = handle.call("threads", scenario, 0, TRACE_TOKENS, seconds, timeout_s=context.patience())
            record = msgspec.structs.replace(record, threads=threads or None)
    if _tokenise_share(record, scenario) >= TOKENISER_SHOWS:
        with suppress(RequestFailed):
            skipped = handle.call("pretokenised", scenario, 0, seconds, timeout_s=context.patience())
            record = msgspec.structs.replace(record, pretokenised=skipped)
    return record


def _pass_s(record: RunRecord, scenario: str) -> float:
    """About what one run of the batch that experiments use takes."""
    phases = {name: statistics.median(times) for name in TESTED if (times := record.times(scenario, name))}
    return sum(seconds * (TRACE_TOKENS if name == "decode" else 1) for name, seconds in phases.items())


def _tokenise_share(record: RunRecord, scenario: str) -> float:
    """Of a unit's time, what the tokeniser takes."""
    whole, part = (record.times(scenario, phase) for phase in ("e2e", "tokenise"))
    return statistics.median(part) / statistics.median(whole) if whole and part else 0.0


def _ablation(context: Context, handle: Handle, workload: Workload, scenario: str) -> tuple[AblationPair, ...]:
    """The adapter on against disabled, toggled in one worker; empty where this kind cannot be switched."""
    tokens = TRACE_TOKENS if generates(workload.task) else None
    on = AdapterArm(handle, True, tokens, context.patience)
    off = AdapterArm(handle, False, tokens, context.patience)
    with suppress(RequestFailed):
        seconds = ABLATION_SHARE * context.budget.total_s
        samples = duel(
            on,
            off,
            scenario,
            quads=6,
            least=LEAST_QUADS,
            deadline=context.budget.until(seconds),
            now=context.budget.now,
        )
        return ablation_pairs(samples, workload, scenario, "disabled")
    return ()


def ablation_pairs(samples: Samples, workload: Workload, scenario: str, how: str) -> tuple[AblationPair, ...]:
    """Pairs by phase. The e2e of a shortened run is composed from its phases at the workload's token count."""
    phases = {phase: samples.pairs(phase) for phase in samples.phases}
    if how == "disabled" and generates(workload.task) and {"prefill", "decode"} <= phases.keys():
        steps = workload.tokens(scenario) - 1
        phases["e2e"] = tuple(  # type: ignore[assignment]
            tuple(
                first + steps * step for first, step in zip(phases["prefill"][arm], phases["decode"][arm], strict=True)
            )
            for arm in (0, 1)
        )
    return tuple(
        AblationPair(scenario=scenario, phase=phase, how=how, on_s=on, off_s=off)  # type: ignore[arg-type]
        for phase, (on, off) in phases.items()
        if phase != "tokenise"
    )


def complete(
    context: Context, original: Variant, opened: Opened, quick: RunRecord, file_bytes: int
) -> tuple[RunRecord, dict[str, Samples]]:
    """The whole record: every phase of every scenario timed against a second process of the same model."""
    handle = original.handle()
    if len(original.workload.scenarios) > 1:
        original.workload = _sized(context, handle, original.workload, "batch")
    record = msgspec.structs.replace(quick, workload=original.workload)
    controls, second = _controls(context, original, opened.loaded)
    decisive = _decisive(context, original.workload)
    if opened.loaded.adapter is not None and decisive != "single":
        context.progress.stage("the adapter on and off")
        pairs = _ablation(context, handle, original.workload, decisive)
        record = msgspec.structs.replace(record, ablation=(*(record.ablation or ()), *pairs))
    if "batch" in controls:
        context.progress.stage("trace of the batch scenario")
        record = traced(context, handle, record, "batch")
        record = msgspec.structs.replace(record, padding=handle.call("padding", "batch", timeout_s=context.patience()))
    else:
        record = msgspec.structs.replace(record, padding=handle.call("padding", "single", timeout_s=context.patience()))
    record = msgspec.structs.replace(record, timing=tuple(phase_timing(controls)))
    record = experiments(context, handle, record, decisive)
    load = _load_split(opened, second, controls["single"], file_bytes)
    frames = handle.call("frames", "single", 1, TRACE_TOKENS, timeout_s=context.patience())
    return (
        msgspec.structs.replace(
            record,
            timing=(*phase_timing(controls), _load_timing(load)),
            frames=frames,
            load=load,
            memory=_memory(handle, opened.loaded),
            samples=handle.call("device_samples") or None,
            token_energy_j=handle.call("token_energy", decisive, timeout_s=context.patience()),
            device_notes=handle.call("device_notes"),
        ),
        controls,
    )


def _controls(context: Context, original: Variant, loaded: Loaded) -> tuple[dict[str, Samples], Loaded | None]:
    """The baseline against itself in a second process, by scenario: its samples are the baseline's timing. With it what
    that process loaded, None where there was none."""
    context.progress.stage("timing, against a second process of the same model")
    workload = original.workload
    if not fits(loaded, context.options.memory_limit_bytes):
        context.progress.note("Memory holds one variant at a time: the control runs in one process.")
        return _timed(context, workload, SameArm(original), SameArm(original)), None
    twin = Variant(context, "control", workload)
    try:
        return _timed(context, workload, VariantArm(original), VariantArm(twin)), twin.loaded
    except FtprofError as error:
        context.progress.note(f"{error.message}; the control runs in one process.")
        return _timed(context, workload, SameArm(original), SameArm(original)), None
    finally:
        twin.close()


def _decisive(context: Context, workload: Workload) -> str:
    """The scenario of the objective."""
    names = tuple(scenario.name for scenario in workload.scenarios)
    return objective_of(context.options.objective, workload.task, names)[0]


def _timed(context: Context, workload: Workload, a: Arm, b: Arm) -> dict[str, Samples]:
    decisive = _decisive(context, workload)
    found: dict[str, Samples] = {}
    for scenario in workload.scenarios:
        seconds = (CONTROL_SHARE if scenario.name == decisive else OTHER_SHARE) * context.budget.total_s
        found[scenario.name] = duel(
            a,
            b,
            scenario.name,
            quads=16,
            least=CONTROL_QUADS if scenario.name == decisive else 1,
            deadline=context.budget.until(seconds),
            now=context.budget.now,
            seed=workload.seed,
            watch="e2e",
        )
    return found


def phase_timing(samples: dict[str, Samples], arm: str | None = None) -> tuple[PhaseTiming, ...]:
    """The samples of one arm (of both, where they are the same model) by scenario and phase."""
    return tuple(
        PhaseTiming(
            scenario=name,
            phase=phase,  # type: ignore[arg-type]
            time_s=Measurement(samples=found.of(arm, phase) if arm else found.phases[phase]),
        )
        for name, found in samples.items()
        for phase in found.phases
    )


def _load_timing(load: LoadSplit) -> PhaseTiming:
    """One sample: a process is cold once."""
    seconds = load.import_s + load.build_s + load.adapter_s + load.first_use_s
    return PhaseTiming(scenario="single", phase="load", time_s=Measurement(samples=(seconds,)))


def _load_split(opened: Opened, second: Loaded | None, single: Samples, file_bytes: int) -> LoadSplit:
    """The cold load in parts; `second` loaded the same files once they were in the file cache."""
    loaded = opened.loaded
    phase = "prefill" if "prefill" in single.phases else "forward"
    steady = statistics.median(single.phases[phase])
    return LoadSplit(
        import_s=loaded.import_s,
        build_s=loaded.build_s,
        adapter_s=loaded.adapter_s,
        first_use_s=max(0.0, opened.first[phase] - steady),
        file_bytes=file_bytes,
        evicted=loaded.evicted,
        read_bytes=loaded.read_bytes,
        warm_s=second.build_s + second.adapter_s if second else None,
    )


def _memory(handle: Handle, loaded: Loaded) -> Memory:
    adapter = loaded.adapter
    width = {"float32": 4, "bfloat16": 2, "float16": 2}
    return Memory(
        peak_bytes=handle.call("peak_memory"),
        weight_bytes=loaded.model.weight_bytes,
        adapter_bytes=adapter.parameters * width.get(adapter.loaded_dtype, 4) if adapter else 0,
        before_load_bytes=loaded.before_bytes,
    )
