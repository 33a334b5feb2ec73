"""How rows become batches under a call: order, size and padded length. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ftprof.profiler.record import PaddingFacts
from ftprof.profiler.workload import Call

BUCKETED = Call(padding="longest", order="length")


def plan(lengths: Sequence[int], call: Call) -> list[list[int]]:
    """Row numbers by batch, for rows of these token counts."""
    order = list(range(len(lengths)))
    if call.order == "length":
        order.sort(key=lambda row: lengths[row])
    return [order[start : start + call.batch_size] for start in range(0, len(order), call.batch_size)]


def padded_length(lengths: Sequence[int], call: Call) -> int:
    """The length that a batch of rows of these token counts is padded to."""
    longest = max(lengths)
    if call.padding == "max_length" and call.pad_to:
        return max(call.pad_to, longest)
    return longest


def shapes(lengths: Sequence[int], call: Call) -> tuple[tuple[int, int], ...]:
    """(rows, padded length) of each batch."""
    return tuple((len(batch), padded_length([lengths[row] for row in batch], call)) for batch in plan(lengths, call))


def padding_facts(scenario: str, lengths: Sequence[int], call: Call) -> PaddingFacts:
    """What the call's padding costs in tokens, beside length order with dynamic padding at the same batch size."""
    called = shapes(lengths, call)
    bucketed = shapes(lengths, Call(padding=BUCKETED.padding, order=BUCKETED.order, batch_size=call.batch_size))
    return PaddingFacts(
        scenario=scenario,
        real_tokens=sum(lengths),
        padded_tokens=sum(rows * length for rows, length in called),
        bucketed_tokens=sum(rows * length for rows, length in bucketed),
        batches=called,
        bucketed_batches=bucketed,
    )
