"""Small timings that decide about a fix: whole passes of the model as it is and turned over, on the workload's shapes.

Method: Predictions (docs/method.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, NamedTuple, Protocol

import msgspec

from ftprof.profiler.engine import Engine
from ftprof.profiler.probe_states import States
from ftprof.profiler.record import ProbeCase, ProbeResult
from ftprof.profiler.workload import Call

REPEATS = 8
# A sample is the mean of as many calls as fit in this time, so that short passes are not at the scheduler's mercy.
SAMPLE_S = 10e-3
MOST_CALLS = 64


class Ran(NamedTuple):
    """One run: its seconds, and those of the kinds of case that it answers."""

    whole_s: float
    by_kind: dict[str, float]


Run = Callable[[], Ran]


class Turn(NamedTuple):
    """What runs when its turn comes, and the cases that it answers."""

    variant: str
    cases: tuple[ProbeCase, ...]
    run: Run


class Switchable(Engine, Protocol):
    """An engine whose run-time settings can be changed without loading again."""

    def with_call(self, call: Call) -> Switchable: ...


class Bench:
    """Holds what the cases share: the engine, and the states of its model."""

    def __init__(self, engine: Switchable, clock: Callable[[], float] = time.perf_counter) -> None:
        self.engine = engine
        self.states = States(getattr(engine, "model", None))
        self._clock = clock
        self._vocabulary = engine.facts().vocabulary

    def turns(self, cases: Sequence[ProbeCase]) -> list[Turn]:
        """One run for all cases of the same variant and shape, in the order of the cases."""
        held: dict[tuple[str, tuple[int, ...], bool], list[ProbeCase]] = {}
        for case in cases:
            held.setdefault((case.variant, case.shape, case.kind == "forward"), []).append(case)
        return [
            Turn(variant, tuple(found), (self.forward if whole else self.generate)(shape, variant))
            for (variant, shape, whole), found in held.items()
        ]

    def _batch(self, engine: Switchable, rows: int, length: int) -> Any:
        import torch

        drawn = torch.randint(self._vocabulary, (rows, length), generator=torch.Generator().manual_seed(0)).tolist()
        if rows > 1 and length > 1:
            drawn[0].pop()  # rows of a batch are seldom all alike, and a mask, once needed, costs the same for any gap
        return engine.pad(drawn)

    def forward(self, shape: tuple[int, ...], variant: str) -> Run:
        """One pass over (rows, length) random tokens, in the state of the model that the variant names."""
        engine = self._ready(use_cache=None)
        rows, length = shape
        batch = self._batch(engine, rows, length)

        def run() -> Ran:
            self.states.enter(variant)
            begin = self._clock()
            engine.forward(batch)
            seconds = self._clock() - begin
            return Ran(seconds, {"forward": seconds})

        return run

    def generate(self, shape: tuple[int, ...], variant: str) -> Run:
        """A first token and some decode steps after (rows, prompt length) random ones, by the engine's own stamps: with the
        cache, without it, or as the model is called and in a state."""
        rows, length, steps = shape
        engine = self._ready(use_cache={"cache": True, "no-cache": False}.get(variant))
        batch = self._batch(engine, rows, length)

        def run() -> Ran:
            self.states.enter(variant)
            made = engine.generate(batch, 1 + steps)
            step_s = made.rest_s / made.steps if made.steps else 0.0
            return Ran(made.first_s + made.rest_s, {"prefill": made.first_s, "decode": step_s})

        return run

    def _ready(self, *, use_cache: bool | None) -> Switchable:
        """The engine without fixed-length padding, so that a probe's length is what runs."""
        call = msgspec.structs.replace(self.engine.call, padding="longest", pad_to=None)
        return self.engine.with_call(call if use_cache is None else msgspec.structs.replace(call, use_cache=use_cache))


def _groups(cases: Sequence[ProbeCase]) -> list[list[ProbeCase]]:
    """Cases that run in turns, few rows first: batches take longest, and are what a short budget leaves out."""
    found: dict[tuple[int, str], list[ProbeCase]] = {}
    for case in dict.fromkeys(cases):
        found.setdefault((case.shape[0], case.rule), []).append(case)
    return [found[key] for key in sorted(found, key=lambda key: key[0])]


def _take_turns(
    bench: Bench, group: Sequence[ProbeCase], repeats: int, seconds: float, clock: Callable[[], float]
) -> list[ProbeResult]:
    """Round robin over the variants until `repeats` or `seconds` are over. Within a variant its shapes follow each
    other. Warm-ups size the samples; one counts only where it is all there is."""
    deadline = clock() + seconds
    turns = bench.turns(group)
    warm = {number: turn.run() for number, turn in enumerate(turns)}
    # The first call of a short one also sets its kernel up: only the second says how short it is.
    warm = {number: turns[number].run() if ran.whole_s < SAMPLE_S else ran for number, ran in warm.items()}
    taken: dict[ProbeCase, list[float]] = {case: [] for case in group}
    variants = dict.fromkeys(turn.variant for turn in turns)
    blocks = [[number for number, turn in enumerate(turns) if turn.variant == variant] for variant in variants]
    for _ in range(repeats):
        if clock() >= deadline:
            break
        for block in blocks:
            calls = max(1, min(MOST_CALLS, round(SAMPLE_S / max(sum(warm[at].whole_s for at in block), 1e-9))))
            # The first round after a change of variant is thrown away where the others are short.
            rounds = [[turns[at].run() for at in block] for _ in range(calls + (calls > 1))][calls > 1 :]
            for at, runs in zip(block, zip(*rounds, strict=True), strict=True):
                for case in turns[at].cases:
                    taken[case].append(fmean(ran.by_kind[case.kind] for ran in runs))
    single = {case: warm[number].by_kind[case.kind] for number, turn in enumerate(turns) for case in turn.cases}
    return [ProbeResult(case=case, samples_s=tuple(taken[case] or [single[case]])) for case in group]


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
    bench = Bench(engine, clock)
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
