"""Models built for other runtimes: each once a run, in a worker that has the slow exporters imported."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ftprof.advisors.context import Context
from ftprof.advisors.rules import get_rule
from ftprof.advisors.stacking import MERGE, conversion, weight_changes
from ftprof.profiler.processes import Handle
from ftprof.profiler.workload import Change, Workload

if TYPE_CHECKING:
    from ftprof.profiler.built import Source
    from ftprof.profiler.record import ProbeCase, ProbeResult


def with_built(context: Context, workload: Workload) -> Workload:
    """The workload with the directory of its runtime, built unless it is there; as it is where it stays on PyTorch.

    FtprofError where the conversion fails, WorkerDied where it takes the builder with it.
    """
    if workload.built:
        return workload
    change = conversion(workload.changes)
    convert = get_rule(change.rule).convert if change else None
    if change is None or convert is None:
        return workload
    recipe = convert(change.options)
    plain = plain_workload(workload)
    target = context.scratch / "built" / _key(plain, recipe)
    if not target.exists():
        context.progress.note(f"Building the model for {recipe.runtime}, {recipe.precision}")
        source = _source(context, plain)
        target.parent.mkdir(exist_ok=True)
        _ask(context, "convert", recipe, source, str(target), workload.call.threads)
    return msgspec.structs.replace(workload, built=str(target))


def probe_depths(
    context: Context, workload: Workload, cases: Sequence[ProbeCase], seconds: float
) -> tuple[ProbeResult, ...]:
    """Time shallow copies of the model on the runtimes that rules ask about."""
    source = _source(context, plain_workload(workload))
    results: tuple[ProbeResult, ...] = _ask(
        context, "probe_depths", tuple(cases), source, str(context.scratch), seconds
    )
    return results


def plain_workload(workload: Workload) -> Workload:
    """What a conversion starts from: the model in fp32 with the changes to its weights, called in the simplest way.

    Exporting from fp32 rounds once; a model stored in 16 bit loses nothing on the way up.
    """
    call = msgspec.structs.replace(workload.call, dtype="float32", attention="auto", use_cache=None)
    changes = weight_changes(workload.changes)
    if workload.adapter and MERGE not in [change.rule for change in changes]:
        changes = (*changes, Change(rule=MERGE))
    return msgspec.structs.replace(workload, call=call, changes=changes, built=None)


def _key(plain: Workload, recipe: Any) -> str:
    return hashlib.sha256(msgspec.json.encode((plain.model, plain.adapter, plain.changes, recipe))).hexdigest()[:16]


def _source(context: Context, plain: Workload) -> Source:
    key = _key(plain, None)
    if key not in context.sources:
        directory = context.scratch / "plain" / key
        directory.mkdir(parents=True, exist_ok=True)
        context.sources[key] = _ask(context, "plain", plain, str(directory))
    source: Source = context.sources[key]
    return source


def _ask(context: Context, method: str, *arguments: Any) -> Any:
    """Ask the builder, which rests in between: its threads must not slow anybody's sample."""
    builder = _builder(context)
    try:
        return builder.call(method, *arguments, timeout_s=context.patience())
    finally:
        builder.rest()


def _builder(context: Context) -> Handle:
    if not context.builders or not context.builders[-1].alive:
        context.builders.append(context.start("builder"))
    return context.builders[-1]
