"""Small timings that decide about a fix: whole passes of the model as it is and turned over, on the workload's shapes.

Method: Predictions (docs/method.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, Protocol

import msgspec

from ftprof.profiler.engine import Engine
from ftprof.profiler.probe_states import States
from ftprof.profiler.record import ProbeCase, ProbeResult
from ftprof.profiler.workload import Call

REPEATS = 8
# A sample is the mean of as many calls as fit in this time, so that short passes are not at the scheduler's mercy.
SAMPLE_S = 10e-3
MOST_CALLS = 64
Run = Callable[[], None]


class Switchable(Engine, Protocol):
    """An engine whose run-time settings can be changed without loading again."""

    def with_call(self, call: Call) -> Switchable: ...


class Bench:
    """Holds what the cases share: the engine, and the states of its model."""

    def __init__(self, engine: Switchable) -> None:
        self.engine = engine
        self.states = States(getattr(engine, "model", None))
        self._vocabulary = engine.facts().vocabulary

    def _batch(self, engine: Switchable, rows: int, length: int) -> Any:
        import torch

        drawn = torch.randint(self._vocabulary, (rows, length), generator=torch.Generator().manual_seed(0)).tolist()
        if rows > 1 and length > 1:
            drawn[0].pop()  # rows of a batch are seldom all alike, and a mask, once needed, costs the same for any gap
        return engine.pad(drawn)

    def forward(self, case: ProbeCase) -> Run:
        """One pass over (rows, length) random tokens, in the state of the model that the variant names."""
        engine = self._ready(use_cache=None)
        batch = self._batch(engine, *case.shape)

        def run() -> None:
            self.states.enter(case.variant)
            engine.forward(batch)

        return run

    def generate(self, case: ProbeCase) -> Run:
        """`new_tokens` greedy tokens after (rows, prompt length) random ones: with the cache, without it, or as the model
        is called and in a state."""
        rows, length, new_tokens = case.shape
        engine = self._ready(use_cache={"cache": True, "no-cache": False}.get(case.variant))
        batch = self._batch(engine, rows, length)

        def run() -> None:
            self.states.enter(case.variant)
            engine.generate(batch, new_tokens)

        return run

    def _ready(self, *, use_cache: bool | None) -> Switchable:
        """The engine without fixed-length padding, so that a probe's length is what runs."""
        call = msgspec.structs.replace(self.engine.call, padding="longest", pad_to=None)
        return self.engine.with_call(call if use_cache is None else msgspec.structs.replace(call, use_cache=use_cache))


def _groups(cases: Sequence[ProbeCase]) -> list[list[ProbeCase]]:
    """Cases that run in turns, few rows first: batches take longest, and are what a short budget leaves out."""
    found: dict[tuple[int, str, str], list[ProbeCase]] = {}
    for case in dict.fromkeys(cases):
        found.setdefault((case.shape[0], case.rule, case.kind), []).append(case)
    return [found[key] for key in sorted(found, key=lambda key: key[0])]


def _timer(clock: Callable[[], float]) -> Callable[[Run], float]:
    """Seconds of a pass; engines wait for their device."""

    def timed(run: Run) -> float:
        begin = clock()
        run()
        return clock() - begin

    return timed


def _take_turns(
    bench: Bench, group: Sequence[ProbeCase], repeats: int, seconds: float, clock: Callable[[], float]
) -> list[ProbeResult]:
    """Round robin over the variants until `repeats` or `seconds` are over. Within a variant its shapes follow each
    other. Warm-ups size the samples; one counts only where it is all there is."""
    timed = _timer(clock)
    deadline = clock() + seconds
    runs: dict[ProbeCase, Run] = {case: getattr(bench, case.kind)(case) for case in group}
    warm = {case: timed(run) for case, run in runs.items()}
    # The first call of a short one also sets its kernel up: only the second says how short it is.
    warm = {case: timed(runs[case]) if first < SAMPLE_S else first for case, first in warm.items()}
    taken: dict[ProbeCase, list[float]] = {case: [] for case in group}
    blocks = [
        [case for case in group if case.variant == variant] for variant in dict.fromkeys(c.variant for c in group)
    ]
    for _ in range(repeats):
        if clock() >= deadline:
            break
        for block in blocks:
            calls = max(1, min(MOST_CALLS, round(SAMPLE_S / max(sum(warm[case] for case in block), 1e-9))))
            # The first round after a change of variant is thrown away where the others are short.
            rounds = [[timed(runs[case]) for case in block] for _ in range(calls + (calls > 1))][calls > 1 :]
            for case, times in zip(block, zip(*rounds, strict=True), strict=True):
                taken[case].append(fmean(times))
    return [ProbeResult(case=case, samples_s=tuple(taken[case] or [warm[case]])) for case in group]


def run_probes(
    cases: Sequence[ProbeCase],
    engine: Switchable,
    *,
    repeats: int = REPEATS,
    budget_s: float = 6.0,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[ProbeResult, ...]:
    """Time cases in turns, those that are compared with each other in one round robin; seconds per call.

    The budget is shared out over the groups; one that does not fit gets fewer samples, and cases whose turn comes after
    it is spent are left out. A state that the model cannot be had in leaves an error. The model is put back as it was.
    """
    import torch

    end = clock() + budget_s
    bench = Bench(engine)
    refused = {state: bench.states.refused(state) for state in {case.variant for case in cases}}
    results = [
        ProbeResult(case=case, samples_s=(), error=why) for case in cases if (why := refused[case.variant]) is not None
    ]
    groups = _groups([case for case in cases if refused[case.variant] is None])
    try:
        with torch.inference_mode():
            for number, group in enumerate(groups):
                left = end - clock()
                if left <= 0:
                    break
                results += _take_turns(bench, group, repeats, left / (len(groups) - number), clock)
    finally:
        bench.states.restore()
    return tuple(results)
