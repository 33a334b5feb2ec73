"""Save the best variant as a directory of its own, and prove that it loads: in a clean process, with equal outputs."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from ftprof.advisors.audit import Artefact
from ftprof.advisors.context import Context
from ftprof.advisors.improve import Best
from ftprof.advisors.load_lines import load_lines
from ftprof.advisors.rules import get_rule
from ftprof.advisors.variant import Variant
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.own_directories import refuse_inside
from ftprof.profiler.workload import Call, Workload

# Outputs of the reloaded copy against the worker's: the same operations on the same weights, so nearly bit-equal.
RELOAD_TOLERANCE = 1e-3


def save(context: Context, best: Best, directory: Path, protected: Sequence[Path]) -> Artefact:
    """Write the best variant and load it again in a clean process.

    Built beside its destination and moved there whole, only if the reload gives the same outputs. A merged variant is
    a plain Hugging Face directory; one that keeps its adapter is a PEFT directory on the same base. `protected` are
    the user's directories, which are never written to. FtprofError where it cannot be saved.
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
        sha256=_digest(directory) if saved else "",
        size_bytes=sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) if saved else 0,
        reload=outcome,
        reload_detail=detail,
    )


def _build(context: Context, best: Best, building: Path, directory: Path) -> tuple[Literal["ok", "failed"], str]:
    handle = best.variant.handle()
    handle.call("save", str(building), timeout_s=context.patience())
    lines = load_lines(best.variant.workload, best.variant.loaded, str(directory))
    (building / "load.py").write_text(lines + "\n", "utf-8")
    expected = handle.call("fingerprint", timeout_s=context.patience())
    best.variant.close()
    return _reload(context, best, building, expected)


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
    kept = tuple(change for change in workload.changes if _acts_at_run_time(change.rule))
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


def _digest(directory: Path) -> str:
    """sha256 over the saved weights, in order of name."""
    digest = hashlib.sha256()
    for path in sorted(directory.glob("*.safetensors")):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
