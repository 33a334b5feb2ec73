"""Save the best variant as a directory of its own, and prove that it loads: in a clean process, with equal outputs."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from ftprof.advisors.artefact_digest import artefact_digest
from ftprof.advisors.audit import Artefact
from ftprof.advisors.context import Context
from ftprof.advisors.improve import Best
from ftprof.advisors.load_lines import load_lines
from ftprof.advisors.rules import get_rule
from ftprof.advisors.stacking import conversion
from ftprof.advisors.variant import Variant
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.own_directories import refuse_inside
from ftprof.profiler.workload import Call, Workload

# Outputs of the reloaded copy against the worker's: the same operations on the same weights, so nearly bit-equal.
RELOAD_TOLERANCE = 1e-3
LINES_S = 60.0
PLAIN = "huggingface"
"""Folder of the merged model beside one that was built for another runtime."""


def save(context: Context, best: Best, directory: Path, protected: Sequence[Path]) -> Artefact:
    """Write the best variant and load it again in a clean process.

    Built beside its destination and moved there whole, only if the reload gives the same outputs. A merged variant is
    a plain Hugging Face directory; one that keeps its adapter is a PEFT directory on the same base; one for another
    runtime has the merged plain directory inside. `protected` are the user's directories, which are never written to. FtprofError where it cannot be saved.
    """
    check_destination(directory, protected)
    context.progress.stage(f"saving the faster model to {directory}")
    directory = directory.resolve()
    building = directory.with_name(f".{directory.name}.partial-{os.getpid()}")
    shutil.rmtree(building, ignore_errors=True)
    try:
        building.mkdir(parents=True)
        outcome, detail = _build(context, best, building, directory)
        if outcome == "ok":
            if directory.exists():
                directory.rmdir()
            building.rename(directory)
    except OSError as error:
        raise FtprofError(
            f"cannot write {directory}: {error.strerror or error}", "give --save another place"
        ) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    saved = outcome == "ok"
    return Artefact(
        path=str(directory),
        load=load_lines(best.variant.workload, best.variant.loaded, str(directory)),
        sha256=artefact_digest(directory) if saved else "",
        size_bytes=sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) if saved else 0,
        reload=outcome,
        reload_detail=detail,
    )


def _build(context: Context, best: Best, building: Path, directory: Path) -> tuple[Literal["ok", "failed"], str]:
    handle = best.variant.handle()
    handle.call("save", str(building), timeout_s=context.patience())
    workload, loaded = best.variant.workload, best.variant.loaded
    (building / "load.py").write_text(load_lines(workload, loaded, str(directory)) + "\n", "utf-8")
    expected = handle.call("fingerprint", timeout_s=context.patience())
    best.variant.close()
    outcome, detail = _reload(context, best, building, expected)
    if outcome == "ok":
        fault = _fault(load_lines(workload, loaded, str(building)), context.patience(LINES_S))
        if fault is not None:
            outcome, detail = "failed", f"the lines that load it do not run in a clean process: {fault}"
    if outcome == "ok" and conversion(workload.changes) is not None:
        _save_plain(context, workload, building / PLAIN, directory / PLAIN)
    return outcome, detail


def _fault(lines: str, timeout_s: float) -> str | None:
    """What Python code says when it fails in a process of its own, with nothing of ours in it.

    None where it ends well, or not within the time: the copy itself was reloaded and compared before.
    """
    command = [sys.executable, "-c", lines]
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout_s, cwd="/", check=False, text=True)
    except subprocess.TimeoutExpired:
        return None
    said = done.stderr.strip().splitlines()
    return None if done.returncode == 0 else (said[-1][:200] if said else f"exit code {done.returncode}")


def _save_plain(context: Context, workload: Workload, building: Path, directory: Path) -> None:
    """The merged model without the conversion, which every tool opens; best effort, since the winner is there."""
    changes = tuple(change for change in workload.changes if get_rule(change.rule).convert is None)
    plain = Variant(context, "plain", msgspec.structs.replace(workload, changes=changes))
    try:
        plain.handle().call("save", str(building), timeout_s=context.patience())
        lines = load_lines(plain.workload, plain.loaded, str(directory))
        (building / "load.py").write_text(lines + "\n", "utf-8")
    except FtprofError as error:
        context.progress.note(f"The plain copy beside it was not saved: {error.message}")
        shutil.rmtree(building, ignore_errors=True)
    finally:
        plain.close()


def check_destination(directory: Path, protected: Sequence[Path]) -> None:
    """FtprofError unless `directory` is new or empty, can be written, and is not the user's own model."""
    refuse_inside(directory, protected, "--save")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise FtprofError(f"{directory} is not empty", "give --save a new directory", Exit.USAGE)
    parent = next(path for path in directory.resolve().parents if path.exists())
    if not os.access(parent, os.W_OK):
        raise FtprofError(
            f"{parent} cannot be written to", "give --save a new directory in one of your own", Exit.USAGE
        )


def _reload(
    context: Context, best: Best, directory: Path, expected: Sequence[float]
) -> tuple[Literal["ok", "failed"], str]:
    """Load the copy as its user would, without any rule that changes the engine, and compare its outputs."""
    clean = Variant(context, "reload", _plain(best, directory))
    try:
        found = clean.handle().call("fingerprint", timeout_s=context.patience())
    except FtprofError as error:
        return "failed", error.message
    finally:
        clean.close()
    if len(found) != len(expected) or not all(map(math.isfinite, found)):
        return "failed", "its outputs have another shape or are not finite"
    scale = max(1.0, max(abs(value) for value in expected))
    worst = max(abs(a - b) for a, b in zip(found, expected, strict=True)) / scale
    detail = f"largest relative difference of {len(found)} outputs after a reload: {worst:.1e}"
    return ("ok" if worst <= RELOAD_TOLERANCE else "failed"), detail


def _plain(best: Best, directory: Path) -> Workload:
    """The saved copy as a workload, with the fixes that are not in its files."""
    workload = best.variant.workload
    if conversion(workload.changes) is not None:
        return msgspec.structs.replace(workload, built=str(directory))
    kept = tuple(change for change in workload.changes if _acts_at_run_time(change.rule))
    if workload.built:
        return msgspec.structs.replace(workload, built=str(directory), changes=kept)
    if best.variant.loaded is not None and best.variant.loaded.adapter is not None:
        return msgspec.structs.replace(workload, adapter=str(directory), tokenizer=str(directory))
    return msgspec.structs.replace(
        workload,
        model=str(directory),
        adapter=None,
        tokenizer=str(directory),
        call=msgspec.structs.replace(workload.call, dtype="auto"),
        changes=kept,
        vocab_rows=None,
    )


def _acts_at_run_time(rule: str) -> bool:
    """Whether a fix is not in the saved files: attention, padding and order are; merging and the dtype are not."""
    rewrite = get_rule(rule).rewrite
    return rewrite is not None and rewrite(Call()).dtype == "auto"
