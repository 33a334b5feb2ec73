"""The tensor shapes that a workload really sends through the model, by scenario and phase. Pure."""

from __future__ import annotations

from statistics import median

import msgspec

from ftprof.profiler.batching import shapes
from ftprof.profiler.record import RunRecord
from ftprof.profiler.workload import Call, Scenario, Workload, generates

Batches = tuple[tuple[int, int], ...]
"""(rows, padded length) of each batch."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One typical pass through the model: `rows` sequences, each with `query` new tokens that see `keys` tokens.

    `passes` is how many of them one occurrence of the phase holds (batches in a unit; 1 for a decode step). `prompt` is
    the padded length of the prompts that came before, or are this pass.
    """

    scenario: str
    phase: str
    rows: int
    query: int
    keys: int
    prompt: int
    passes: int = 1


def batches_of(workload: Workload, scenario: Scenario) -> tuple[Batches, ...]:
    """(rows, padded length) of each batch, by unit; empty where the prompts were not counted."""
    if not workload.prompt_tokens:
        return ()
    units = ([workload.prompt_tokens[row] for row in unit] for unit in scenario.units)
    return tuple(shapes(lengths, workload.call) for lengths in units if lengths)


def both_plans(record: RunRecord, call: Call) -> dict[str, tuple[Batches, Batches]]:
    """Batches of each scenario as called and as they would be under another call; as measured where they were."""
    workload = record.workload
    found: dict[str, tuple[Batches, Batches]] = {}
    if workload is not None:
        other = msgspec.structs.replace(workload, call=call)
        for scenario in workload.scenarios:
            now, then = (sum(batches_of(way, scenario), ()) for way in (workload, other))
            found[scenario.name] = (now, then)
    if record.padding is not None:
        found[record.padding.scenario] = (record.padding.batches, record.padding.bucketed_batches)
    return found


def tokens(batches: Batches) -> int:
    """Tokens computed for these batches, padding included."""
    return sum(rows * length for rows, length in batches)


def typical(workload: Workload, scenario: Scenario) -> tuple[int, int, int] | None:
    """Median rows, padded length and batches a unit; None where the prompts were not counted."""
    units = batches_of(workload, scenario)
    if not units:
        return None
    rows, lengths = zip(*(batch for unit in units for batch in unit), strict=True)
    return round(median(rows)), round(median(lengths)), round(median(len(unit) for unit in units))


def steps(record: RunRecord) -> tuple[Step, ...]:
    """The typical passes of every scenario: prefill and decode of a model that writes, forward of the others."""
    workload = record.workload
    found: list[Step] = []
    for scenario in workload.scenarios if workload else ():
        assert workload is not None
        shape = typical(workload, scenario)
        if shape is None:
            continue
        rows, length, passes = shape
        first = "prefill" if generates(workload.task) else "forward"
        name = scenario.name
        found.append(
            Step(scenario=name, phase=first, rows=rows, query=length, keys=length, prompt=length, passes=passes)
        )
        tokens = workload.tokens(name)
        if generates(workload.task) and tokens > 1:
            # The cache grows from the prompt's length by the new tokens; its middle stands for the mean step.
            keys = length + tokens // 2
            found.append(Step(scenario=name, phase="decode", rows=rows, query=1, keys=keys, prompt=length))
    return tuple(found)


def occurrences(record: RunRecord, scenario: str) -> dict[str, int]:
    """How often each phase occurs in one end-to-end unit of the scenario."""
    workload = record.workload
    counts = {"tokenise": 1, "prefill": 1, "forward": 1, "decode": 0}
    if workload is None:
        return counts
    passes = max((step.passes for step in steps(record) if step.scenario == scenario), default=1)
    counts["decode"] = passes * max(workload.tokens(scenario) - 1, 0)
    return counts


def main_phase(record: RunRecord) -> tuple[str, str]:
    """The (scenario, phase) that people feel: one request end to end, or for encoders the forward of a batch."""
    timed = {timing.scenario for timing in record.timing or ()}
    if record.workload is None or generates(record.workload.task):
        return "batch" if timed == {"batch"} else "single", "e2e"
    return "batch" if "batch" in timed else "single", "forward"
