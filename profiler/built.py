"""Models converted for another runtime: the recipe, and the directory that a conversion leaves.

A built directory is complete: graph, weights, tokenizer, and a manifest that says what it is and where it came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from ftprof.profiler.engine import Engine
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.record import ModelFacts
from ftprof.profiler.workload import Call, Row, Scalar, Task

MANIFEST = "ftprof-build.json"
Runtime = Literal["genai", "ort"]
Precision = Literal["fp32", "int8", "int4"]


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How a plain Hugging Face directory becomes a graph: for which runtime, in which precision, with which options."""

    runtime: Runtime
    precision: Precision
    options: dict[str, Scalar] = {}


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest. `source` are the facts of the model that was converted; `notes` are sentences for people."""

    recipe: Recipe
    task: Task
    source: ModelFacts
    seconds: float
    size_bytes: int
    eos_ids: tuple[int, ...] = ()
    versions: dict[str, str] = {}
    notes: tuple[str, ...] = ()


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """What is converted: a plain directory in fp32 (adapter merged), its facts, and rows to calibrate with."""

    directory: str
    facts: ModelFacts
    task: Task
    eos_ids: tuple[int, ...]
    rows: Sequence[Row] = ()
    trust_remote_code: bool = False


def build(recipe: Recipe, source: Source, target: Path, threads: int) -> Built:
    """Convert into the new directory `target` and write its manifest. FtprofError that names the op or layer at fault."""
    if recipe.runtime == "genai":
        from ftprof.profiler.genai_build import build_genai

        return build_genai(recipe, source, target, threads)
    from ftprof.profiler.ort_build import build_ort

    return build_ort(recipe, source, target, threads)


def open_built(directory: Path, call: Call, device: str = "cpu") -> Engine:
    """The engine of a built directory. FtprofError where its runtime does not take it."""
    built = read_manifest(directory)
    if built.recipe.runtime == "genai":
        from ftprof.profiler.genai_engine import GenaiEngine

        return GenaiEngine(directory, built, call)
    from ftprof.profiler.ort_engine import OrtEngine

    return OrtEngine(directory, built, call, device)


def write_manifest(built: Built, directory: Path) -> None:
    """Write the manifest; last, so that a directory with one is whole."""
    (directory / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(built)))


def read_manifest(directory: Path) -> Built:
    """The manifest of a built directory. FtprofError where there is none that can be read."""
    try:
        return msgspec.json.decode((directory / MANIFEST).read_bytes(), type=Built)
    except (OSError, msgspec.DecodeError) as error:
        raise FtprofError(
            f"{directory} holds no model that ftprof built: {error}", "build it again", Exit.UNUSABLE
        ) from error
