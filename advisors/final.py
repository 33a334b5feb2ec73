"""The last word: the best variant against the original in fresh processes, and the saved copy, loaded anew."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import msgspec

from ftprof.advisors.audit import Artefact, Final, Trial
from ftprof.advisors.context import Context
from ftprof.advisors.decide import trades
from ftprof.advisors.duel import Samples, duel, merged, ratios
from ftprof.advisors.improve import Best
from ftprof.advisors.load_lines import load_lines
from ftprof.advisors.memory import fits_two
from ftprof.advisors.rules import get_rule
from ftprof.advisors.variant import RestartArm, Variant, VariantArm
from ftprof.profiler.comparison import Comparison
from ftprof.profiler.diagnosis import Interval
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.paired import interval
from ftprof.profiler.processes import WorkerDied
from ftprof.profiler.workload import Workload

PROCESSES = 3
"""Fresh processes a side: what differs from process to process (layout, addresses) must show in the interval."""
OBJECTIVE_SHARE, OTHER_SHARE = 0.6, 0.2
SAVE_RESERVE_S = 20.0
# Outputs of the reloaded copy against the worker's: the same operations on the same weights, so nearly bit-equal.
RELOAD_TOLERANCE = 1e-3


def final(context: Context, best: Best, original: Workload, trials: Sequence[Trial]) -> Final:
    """The direct comparison, unless nothing was kept; then the original is the answer."""
    context.progress.stage("final comparison with the original, in fresh processes")
    lines = load_lines(best.variant.workload, best.variant.loaded)
    if not best.changes:
        return Final(changes=(), comparison=None, objective=None, quality=None, load_lines=lines)
    reserve = SAVE_RESERVE_S if context.options.save else 0.0
    samples, processes = _rounds(context, best, original, max(5.0, context.budget.left() - reserve))
    quality = [trial.quality for trial in trials if trial.status == "kept"]
    bare = Final(
        changes=best.changes,
        comparison=None,
        objective=None,
        quality=quality[-1] if quality else None,
        phases=best.diagnosis.phases,
        load_lines=lines,
    )
    if not samples:
        return bare
    measured = {name: ratios(found) for name, found in samples.items()}
    comparison = Comparison(
        ratios=measured,
        design="interleaved ABBA quads in fresh processes of both",
        processes=processes,
        seconds=sum(found.seconds for found in samples.values()),
    )
    return msgspec.structs.replace(
        bare,
        comparison=comparison,
        objective=comparison.get(*best.objective),
        trades=trades(comparison),
        before=_intervals(samples, "A"),
        after=_intervals(samples, "B"),
    )


def _intervals(samples: dict[str, Samples], arm: str) -> dict[str, dict[str, Interval]]:
    return {name: {phase: interval(found.of(arm, phase)) for phase in found.phases} for name, found in samples.items()}


def _rounds(context: Context, best: Best, original: Workload, seconds: float) -> tuple[dict[str, Samples], int]:
    """Samples by scenario over PROCESSES pairs of processes, and how many started on a side; fewer, or none, where the
    time does not allow more or a worker dies."""
    loaded = best.variant.loaded
    alone = loaded is not None and not fits_two(loaded, context.options.memory_limit_bytes)
    end = context.budget.until(seconds)
    if alone:
        best.variant.close()
    else:
        best.variant.handle().rest()
    parts: dict[str, list[Samples]] = {}
    rounds = 1 if alone else PROCESSES
    done = 0
    for number in range(rounds):
        left = end - context.budget.now()
        if number and left < seconds / rounds / 2:
            break
        a, b = Variant(context, "original", original), Variant(context, "final", best.variant.workload)
        arms = (RestartArm(a), RestartArm(b)) if alone else (VariantArm(a), VariantArm(b))
        try:
            for name, found in _round(context, best, arms, left / (rounds - number), number, alone=alone).items():
                parts.setdefault(name, []).append(found)
            done += 1
        except WorkerDied as error:
            context.progress.note(f"{error.message}; the final comparison ends early.")
            break
        finally:
            a.close()
            b.close()
    samples = {name: merged(found) for name, found in parts.items()}
    return samples, sum(map(_blocks, samples.values())) if alone else done


def _blocks(samples: Samples) -> int:
    """Runs of one side in the order of measurement: each had a process of its own."""
    return sum(1 for side, _ in groupby(samples.sequence) if side == "B")


def _round(
    context: Context, best: Best, arms: tuple[VariantArm, VariantArm], seconds: float, number: int, *, alone: bool
) -> dict[str, Samples]:
    scenario, phase = best.objective
    begin = context.budget.now()
    if not alone:
        for arm in arms:
            arm.variant.handle()
            arm.leave()
    # Loading took its part; what is left of the round is for samples.
    left = max(1.0, seconds - (context.budget.now() - begin))
    names = sorted((found.name for found in best.variant.workload.scenarios), key=lambda name: name != scenario)
    return {
        name: duel(
            arms[0],
            arms[1],
            name,
            quads=3 if alone else 12,
            least=1 if alone or name != scenario else 2,
            deadline=context.budget.until(left * (OBJECTIVE_SHARE if name == scenario else OTHER_SHARE)),
            now=context.budget.now,
            seed=101 + number,
            watch=phase,
            half_width=0.0,
            first_unit=number,
        )
        for name in names
    }


def save(context: Context, best: Best, directory: Path, protected: Sequence[Path]) -> Artefact:
    """Write the best variant as a plain directory and load it again in a clean process.

    Built beside its destination and moved there whole. `protected` are the user's directories, which are never
    written to. FtprofError where the destination cannot be used.
    """
    check_destination(directory, protected)
    context.progress.stage(f"saving the faster model to {directory}")
    building = directory.with_name(f".{directory.name}.partial-{os.getpid()}")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    try:
        handle = best.variant.handle()
        handle.call("save", str(building), timeout_s=context.patience())
        lines = load_lines(best.variant.workload, best.variant.loaded, str(directory))
        (building / "load.py").write_text(lines + "\n", "utf-8")
        expected = handle.call("fingerprint", timeout_s=context.patience())
        outcome, detail = _reload(context, best, building, expected)
        if directory.exists():
            directory.rmdir()
        building.rename(directory)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    return Artefact(
        path=str(directory),
        load=lines,
        sha256=_digest(directory),
        size_bytes=sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()),
        reload=outcome,  # type: ignore[arg-type]
        reload_detail=detail,
    )


def check_destination(directory: Path, protected: Sequence[Path]) -> None:
    """FtprofError unless `directory` is new or empty, can be written, and is not the user's own model."""
    resolved = directory.resolve()
    for path in protected:
        if resolved == path.resolve() or path.resolve() in resolved.parents:
            raise FtprofError(
                f"{directory} is in the model's own directory", "give --save a directory elsewhere", Exit.USAGE
            )
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise FtprofError(f"{directory} is not empty", "give --save a new directory", Exit.USAGE)
    parent = next(path for path in resolved.parents if path.exists())
    if not os.access(parent, os.W_OK):
        raise FtprofError(f"{parent} cannot be written to", "give --save a directory of your own", Exit.USAGE)


