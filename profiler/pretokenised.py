"""What tokenising costs a request: the whole request in turns with one whose tokens are ready.

The phase is timed by itself as well; if all of it goes once it is skipped, nothing else had hidden it.

Method: Verdicts (docs/method.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ftprof.profiler.engine import Engine
from ftprof.profiler.in_turns import in_turns
from ftprof.profiler.record import Pretokenised
from ftprof.profiler.units import compute, prepare
from ftprof.profiler.workload import Row, Task

PAIRS = 24
"""What is looked for may be a small part of a request."""


def skip_tokeniser(
    engine: Engine,
    task: Task,
    rows: Sequence[Row],
    new_tokens: int,
    *,
    scenario: str,
    budget_s: float = 2.0,
    clock: Callable[[], float] = time.perf_counter,
) -> Pretokenised:
    """Seconds of the rows' requests with and without tokenising and padding, and of that part as timed inside."""
    ready = prepare(engine, rows)
    inside: list[float] = []

    def whole() -> float:
        begin = clock()
        batches = prepare(engine, rows)
        inside.append(clock() - begin)
        compute(engine, task, batches, new_tokens)
        return clock() - begin

    def without() -> float:
        begin = clock()
        compute(engine, task, ready, new_tokens)
        return clock() - begin

    whole_s, without_s = in_turns(whole, without, pairs=PAIRS, budget_s=budget_s, clock=clock)
    return Pretokenised(
        scenario=scenario,
        tokenise_s=tuple(inside[-len(whole_s) :]),
        whole_s=tuple(whole_s),
        without_s=tuple(without_s),
    )
