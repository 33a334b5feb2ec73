"""A Hugging Face encoder or classifier as an ONNX graph with dynamic axes, in fp32 or int8.

The work is done by transformers' exporter and ONNX Runtime's quantiser in a child process: they print much, hold several
copies of the model, and must not run in a process that measures.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import time
from pathlib import Path

import msgspec

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
# The tokenizer's files, as they lie beside Hugging Face models.
_TOKENIZER = (
    *("tokenizer*.json", "tokenizer.model", "vocab.*", "merges.txt", "special_tokens_map.json", "added_tokens.json"),
    *("spiece.model", "sentencepiece.bpe.model", "tekken.json", "chat_template*"),
)
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
    work = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _check_space(target.parent, needed)
        work.mkdir()
        answer = _export(_job(recipe, source, work, threads), source, needed)
        shutil.rmtree(work / "tmp")
        for path in _tokenizer_files(source):
            shutil.copyfile(path, work / path.name)
        built = _built(recipe, source, work, answer, time.perf_counter() - begin)
        write_manifest(built, work)
        work.rename(target)
    except OSError as error:
        raise FtprofError(
            f"cannot write {target} ({needed / 1e6:.0f} MB): {error.strerror or error}", "choose another directory"
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
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
    if not _tokenizer_files(source):
        raise FtprofError(f"no tokenizer in {source.directory}", "save it there: tokenizer.save_pretrained(DIR)")
    if target.exists():
        raise FtprofError(f"{target} is there already", "give a new directory", Exit.USAGE)


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise FtprofError(
            f"converting needs about {needed / 1e6:.0f} MB in {folder}, and {free / 1e6:.0f} MB are free",
            "free some space, or let --out lie on another disk",
        )


def needs_reduced_range() -> bool:
    """Whether this processor's 8-bit products overflow in ONNX Runtime's kernels."""
    return not _BYTE_PRODUCTS.intersection(isa_flags())


def _job(recipe: Recipe, source: Source, work: Path, threads: int) -> ExportJob:
    options = recipe.options
    quantisation = str(options.get("quantisation", "dynamic")) if recipe.precision == "int8" else None
    return ExportJob(
        directory=source.directory,
        output=str(work),
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


def _export(job: ExportJob, source: Source, needed: int) -> ExportAnswer:
    """Run the child; its answer, where that is a good one."""
    scratch = Path(job.output) / "tmp"
    scratch.mkdir()
    (scratch / "job.json").write_bytes(msgspec.json.encode(job))
    log = scratch / "output.txt"
    code = run_job(CHILD, scratch / "job.json", log, _environment(scratch, job.threads), IMPORTS)
    free = shutil.disk_usage(scratch).free
    found = _answer(scratch / ANSWER)
    if (found and found.no_space) or (not (found and found.error is None) and free < _FULL):
        raise FtprofError(
            f"the disk of {scratch.parent.parent} filled up: the export needs about {needed / 1e6:.0f} MB there, and "
            f"{free / 1e6:.0f} MB are left",
            "free some space, or let --out lie on another disk",
        )
    if found is None:
        raise FtprofError(f"the export of {source.facts.architecture} {_how_it_ended(code)}", _last_line(log))
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


def _environment(scratch: Path, threads: int) -> dict[str, str]:
    """The child imports what we can import, makes its temporary files on the target's disk, and asks no hub."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return os.environ | {
        "PYTHONPATH": paths,
        "TMPDIR": str(scratch),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "false",
    }


def _how_it_ended(code: int) -> str:
    return f"was killed by signal {-code}, probably for want of memory" if code < 0 else f"ended with code {code}"


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text("utf-8", errors="replace").splitlines() if line.strip()]
    return f"its output ended with: {lines[-1][:200] if lines else 'nothing'}"


def _tokenizer_files(source: Source) -> list[Path]:
    found = [path for pattern in _TOKENIZER for path in Path(source.directory).glob(pattern) if path.is_file()]
    code = Path(source.directory).glob("*.py") if found and source.trust_remote_code else ()
    return [*found, *code]


def _built(recipe: Recipe, source: Source, folder: Path, answer: ExportAnswer, seconds: float) -> Built:
    versions = {name: version for name in _VERSIONS if (version := _version(name))}
    notes = [f"outputs at unseen shapes are within {answer.largest_difference:.1e} of the largest of PyTorch's"]
    if recipe.precision == "int8" and recipe.options.get("reduce_range", needs_reduced_range()):
        notes.append("weights use 7 of 8 bits, since this processor's 8-bit products would overflow")
    if recipe.options.get("quantisation") == "static":
        rows = len(_calibration(source))
        notes.append(f"calibrated on {rows} rows; the MLP's second product and the head stay in fp32")
    return Built(
        recipe=recipe,
        task=source.task,
        source=source.facts,
        seconds=seconds,
        size_bytes=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        eos_ids=source.eos_ids,
        versions=versions,
        notes=tuple(notes),
    )


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
