"""Which rows, how many tokens and how many samples: the plan of a run, from lengths and the first timings. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from ftprof.profiler.workload import Call, Scenario

SINGLE_UNITS = 4
ENCODER_BATCHES = 8
DEFAULT_NEW_TOKENS = 32
# A decode phase of fewer tokens is mostly noise; more than this only costs budget, since steps are alike.
FEWEST_TOKENS, MOST_TOKENS = 8, 48
# One end-to-end sample may take this share of the budget: 250 of them fit, what baseline, trials and final need.
SAMPLE_SHARE = 1 / 250
# Shorter samples are mostly the clock and the scheduler.
LEAST_SAMPLE_S = 0.05
# A batch's decode steps are alike too, and its prefill is long: its samples make at most half as many tokens.
BATCH_TOKENS = 0.5


def by_quantile(lengths: Sequence[int], count: int) -> tuple[int, ...]:
    """Row numbers at evenly spaced quantiles of length, shortest first; fewer where there are fewer rows."""
    ordered = sorted(range(len(lengths)), key=lambda row: lengths[row])
    count = min(count, len(ordered))
    return tuple(ordered[int((place + 0.5) * len(ordered) / count)] for place in range(count))


def scenarios(lengths: Sequence[int], call: Call, *, encoder: bool) -> tuple[Scenario, ...]:
    """`single`: one row a sample, rows at quantiles of length. `batch`: rows as they arrive, one batch for decoders,
    eight for encoders; absent where the call's batch size is 1 or there is one row only."""
    found = [Scenario(name="single", units=tuple((row,) for row in by_quantile(lengths, SINGLE_UNITS)))]
    wanted = call.batch_size * (ENCODER_BATCHES if encoder else 1)
    if call.batch_size > 1 and len(lengths) > 1:
        step = max(1, len(lengths) // wanted)
        found.append(Scenario(name="batch", units=(tuple(range(0, len(lengths), step))[:wanted],)))
    return tuple(found)


def wanted_tokens(call: Call, completion_lengths: Sequence[int]) -> int:
    """New tokens of one sample: the call's, else the median completion's (with end-of-sequence), within bounds."""
    if call.new_tokens:
        return call.new_tokens
    if not completion_lengths:
        return DEFAULT_NEW_TOKENS
    return int(min(MOST_TOKENS, max(FEWEST_TOKENS, statistics.median(completion_lengths) + 1)))


def repeats_for(sample_s: float) -> int:
    """How often a sample must run its unit to last LEAST_SAMPLE_S."""
    return max(1, math.ceil(LEAST_SAMPLE_S / sample_s)) if sample_s > 0 else 1


def affordable_rows(rows: int, batch_size: int, sample_s: float, budget_s: float) -> int:
    """Rows of an encoder's batch scenario that fit into its share of the budget: at most `rows`, two batches at least."""
    fits = int(rows * budget_s * SAMPLE_SHARE / sample_s) if sample_s > 0 else rows
    return min(rows, max(2 * batch_size, fits - fits % batch_size))


def affordable_tokens(wanted: int, prefill_s: float, step_s: float, budget_s: float) -> int:
    """At most `wanted`; fewer, but at least 4, where a sample would take more of the budget than SAMPLE_SHARE."""
    room = budget_s * SAMPLE_SHARE - prefill_s
    fits = int(room / step_s) + 1 if step_s > 0 else wanted
    return min(wanted, max(4, fits))
