"""A Hugging Face decoder as a directory for ONNX Runtime GenAI, in fp32, int8 or int4.

The work is done by onnxruntime-genai's own builder, in a child process whose output goes to a file.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, get_args

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
from ftprof.profiler.genai_child import ANSWER, Algorithm, Answer, Job
from ftprof.profiler.genai_graph import free_token, graph_notes
from ftprof.profiler.genai_log import last_line, where
from ftprof.profiler.genai_model import open_tokenizer
from ftprof.profiler.generation_settings import honoured, read_settings, refuse_unsupported, sampling_note
from ftprof.profiler.job_process import run_job

CHILD = "ftprof.profiler.genai_child"
IMPORTS = ("torch", "transformers", "onnxruntime_genai.models.builder")
GRAPH, CONFIG = "model.onnx", "genai_config.json"
# Layers that "measured" keeps in 8 bit: a quarter costs an eighth of the bytes that 4 bit save.
KEEP = 0.25
# Rating the 30 layers of a 135M model takes about 20 s on two cores; of larger ones, as many as fit are rated.
BUDGET_S = 45.0
_OPTIONS: dict[str, type | tuple[type, ...]] = {
    "algorithm": str,
    "accuracy_level": int,
    "block_size": int,
    "keep": (int, float),
    "budget_s": (int, float),
}
_BUILDER: dict[str, tuple[str, ...]] = {
    "plain": (),
    "8-bit head": ("matmul_mixed_precision=last_matmul:int8",),
    "k-quant mixed": ("algo_config=k_quant_mixed",),
    "measured": (),
}
_VERSIONS = (
    *("onnxruntime-genai-cuda", "onnxruntime-genai", "onnxruntime-gpu", "onnxruntime"),
    *("onnx", "onnx-ir", "transformers", "torch"),
)
# Bytes of a parameter on disk: packed weights with their scales, and room for a table that stays in fp32.
_BYTES = {"fp32": 4.2, "int8": 2.2, "int4": 1.8}
_SUPPORTED = "Llama, Mistral, Qwen 2 and 3, Gemma 1 to 3, Phi, SmolLM3, Granite, OLMo, Nemotron, ERNIE 4.5, InternLM2"


def build_genai(recipe: Recipe, source: Source, target: Path, threads: int) -> Built:
    """Convert `source` into the new directory `target`; on failure nothing is left behind but the builder's output.

    `Recipe.options`: `algorithm` for int4 ("plain"; "8-bit head"; "k-quant mixed", which takes ten times as long;
    "measured": the most sensitive layers and the head in 8 bit), `accuracy_level` (4, the default: 8-bit arithmetic;
    0: the kernel's own), `block_size` (32), and for "measured" `keep` (share of layers, 0.25) and `budget_s` (seconds
    for rating layers, 45). FtprofError with the layer or op at fault, or the sizes where the disk is full.
    """
    begin = time.perf_counter()
    settings = read_settings(Path(source.directory))
    algorithm = _refuse(recipe, source, target)
    refuse_unsupported(settings, Path(source.directory))
    needed = int(source.facts.parameters * _BYTES[recipe.precision])
    place = Workplace(target, needed)
    try:
        with place as work:
            answer = _run(_job(recipe, source, work, algorithm), source, work, threads)
            # config.json tells some tokenizers their kind.
            copy_files(tokenizer_files(source, "config.json"), work.folder)
            graph = work.folder / GRAPH
            _configure(work.folder, source, settings, threads)
            notes = [*graph_notes(graph, tied=source.facts.tied), *_notes(answer, algorithm)]
            notes += [note] if (note := sampling_note(settings)) else []
            built = described(recipe, source, work.folder, time.perf_counter() - begin, _VERSIONS, notes)
            write_manifest(built, work.folder)
            work.folder.rename(target)
    except OSError as error:
        raise place.unwritable(error) from error
    return built


def _refuse(recipe: Recipe, source: Source, target: Path) -> Algorithm:
    """The algorithm, where everything can be honoured."""
    name, options = source.facts.architecture, recipe.options
    if source.task != "causal-lm":
        raise FtprofError(f"{name} does not generate text", "convert it for ONNX Runtime", Exit.USAGE)
    for key, value in options.items():
        if not isinstance(value, _OPTIONS.get(key, ())) or isinstance(value, bool):
            raise FtprofError(f"the recipe's option {key}={value} is unknown", f"use {', '.join(_OPTIONS)}", Exit.USAGE)
    algorithm = options.get("algorithm", "plain")
    if algorithm not in get_args(Algorithm) or (algorithm != "plain" and recipe.precision != "int4"):
        raise FtprofError(
            f"no algorithm {algorithm} for {recipe.precision}", f"int4 has {', '.join(_BUILDER)}", Exit.USAGE
        )
    if options.get("accuracy_level") not in (None, 0, 4):
        raise FtprofError(
            f"accuracy_level={options['accuracy_level']} is refused",
            "use 4 (8-bit arithmetic) or 0: level 1 made decode twenty times slower on CPUs, 2 and 3 have no CPU kernel",
            Exit.USAGE,
        )
    if algorithm == "measured" and not source.rows:
        raise FtprofError("which layers are sensitive is measured on rows", "give --data, or use another algorithm")
    if target.exists():
        raise FtprofError(f"{target} is there already", "give a new directory", Exit.USAGE)
    return algorithm  # type: ignore[return-value]


def _job(recipe: Recipe, source: Source, work: Workplace, algorithm: Algorithm) -> Job:
    given = recipe.options
    options = list(_BUILDER[algorithm])
    options += [f"{name}={given[name]}" for name in ("accuracy_level", "block_size") if name in given]
    if algorithm in ("8-bit head", "measured") and source.facts.tied:
        # The builder cannot share an 8-bit matrix with the token table (its graph does not open); in 4 bit of its own
        # the table costs no measurable quality.
        options += ["shared_embeddings=false", "op_types_to_quantize=MatMul/Gather"]
    return Job(
        directory=source.directory,
        output=str(work.folder),
        cache=str(work.root / "cache"),
        precision=recipe.precision,
        algorithm=algorithm,
        options=tuple(options),
        keep=float(given.get("keep", KEEP)),
        budget_s=float(given.get("budget_s", BUDGET_S)),
        rows=tuple(source.rows[:64]) if algorithm == "measured" else (),
        eos_id=source.eos_ids[0] if source.eos_ids else None,
        trust_remote_code=source.trust_remote_code,
    )


def _run(job: Job, source: Source, work: Workplace, threads: int) -> Answer:
    """Run the child; its answer, where that is a good one. What the builder printed stays beside the target if not."""
    log = work.target.with_name(f"{work.target.name}.log")
    (work.root / "job.json").write_bytes(msgspec.json.encode(job))
    code = run_job(CHILD, work.root / "job.json", log, environment(work.root, threads), IMPORTS)
    path = work.root / ANSWER
    answer = msgspec.json.decode(path.read_bytes(), type=Answer) if path.is_file() else None
    if answer is None or answer.error is not None:
        raise _failure(answer, code, source, work, log)
    log.unlink(missing_ok=True)
    return answer


def _failure(answer: Answer | None, code: int, source: Source, work: Workplace, log: Path) -> FtprofError:
    """What the builder's end means for a person."""
    name, text = source.facts.architecture, log.read_text("utf-8", errors="replace")
    at = f" at {place}" if (place := where(text)) else ""
    if answer is None:
        hint = f"its output ended with: {last_line(text) or 'nothing'}"
        return FtprofError(f"building {name} for onnxruntime-genai {how_it_ended(code)}{at}", hint)
    if answer.no_space:
        return work.filled_up(at)
    if answer.unsupported:
        return FtprofError(
            f"onnxruntime-genai's builder does not know {name}", f"stay with PyTorch; it builds {_SUPPORTED}"
        )
    return FtprofError(
        f"building {name} for onnxruntime-genai failed{at}: {answer.error}",
        f"keep it on PyTorch, or try another version of onnxruntime-genai; the builder's output is in {log}",
    )


