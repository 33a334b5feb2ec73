"""Small timings that decide about a fix: the replacement kernel, or whole passes, on the workload's own shapes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import cycle
from statistics import fmean
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ftprof.profiler.engine import Engine
from ftprof.profiler.probe_states import States
from ftprof.profiler.record import ProbeCase, ProbeResult
from ftprof.profiler.workload import Call

if TYPE_CHECKING:
    import torch

REPEATS = 8
# One decode step streams all weights, so that none is in cache when its turn comes; a single small matrix timed over
# and over would be. Each dtype gets a bank this large, and calls walk through it.
BANK_BYTES = 128 << 20
# A sample is the mean of as many calls as fit in this time, so that small products are not at the scheduler's mercy.
SAMPLE_S = 10e-3
MOST_CALLS = 64
# A matrix of more elements than this sweeps the caches; what follows it would pay for that at every turn.
SWEEPING = 4 << 20
VALUE_SCALE = 0.02  # of weights as models have them; far from denormals, which are slow on CPUs
WHOLE = ("forward", "generate")
WHOLE_WEIGHT = 3.0  # a pass takes as long as all kernels of a step together, and decides more
Run = Callable[[], None]


class Switchable(Engine, Protocol):
    """An engine whose run-time settings can be changed without loading again."""

    def with_call(self, call: Call) -> Switchable: ...


class Bench:
    """Holds what the cases share: the engine, its device and dtype, and a bank of weights by dtype."""

    def __init__(self, engine: Switchable | None) -> None:
        import torch

        self.engine = engine
        self.device = torch.device("cpu")
        self.dtype = torch.float32
        self._vocabulary = 0
        self._banks: dict[str, torch.Tensor] = {}
        self._states = States(getattr(engine, "model", None))
        if engine is not None:
            facts = engine.facts()
            self._vocabulary = facts.vocabulary
            self.dtype = getattr(torch, facts.dtype, torch.float32)
            self.device = getattr(engine, "device", self.device)

    def restore(self) -> None:
        """The model as it was before whole passes turned it over."""
        self._states.restore()

    def wait(self) -> None:
        """Until the device has done what was launched."""
        if self.device.type == "cuda":
            import torch

            torch.cuda.synchronize(self.device)

    def _bank(self, variant: str, elements: int) -> torch.Tensor:
        import torch

        dtype = getattr(torch, variant)
        wanted = max(elements, BANK_BYTES // dtype.itemsize)
        if variant not in self._banks or self._banks[variant].numel() < wanted:
            seed = torch.randn(min(wanted, 1 << 20), device=self.device) * VALUE_SCALE
            self._banks[variant] = seed.to(dtype).repeat(-(-wanted // seed.numel()))
        return self._banks[variant]

    def linear(self, case: ProbeCase) -> Run:
        """(m, k) times (k, n), each call with the next weights of the bank."""
        import torch

        m, k, n = case.shape
        bank = self._bank(case.variant, k * n)
        x = torch.randn(m, k, device=self.device).to(bank.dtype)
        copies = min(bank.numel() // (k * n), MOST_CALLS * (REPEATS + 1))
        weights = cycle([bank[place * k * n : (place + 1) * k * n].view(n, k) for place in range(copies)])

        def run() -> None:
            torch.nn.functional.linear(x, next(weights))

        return run

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
            self._states.enter(case.variant)
            engine.forward(batch)

        return run

    def generate(self, case: ProbeCase) -> Run:
        """`new_tokens` greedy tokens after (rows, prompt length) random ones, without the cache or in a state."""
        rows, length, new_tokens = case.shape
        engine = self._ready(use_cache=case.variant != "no-cache")
        batch = self._batch(engine, rows, length)

        def run() -> None:
            self._states.enter(case.variant)
            engine.generate(batch, new_tokens)

        return run

    def _ready(self, *, use_cache: bool | None) -> Switchable:
        """The engine without fixed-length padding, so that a probe's length is what runs."""
        if self.engine is None:
            raise ValueError("whole passes can be probed on a loaded model only")
        call = msgspec.structs.replace(self.engine.call, padding="longest", pad_to=None)
        return self.engine.with_call(call if use_cache is None else msgspec.structs.replace(call, use_cache=use_cache))


def _groups(cases: Sequence[ProbeCase]) -> list[list[ProbeCase]]:
    """Cases that run in turns, kernels before whole passes, which take what time is left.

    The linear shapes of one token count go together, as they do in the model: called over and over alone, a bf16
    product is up to a third faster than between others, because its kernel and its tile set-up stay warm. The head of
    a small model goes apart, since it comes once a token and not after every layer.
    """
    found: dict[tuple[object, ...], list[ProbeCase]] = {}
    for case in sorted(dict.fromkeys(cases), key=lambda case: case.kind in WHOLE):
        alone = (case.shape[0], case.shape[1] * case.shape[2] > SWEEPING) if case.kind == "linear" else ()
        found.setdefault((case.rule, case.kind, alone), []).append(case)
    return list(found.values())


def _timer(bench: Bench, clock: Callable[[], float]) -> Callable[[Run], float]:
    def timed(run: Run) -> float:
        begin = clock()
        run()
        bench.wait()
        return clock() - begin

    return timed


def _take_turns(
    bench: Bench, group: Sequence[ProbeCase], repeats: int, seconds: float, clock: Callable[[], float]
) -> list[ProbeResult]:
    """Round robin over the variants until `repeats` or `seconds` are over. Within a variant its shapes follow each
    other. Warm-ups size the samples; one counts only where it is all there is."""
    timed = _timer(bench, clock)
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
    engine: Switchable | None,
    *,
    repeats: int = REPEATS,
    budget_s: float = 6.0,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[ProbeResult, ...]:
    """Time cases in turns, those that are compared with each other in one round robin; seconds per call.

    The budget is shared out over the groups; one that does not fit gets fewer samples, and cases whose turn comes after
    it is spent are left out. Whole passes need an engine (ValueError without).
    """
    import torch

    end = clock() + budget_s
    results: list[ProbeResult] = []
    groups = _groups(cases)
    bench = Bench(engine)
    try:
        with torch.inference_mode():
            for number, group in enumerate(groups):
                left = end - clock()
                if left <= 0:
                    break
                weights = [WHOLE_WEIGHT if one[0].kind in WHOLE else 1.0 for one in groups[number:]]
                results += _take_turns(bench, group, repeats, left * weights[0] / sum(weights), clock)
    finally:
        bench.restore()
    return tuple(results)
