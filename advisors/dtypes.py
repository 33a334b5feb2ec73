"""What another element type for the weights brings: both timed on the model's own linear shapes. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate
from math import prod

import msgspec

from ftprof.advisors.predict import KERNEL_ERROR, Pair, by_steps, cases_of, swap, traced_share
from ftprof.advisors.rule import Prediction
from ftprof.advisors.shapes import Step, steps
from ftprof.profiler.record import ModelFacts, ProbeCase, RunRecord

COVERED = 0.99  # of the weights' bytes; the small shapes count too, since a fixed cost per bf16 product shows there
CASTS = 2  # an fp32 adapter on a 16-bit base casts its input up and its result down


def largest(model: ModelFacts) -> tuple[tuple[int, int, int], ...]:
    """The linear shapes that hold 99 % of the weights' bytes, largest first: (in, out, how many)."""
    ordered = sorted(model.linears, key=prod, reverse=True)
    running = list(accumulate(prod(shape) for shape in ordered))
    needed = sum(total < COVERED * running[-1] for total in running) + 1
    return tuple(ordered[:needed])


def _pairs(step: Step, model: ModelFacts, rule: str, old: str, new: str) -> Iterator[Pair]:
    for k, n, count in largest(model):
        # generate() asks the head for each row's last position only.
        tokens = step.rows if n == model.vocabulary and step.phase == "prefill" else step.rows * step.query
        before = ProbeCase(rule=rule, kind="linear", shape=(tokens, k, n), variant=old)
        yield float(count * step.passes), before, msgspec.structs.replace(before, variant=new)


def dtype_probes(record: RunRecord, rule: str, old: str, new: str) -> tuple[ProbeCase, ...]:
    """The linear shapes of every step in both types."""
    assert record.model
    return cases_of(pair for step in steps(record) for pair in _pairs(step, record.model, rule, old, new))


def dtype_prediction(record: RunRecord, rule: str, old: str, new: str) -> Prediction:
    """What the probes make of every step; an attached adapter stays in fp32 and casts on a 16-bit base."""
    model = record.model
    assert model

    def saving(step: Step, total_s: float) -> tuple[float, float] | None:
        probed = swap(record, _pairs(step, model, rule, old, new))
        if probed is None:
            return None
        share = traced_share(record, step.scenario, step.phase, "matmul")
        touched = total_s * share if share else min(total_s, probed.old_s)
        ratio = probed.new_s / probed.old_s
        casts = CASTS * step.passes * (record.adapter.modules if record.adapter else 0) * (new != "float32")
        added = casts * (record.machine.dispatch_s if record.machine else 0.0)
        return touched * (1.0 - ratio) - added, touched * math.hypot(KERNEL_ERROR * ratio, probed.sd_s / probed.old_s)

    basis = f"{old} against {new} on {len(largest(model))} of the model's linear shapes"
    return Prediction(ratios=by_steps(record, saving), basis=basis)