def _reload(context: Context, best: Best, directory: Path, expected: Sequence[float]) -> tuple[str, str]:
    """Load the copy as its user would, without any rule that changes the engine, and compare its outputs."""
    workload = best.variant.workload
    plain = msgspec.structs.replace(
        workload,
        model=str(directory),
        adapter=None,
        tokenizer=str(directory),
        call=msgspec.structs.replace(workload.call, dtype="auto"),
        changes=tuple(change for change in workload.changes if _acts_at_run_time(change.rule)),
        vocab_rows=None,
    )
    clean = Variant(context, "reload", plain)
    try:
        found = clean.handle().call("fingerprint", timeout_s=context.patience())
    except (FtprofError, RuntimeError) as error:
        return "failed", getattr(error, "message", None) or str(error)
    finally:
        clean.close()
    if len(found) != len(expected) or not all(map(math.isfinite, found)):
        return "failed", "its outputs have another shape or are not finite"
    scale = max(1.0, max(abs(value) for value in expected))
    worst = max(abs(a - b) for a, b in zip(found, expected, strict=True)) / scale
    verdict = "ok" if worst <= RELOAD_TOLERANCE else "failed"
    return verdict, f"largest relative difference of {len(found)} outputs after a reload: {worst:.1e}"


def _acts_at_run_time(rule: str) -> bool:
    """Whether a fix is not in the saved files: attention, padding and order are; merging and the dtype are not."""
    from ftprof.profiler.workload import Call

    found = get_rule(rule)
    return found.rewrite is not None and found.rewrite(Call()).dtype == "auto"


def _digest(directory: Path) -> str:
    """sha256 over the saved weights, in order of name."""
    digest = hashlib.sha256()
    for path in sorted(directory.glob("*.safetensors")):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
