"""The cheapest experiment on what limits a phase: the same pass with every row twice, in turns with it.

Arithmetic takes twice as long for twice the tokens; streaming the weights, or the host's calls, hardly longer.

Method: Verdicts (docs/method.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ftprof.profiler.engine import Engine
from ftprof.profiler.in_turns import in_turns
from ftprof.profiler.record import Doubling, Phase
from ftprof.profiler.units import stamped
from ftprof.profiler.windows import seconds_by_phase

PAIRS = 5
TIMES = 2


def double_rows(
    engine: Engine,
    ids: Sequence[Sequence[int]],
    new_tokens: int,
    *,
    scenario: str,
    phases: Sequence[Phase],
    budget_s: float = 4.0,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Doubling, ...]:
    """Seconds per occurrence of each phase for these rows and for all of them twice, at most `PAIRS` of each.

    `new_tokens` 0 is one forward.
    """
    once, twice = (stamped(engine, engine.pad(list(ids) * times), new_tokens) for times in (1, TIMES))
    runs = in_turns(once, twice, pairs=PAIRS, budget_s=budget_s, clock=clock)
    once_s, twice_s = (seconds_by_phase(taken, phases) for taken in runs)
    return tuple(
        Doubling(scenario=scenario, phase=phase, once_s=once_s[phase], twice_s=twice_s[phase])
        for phase in once_s
        if phase in twice_s
    )
