"""Operators of a GenAI model by phase, from ONNX Runtime's profile of a second model object."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from ftprof.profiler.errors import FtprofError
from ftprof.profiler.genai_model import Opened, open_model
from ftprof.profiler.ort_opcost import Packed
from ftprof.profiler.ort_profile import ModelRun, op_trace, packed_nodes, read_runs
from ftprof.profiler.record import OpTrace, Phase
from ftprof.profiler.windows import no_collection, of_phase, quieter_half

Stamped = Callable[[Any], tuple[int, ...]]
"""Runs one unit on a model and returns its stamps, as `windows.Run` does."""


def trace_model(
    directory: Path,
    opened: Opened,
    run: Stamped,
    *,
    scenario: str,
    phases: Sequence[Phase],
    untraced: Mapping[str, float],
    repeats: int,
    length: int,
) -> tuple[OpTrace, ...]:
    """Profile `repeats` units, each beside an unprofiled one; of both only the quieter half counts.

    The profile is written when the profiled model goes, so that one is short-lived; it holds the weights a second time
    while it is there. The first run of a unit is prefill, each other one a decode step. `length` is the mean length of
    the prompts in tokens.
    """
    with tempfile.TemporaryDirectory() as folder:
        profiled = open_model(directory, opened.threads, Path(folder) / "profile")
        with no_collection():
            run(profiled)  # pays for what a new session allocates
            pairs = [(run(opened.model), run(profiled)) for _ in range(repeats)]
        del profiled
        gc.collect()
        units = _units(Path(folder), repeats + 1)[1:]
    packed = packed_nodes(directory / "model.onnx")
    seen = [phase for phase in phases if of_phase([traced for _, traced in pairs], phases, phase)]
    return tuple(_phase(scenario, phase, phases, pairs, units, untraced, length, packed) for phase in seen)


def _phase(
    scenario: str,
    phase: Phase,
    phases: Sequence[Phase],
    pairs: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
    units: Sequence[Sequence[ModelRun]],
    untraced: Mapping[str, float],
    length: int,
    packed: Mapping[str, Packed],
) -> OpTrace:
    """One phase of the quieter units; `pairs` are the stamps of each unprofiled and profiled run."""
    plain = of_phase([stamps for stamps, _ in pairs], phases, phase)
    traced = of_phase([stamps for _, stamps in pairs], phases, phase)
    quiet = quieter_half(traced)
    parts = [units[place][1:] if phase == "decode" else units[place][:1] for place in quiet]
    beside_s = fmean(plain[place].seconds for place in quieter_half(plain))
    first = length + (phase == "decode")
    return op_trace(
        [run for part in parts for run in part],
        scenario=scenario,
        phase=phase,
        untraced_s=untraced.get(phase, beside_s),
        occurrences=sum(traced[place].occurrences for place in quiet),
        beside_s=beside_s,
        wall_s=sum(traced[place].seconds * traced[place].occurrences for place in quiet),
        packed=packed,
        contexts=[first + step for part in parts for step in range(len(part))],
    )


def _units(folder: Path, count: int) -> list[list[ModelRun]]:
    """The profile's runs by unit. FtprofError where the runtime left no profile, or one that does not divide."""
    files = sorted(folder.glob("profile*.json"))
    runs = read_runs(files[0]) if files else []
    if not runs or len(runs) % count:
        raise FtprofError(
            f"ONNX Runtime GenAI left a profile of {len(runs)} runs for {count} units", "profile the model again"
        )
    each = len(runs) // count
    return [runs[start : start + each] for start in range(0, len(runs), each)]
