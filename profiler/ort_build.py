"""A Hugging Face encoder or classifier as an ONNX graph with dynamic axes, in fp32 or int8.

The work is done by transformers' exporter and ONNX Runtime's quantiser in a child process: they print much, hold several
copies of the model, and must not run in a process that measures.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from ftprof.profiler.build_place import (
    Workplace,
    copy_files,
    described,
    environment,
    how_it_ended,
    tokenizer_files,
)
from ftprof.profiler.built import Built, Recipe, Source, write_manifest
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.job_process import run_job
from ftprof.profiler.machine import isa_flags
from ftprof.profiler.ort_export import ANSWER, ExportAnswer, ExportJob
from ftprof.profiler.workload import Scalar

CHILD = "ftprof.profiler.ort_export"
IMPORTS = ("torch", "transformers.exporters.exporter_onnx", "onnxruntime.quantization")
# Instructions that multiply bytes without overflow; others saturate sums of two 8-bit products, hence 7-bit weights.
_BYTE_PRODUCTS = frozenset(("avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"))
# Task rows enough for the ranges of a few dozen tensors; ONNX Runtime's own advice is 100 to 500.
_CALIBRATION_ROWS = 128
_OPTIONS: dict[str, tuple[Scalar, ...]] = {
    "quantisation": ("dynamic", "static"),
    "per_channel": (True, False),
    "reduce_range": (True, False),
    "fusions": (True, False),
}
_VERSIONS = ("torch", "transformers", "onnx", "onnxscript", "onnxruntime-gpu", "onnxruntime")
# The quantiser keeps the fp32 graph and its own beside each other while it works, and then the result is written.
_SPACE = {"fp32": 1.1, "int8": 3.0}
_FULL = 1 << 20  # less free than this counts as a full disk


def build_ort(recipe: Recipe, source: Source, target: Path, threads: int) -> Built:
    """Convert `source` into the new directory `target`; on failure nothing is left behind.

    `Recipe.options` for int8: `quantisation` ("dynamic", the default, or "static": calibrated on the source's rows),
    `per_channel` (default True), `reduce_range` (default: where the CPU lacks VNNI); for both precisions `fusions`
    (default False). `ExportedModel.from_pretrained(target)` of transformers opens the result too. FtprofError with the
    op or layer at fault, or the sizes where the disk is full.
    """
    begin = time.perf_counter()
    _refuse(recipe, source, target)
    needed = int(source.facts.parameters * 4 * _SPACE[recipe.precision])
    place = Workplace(target, needed)
    try:
        with place as work:
            work.folder.mkdir()
            answer = _export(_job(recipe, source, work.folder, threads), source, work)
            copy_files(tokenizer_files(source), work.folder)
            notes = _notes(recipe, source, answer)
            built = described(recipe, source, work.folder, time.perf_counter() - begin, _VERSIONS, notes)
            write_manifest(built, work.folder)
            work.folder.rename(target)
    except OSError as error:
        raise place.unwritable(error) from error
    return built


def _refuse(recipe: Recipe, source: Source, target: Path) -> None:
    name = source.facts.architecture
    if source.task == "causal-lm":
        raise FtprofError(f"{name} generates text, which OrtEngine does not", "convert it for onnxruntime-genai")
    if recipe.precision not in _SPACE:
        raise FtprofError(f"no {recipe.precision} for {name} on ONNX Runtime", "use fp32 or int8", Exit.USAGE)
    if source.task == "sequence-classification" and not name.endswith("ForSequenceClassification"):
        raise FtprofError(f"the head of {name} is not supported", "ftprof converts ...ForSequenceClassification")
    for key, value in recipe.options.items():
        if value not in _OPTIONS.get(key, ()):
            known = "; ".join(f"{name}: {' or '.join(map(str, values))}" for name, values in _OPTIONS.items())
            raise FtprofError(f"the recipe's option {key}={value} is unknown", f"use {known}", Exit.USAGE)
    if recipe.options.get("quantisation") == "static" and not source.rows:
        raise FtprofError("static quantisation needs rows to calibrate with", "give --data, or use dynamic")
    if not tokenizer_files(source):
        raise FtprofError(f"no tokenizer in {source.directory}", "save it there: tokenizer.save_pretrained(DIR)")
    if target.exists():
        raise FtprofError(f"{target} is there already", "give a new directory", Exit.USAGE)


def needs_reduced_range() -> bool:
    """Whether this processor's 8-bit products overflow in ONNX Runtime's kernels."""
    return not _BYTE_PRODUCTS.intersection(isa_flags())


def _job(recipe: Recipe, source: Source, folder: Path, threads: int) -> ExportJob:
    options = recipe.options
    quantisation = str(options.get("quantisation", "dynamic")) if recipe.precision == "int8" else None
    return ExportJob(
        directory=source.directory,
        output=str(folder),
        task=source.task,
        quantisation=quantisation,
        per_channel=bool(options.get("per_channel", True)),
        reduce_range=bool(options.get("reduce_range", needs_reduced_range())),
        fusions=bool(options.get("fusions", False)),
        texts=_calibration(source) if quantisation == "static" else (),
        threads=threads,
        trust_remote_code=source.trust_remote_code,
    )


def _calibration(source: Source) -> tuple[str, ...]:
    """Texts spread over all rows: files are often sorted by label."""
    step = max(1, len(source.rows) // _CALIBRATION_ROWS)
    return tuple(row.prompt for row in source.rows[::step][:_CALIBRATION_ROWS])


def _export(job: ExportJob, source: Source, work: Workplace) -> ExportAnswer:
    """Run the child; its answer, where that is a good one."""
    (work.root / "job.json").write_bytes(msgspec.json.encode(job))
    log = work.root / "output.txt"
    code = run_job(CHILD, work.root / "job.json", log, environment(work.root, job.threads), IMPORTS)
    found = _answer(work.root / ANSWER)
    if (found and found.no_space) or (not (found and found.error is None) and work.free() < _FULL):
        raise work.filled_up()
    if found is None:
        raise FtprofError(f"the export of {source.facts.architecture} {how_it_ended(code)}", _last_line(log))
    if found.error is not None:
        at = f" at {found.where}" if found.where else ""
        raise FtprofError(
            f"the export of {source.facts.architecture} failed{at}: {found.error}",
            "keep it on PyTorch, or try another version of transformers or torch",
        )
    return found


def _answer(path: Path) -> ExportAnswer | None:
    """What the child wrote; None where it could not, or not all of it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ExportAnswer)
    except (OSError, msgspec.DecodeError):
        return None


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text("utf-8", errors="replace").splitlines() if line.strip()]
    return f"its output ended with: {lines[-1][:200] if lines else 'nothing'}"


def _notes(recipe: Recipe, source: Source, answer: ExportAnswer) -> list[str]:
    notes = [f"outputs at unseen shapes are within {answer.largest_difference:.1e} of the largest of PyTorch's"]
    if recipe.precision == "int8" and recipe.options.get("reduce_range", needs_reduced_range()):
        notes.append("weights use 7 of 8 bits, since this processor's 8-bit products would overflow")
    if recipe.options.get("quantisation") == "static":
        rows = len(_calibration(source))
        notes.append(f"calibrated on {rows} rows; the MLP's second product and the head stay in fp32")
    return notes
