"""Time shallow copies of a model on several runtimes, in turns with the model itself: two depths tell what a layer costs and
what the rest does.

Method: Predictions (docs/method.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec

from ftprof.profiler.built import Recipe, Source, build, open_built
from ftprof.profiler.engine import Batch, Engine
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.load import load_engine
from ftprof.profiler.model_facts import output_head_weight
from ftprof.profiler.ort_session import thread_count
from ftprof.profiler.record import ProbeCase, ProbeResult
from ftprof.profiler.shallow import shallow_copy
from ftprof.profiler.workload import Call, Task, Workload

STEPS = 4
"""Decode steps of one run; they are alike."""
ROUNDS = 12
CALIBRATION_ROWS = 8
SELDOM = 3
"""Batches take most of the time and vary least: every third round."""


class Rung(NamedTuple):
    """One engine and one batch, and the cases that a run of it answers: a whole pass, and a decode step after it."""

    task: Task
    engine: Engine
    batch: Batch
    cases: tuple[ProbeCase | None, ProbeCase | None]


def run_depth_probes(
    cases: Sequence[ProbeCase],
    source: Source,
    scratch: Path,
    *,
    budget_s: float,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[ProbeResult, ...]:
    """Seconds of one pass by case, one sample a round, so that samples of the same place belong together.

    `budget_s` is for timing; building takes what it takes. A runtime that cannot take the model leaves an error.
    """
    engines: dict[tuple[int, str], Engine] = {}
    errors: dict[str, str] = {}
    for layers, variant in dict.fromkeys((case.shape[0], case.variant) for case in cases):
        if variant in errors:
            continue
        try:
            engines[layers, variant] = _engine(source, scratch, layers, variant)
        except FtprofError as error:
            errors[variant] = error.message
    failed = tuple(
        ProbeResult(case=case, samples_s=(), error=errors[case.variant]) for case in cases if case.variant in errors
    )
    rungs = _rungs([case for case in cases if case.variant not in errors], engines, source.task)
    return (*_timed(rungs, clock() + budget_s, clock), *failed)


def _engine(source: Source, scratch: Path, layers: int, variant: str) -> Engine:
    runtime, _, precision = variant.partition(":")
    plain = scratch / "depth" / f"{Path(source.directory).name}-{layers}"
    if layers == source.facts.layers and runtime == "torch":
        plain = Path(source.directory)
    elif not plain.exists():
        shallow_copy(Path(source.directory), plain, layers)
    if runtime == "torch":
        dtype, *settings = precision.split("+")
        call = Call(
            dtype=dtype,  # type: ignore[arg-type]
            attention="eager" if "eager" in settings else "auto",
            use_cache=False if "no-cache" in settings else None,
        )
        workload = Workload(model=str(plain), task=source.task, rows="", rows_digest="")
        engine = load_engine(workload, call)[0]
        if "frozen" in settings and (head := output_head_weight(engine.model)) is not None:
            head.requires_grad_(False)
        return engine
    target = plain.with_name(f"{plain.name}-{runtime}-{precision}")
    if not target.exists():
        facts = msgspec.structs.replace(source.facts, layers=layers)
        precision, _, quantisation = precision.partition("-")
        options = {"quantisation": quantisation} if quantisation else {}
        recipe = Recipe(runtime=runtime, precision=precision, options=options)  # type: ignore[arg-type]
        # Ranges of activations need to be of the right size only: what is timed does not depend on them.
        rows = source.rows[:CALIBRATION_ROWS]
        shallow = msgspec.structs.replace(source, directory=str(plain), facts=facts, rows=rows)
        build(recipe, shallow, target, thread_count(None))
    return open_built(target, Call())


def _rungs(cases: Sequence[ProbeCase], engines: dict[tuple[int, str], Engine], task: Task) -> list[Rung]:
    places: dict[tuple[int, str, int, int], dict[int, ProbeCase]] = {}
    for case in cases:
        layers, rows, length, decode = case.shape
        places.setdefault((layers, case.variant, rows, length), {})[decode] = case
    rungs = []
    for (layers, variant, rows, length), found in places.items():
        engine = engines[layers, variant]
        rungs.append(Rung(task, engine, _batch(engine, rows, length), (found.get(0), found.get(1))))
    return sorted(rungs, key=lambda rung: id(rung.engine))


def _batch(engine: Engine, rows: int, length: int) -> Batch:
    """Rows of this length, padded a little where there are several, as batches of real prompts are."""
    vocabulary = max(1, engine.facts().vocabulary)
    ids = [[(7 + 31 * row + 17 * place) % vocabulary for place in range(length)] for row in range(rows)]
    if rows > 1 and length > 1:
        ids[0].pop()
    return engine.pad(ids)


def _timed(rungs: Sequence[Rung], deadline: float, clock: Callable[[], float]) -> tuple[ProbeResult, ...]:
    taken: dict[ProbeCase, list[float]] = {}
    engines = [list(group) for _, group in groupby(rungs, lambda rung: id(rung.engine))]
    for rung in rungs:
        _times(rung, clock)
    for number in range(ROUNDS):
        if number and clock() >= deadline:
            break
        for group in engines:
            # The first run pays for the caches that the other engines left; a small one does.
            quick = min(group, key=lambda rung: sum(rung.batch.tokens))
            _times(quick, clock)
            for rung in group:
                if number % SELDOM and sum(rung.batch.tokens) > sum(quick.batch.tokens):
                    continue
                for case, seconds in _times(rung, clock).items():
                    taken.setdefault(case, []).append(seconds)
    return tuple(ProbeResult(case=case, samples_s=tuple(samples)) for case, samples in taken.items())


def _times(rung: Rung, clock: Callable[[], float]) -> dict[ProbeCase, float]:
    """Seconds by case of one run."""
    if rung.task != "causal-lm":
        begin = clock()
        rung.engine.forward(rung.batch)
        seconds = [clock() - begin]
    else:
        made = rung.engine.generate(rung.batch, STEPS + 1)
        seconds = [made.first_s, made.rest_s / made.steps]
    return {case: second for case, second in zip(rung.cases, seconds, strict=False) if case is not None}