def _configure(folder: Path, source: Source, settings: dict[str, Any], threads: int) -> None:
    """Threads, sleeping pools, ends of text, a padding token that no text holds, and the directory's own settings."""
    path = folder / CONFIG
    config = json.loads(path.read_text("utf-8"))
    options = config["model"]["decoder"]["session_options"]
    options["intra_op_num_threads"] = threads
    options["session.intra_op.allow_spinning"] = "0"
    if source.eos_ids:
        config["model"]["eos_token_id"] = list(source.eos_ids)
    config["model"]["pad_token_id"] = free_token(open_tokenizer(folder), config["model"]["vocab_size"], source.eos_ids)
    config["search"].update(do_sample=False, num_beams=1, **honoured(settings))
    path.write_text(json.dumps(config, indent=2) + "\n", "utf-8")


def _notes(answer: Answer, algorithm: Algorithm) -> list[str]:
    """What was measured, and what was not."""
    if answer.sensitivity is None:
        return ["k-quant weights take about ten times as long to build."] if algorithm == "k-quant mixed" else []
    found = answer.sensitivity
    worst = [one for one in found.layers if one.layer in answer.kept]
    named = ", ".join(f"{one.layer} (KL {one.kl:.1g})" for one in worst)
    said = [
        f"Kept in 8 bit: the head and the layers {named}, the worst of {len(found.layers)} by {found.positions} positions."
    ]
    if found.left_out:
        said.append(
            f"{len(found.left_out)} layers were not rated within the time: {', '.join(map(str, found.left_out))}."
        )
    return said
