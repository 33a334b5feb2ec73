"""One timed sample: the rows of one unit, from text to text, split into phases by wall clock.

Method: Time (docs/method.md).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from ftprof.profiler.batching import plan
from ftprof.profiler.engine import Batch, Engine, Generated
from ftprof.profiler.windows import Run, no_collection
from ftprof.profiler.workload import Row, Task, generates

WARM_TOKENS = 3


def prepare(engine: Engine, rows: Sequence[Row]) -> list[Batch]:
    """The rows' prompts, tokenised and padded in the batches that the call makes."""
    ids = engine.tokenise([row.prompt for row in rows])
    return [engine.pad([ids[row] for row in batch]) for batch in plan([len(row) for row in ids], engine.call)]


def compute(engine: Engine, task: Task, batches: Sequence[Batch], new_tokens: int) -> list[Generated]:
    """Everything of a unit that comes after its tokens: one forward a batch, or generation and the texts of it."""
    if not generates(task):
        for batch in batches:
            engine.forward(batch)
        return []
    made = [engine.generate(batch, new_tokens) for batch in batches]
    for result in made:
        for tokens in result.tokens:
            engine.detokenise(tokens)
    return made


def run_unit(engine: Engine, task: Task, rows: Sequence[Row], new_tokens: int) -> dict[str, float]:
    """Seconds by phase of one unit, with Python's garbage collector held off: `tokenise` with padding, then `forward`, or
    `prefill` and `decode` (per step of a batch; the others are for the whole unit), and `e2e`."""
    with no_collection():
        start = time.perf_counter()
        batches = prepare(engine, rows)
        tokenised = time.perf_counter()
        made = compute(engine, task, batches, new_tokens)
        end = time.perf_counter()
    if not generates(task):
        return {"tokenise": tokenised - start, "forward": end - tokenised, "e2e": end - start}
    prefill_s = sum(result.first_s for result in made)
    times = {"tokenise": tokenised - start, "prefill": prefill_s, "e2e": end - start}
    steps = sum(result.steps for result in made)
    if steps:
        times["decode"] = sum(result.rest_s for result in made) / steps
    return times


def stamped(engine: Engine, batch: Batch, new_tokens: int) -> Run:
    """Runs one batch and returns its time stamps in nanoseconds: the start, and the ends of its steps (one forward where
    `new_tokens` is 0)."""

    def generate() -> tuple[int, ...]:
        return tuple(engine.generate(batch, new_tokens).stamps_ns)

    def forward() -> tuple[int, ...]:
        begin = time.perf_counter_ns()
        engine.forward(batch)
        return begin, time.perf_counter_ns()

    return generate if new_tokens else forward
