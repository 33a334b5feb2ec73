"""The same pass with one thread and with all, in turns: arithmetic and bandwidth grow by different factors.

How much more all threads compute, and how much faster they read, is measured on this machine; a pass follows the one
that limits it, and a pass that the host limits follows neither.

Method: Verdicts (docs/method.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ftprof.profiler.engine import Batch, Engine
from ftprof.profiler.in_turns import in_turns
from ftprof.profiler.record import Phase, ThreadScaling
from ftprof.profiler.units import stamped
from ftprof.profiler.windows import Run, seconds_by_phase

PAIRS = 5


def scale_threads(
    engine: Engine,
    batch: Batch,
    new_tokens: int,
    *,
    scenario: str,
    phases: Sequence[Phase],
    budget_s: float = 3.0,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[ThreadScaling, ...]:
    """Seconds per occurrence of each phase with one thread and with as many as PyTorch has now, at most `PAIRS` of each.

    `new_tokens` 0 is one forward. Empty where there is one thread only.
    """
    import torch

    threads = torch.get_num_threads()
    if threads < 2:
        return ()
    run = stamped(engine, batch, new_tokens)
    runs = in_turns(_with(1, run), _with(threads, run), pairs=PAIRS, budget_s=budget_s, clock=clock)
    one_s, all_s = (seconds_by_phase(taken, phases) for taken in runs)
    return tuple(
        ThreadScaling(scenario=scenario, phase=phase, threads=threads, one_s=one_s[phase], all_s=all_s[phase])
        for phase in one_s
        if phase in all_s
    )


def _with(count: int, run: Run) -> Run:
    def counted() -> tuple[int, ...]:
        with threads_set(count):
            return run()

    return counted


@contextmanager
def threads_set(count: int) -> Iterator[None]:
    """This many intra-op threads inside, as many as before afterwards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
