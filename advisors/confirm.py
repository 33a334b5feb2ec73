"""Measure two audited models again, side by side, before an alarm is raised.

Two audits were taken at different moments; here both models run in turns, in fresh processes of both, as the original and
the best variant do in the final comparison of a run.
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ftprof.advisors.audit import Audit
from ftprof.advisors.budget import Budget
from ftprof.advisors.context import Context, Options
from ftprof.advisors.duel import Samples, duel, merged, ratios
from ftprof.advisors.memory import fits
from ftprof.advisors.progress import Progress
from ftprof.advisors.variant import RestartArm, Variant, VariantArm
from ftprof.profiler.comparison import Comparison, Ratio
from ftprof.profiler.digest import digest_directory
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.processes import prepare
from ftprof.profiler.rows import load_rows, write_rows
from ftprof.profiler.workload import Workload

PROCESSES = 3
"""Fresh processes a side, as in the final comparison: what differs between processes must show."""
LEAST_QUADS = 2
LEAVE_OUT = "leave --confirm out, or run it where both models and their data are"


def confirm(
    base: Audit, head: Audit, scenarios: Sequence[str], budget_s: float, progress: Progress, data: str | None = None
) -> Comparison:
    """Ratios of `head` over `base` by scenario and phase, from interleaved samples of both; within about `budget_s` seconds.

    Each model runs as its audit loaded it, on the same rows: those of `data`, else of the recorded command's --data, else
    the built-in ones. FtprofError where a model or the rows are not here, or are not what was audited.
    """
    scratch = Path(tempfile.mkdtemp(prefix="ftprof-"))
    context = Context(
        options=Options(),
        budget=Budget(budget_s),
        progress=progress,
        scratch=scratch,
        device=head.workload.device,
        seed=head.workload.seed,
    )
    try:
        workloads = _workloads(base, head, scratch / "rows.jsonl", data)
        prepare(head.workload.device, offline=True)
        return _compare(context, workloads, scenarios)
    finally:
        context.end_workers()
        shutil.rmtree(scratch, ignore_errors=True)


def _workloads(base: Audit, head: Audit, rows: Path, data: str | None) -> tuple[Workload, Workload]:
    """Both recipes on the same rows, samples and token counts; checked against what the audits recorded."""
    if base.workload.rows_digest != head.workload.rows_digest or base.workload.task != head.workload.task:
        raise FtprofError("the two audits ran on other data", "nothing can be measured side by side", Exit.NOTHING)
    _write_rows(head, rows, data)
    plan = {"rows": str(rows), "scenarios": head.workload.scenarios, "new_tokens": head.workload.new_tokens}
    first, second = (
        msgspec.structs.replace(_here(audit, name), **plan) for audit, name in ((base, "base"), (head, "head"))
    )
    return first, second


def _write_rows(audit: Audit, path: Path, data: str | None) -> None:
    workload = audit.workload
    source = data or data_of(audit.command)
    found = load_rows(source, task=workload.task, labels=workload.labels, seed=workload.seed)
    if write_rows(found.rows, path) != workload.rows_digest:
        what = source or "ftprof's built-in prompts"
        raise FtprofError(
            f"{what} are not the rows that were audited", f"give them with --data, or {LEAVE_OUT}", Exit.USAGE
        )


def data_of(command: str) -> str | None:
    """The --data of a recorded command, or None. A redacted one's "~" is expanded by whoever opens it."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    for number, word in enumerate(words):
        if word == "--data" and number + 1 < len(words):
            return words[number + 1]
        if word.startswith("--data="):
            return word.removeprefix("--data=")
    return None


def _here(audit: Audit, name: str) -> Workload:
    """The recipe with its paths on this machine; FtprofError unless the model is there and unchanged."""
    recorded = audit.workload
    paths = {
        field: _expanded(getattr(recorded, field))
        for field in ("model", "adapter", "tokenizer")
        if getattr(recorded, field)
    }
    given = Path(paths.get("adapter") or paths["model"])
    for path in paths.values():
        if not Path(path).exists():
            raise FtprofError(f"the model of the {name} is not here: there is no {path}", LEAVE_OUT, Exit.UNUSABLE)
    if digest_directory(given) != audit.model.sha256:
        raise FtprofError(f"{given} is not what the {name} audited: its files have changed", LEAVE_OUT, Exit.UNUSABLE)
    return msgspec.structs.replace(recorded, **paths)


def _expanded(path: str) -> str:
    return str(Path(path).expanduser())


def _compare(context: Context, workloads: tuple[Workload, Workload], scenarios: Sequence[str]) -> Comparison:
    """As many rounds as the time allows, PROCESSES at most; what was measured before a worker dies counts."""
    rounds: list[dict[str, Samples]] = []
    for number in range(PROCESSES):
        if number and context.budget.left() < context.budget.total_s / PROCESSES / 2:
            context.progress.note("The time is spent; the measurement ends early.")
            break
        context.progress.stage(f"measuring both again, side by side: {number + 1} of {PROCESSES} pairs of processes")
        try:
            rounds.append(_round(context, workloads, number, scenarios))
        except FtprofError as error:
            if not rounds:
                raise
            context.progress.note(f"{error.message}; the measurement ends early.")
            break
    parts = {name: [found[name] for found in rounds] for name in scenarios}
    return Comparison(
        ratios={name: _agreed([ratios(part) for part in found], merged(found)) for name, found in parts.items()},
        design="interleaved ABBA quads, fresh processes of both",
        processes=len(rounds),
        seconds=sum(part.seconds for found in parts.values() for part in found),
    )


def _round(
    context: Context, workloads: tuple[Workload, Workload], number: int, scenarios: Sequence[str]
) -> dict[str, Samples]:
    """Samples by scenario of one fresh process of each model; in turns where memory holds only one."""
    a, b = (Variant(context, name, workload) for name, workload in zip(("base", "head"), workloads, strict=True))
    end = context.budget.until(context.budget.left() / (PROCESSES - number))
    try:
        arms = _arms(a, b)
        left = max(1.0, end - context.budget.now()) / len(scenarios)
        return {
            name: duel(
                *arms,
                name,
                quads=12,
                least=LEAST_QUADS,
                deadline=context.budget.until(left),
                now=context.budget.now,
                seed=context.seed + number,
                half_width=0.0,
                first_unit=number,
            )
            for name in scenarios
        }
    finally:
        a.close()
        b.close()


def _arms(a: Variant, b: Variant) -> tuple[VariantArm, VariantArm]:
    a.handle()
    if a.loaded is None or not fits(a.loaded):
        return RestartArm(a), RestartArm(b)
    b.handle()
    # Loaded and stopped: neither may slow the other's first sample.
    a.rest()
    b.rest()
    return VariantArm(a), VariantArm(b)


def _agreed(parts: Sequence[dict[str, Ratio]], pooled: Samples) -> dict[str, Ratio]:
    """Pooled ratios, widened to what the pairs of processes showed one by one; no verdict that one of them contradicts."""
    found = {}
    for phase, ratio in ratios(pooled).items():
        each = [part[phase].speedup for part in parts if phase in part]
        low, high = min(ratio.low, *each), max(ratio.high, *each)
        contradicted = (ratio.verdict == "slower" and high >= 1) or (ratio.verdict == "faster" and low <= 1)
        verdict = "inconclusive" if contradicted else ratio.verdict
        found[phase] = msgspec.structs.replace(ratio, low=low, high=high, verdict=verdict)
    return found
