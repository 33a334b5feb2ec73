"""Bare stacks of operations whose limit is known from what they do, behind the interface of an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ftprof.profiler.engine import Batch
from ftprof.profiler.record import Machine, OpTrace
from ftprof.profiler.trace import trace_ops
from ftprof.profiler.units import stamped

Pass = Callable[[int], object]
"""Runs the stack on that many rows."""


@dataclass(frozen=True, slots=True)
class Stack:
    """One forward phase made of `run`; `narrow` is the same stack on a few numbers, None where it has no width."""

    run: Pass
    narrow: Pass | None = None

    def pad(self, ids: Sequence[Sequence[int]]) -> Batch:
        return Batch(inputs={}, tokens=tuple(len(row) for row in ids), length=max(len(row) for row in ids))

    @torch.inference_mode()
    def forward(self, batch: Batch) -> None:
        self.run(len(batch.tokens))

    def op_traces(
        self,
        batch: Batch,
        new_tokens: int,
        *,
        scenario: str,
        untraced: Mapping[str, float],
        machine: Machine,
        repeats: int,
    ) -> tuple[OpTrace, ...]:
        run = stamped(self, batch, new_tokens)  # type: ignore[arg-type]  # all that it uses is there
        return trace_ops(
            run, scenario=scenario, phases=("forward",), untraced=untraced, machine=machine, repeats=repeats
        )


def products(size: int, layers: int, rows: int, dtype: torch.dtype) -> Stack:
    """`layers` square matrix products on `rows` rows each: arithmetic."""
    weights = [torch.randn(size, size).to(dtype) for _ in range(layers)]
    inputs = {times: torch.randn(rows * times, size).to(dtype) for times in (1, 2)}

    def run(times: int) -> None:
        for weight in weights:
            torch.mm(inputs[times], weight)

    return Stack(run, _tiny(lambda x: torch.mm(x, x), layers))


def vectors(size: int, layers: int, dtype: torch.dtype) -> Stack:
    """One row through `layers` matrices that do not fit into a cache together: streaming weights."""
    weights = [torch.randn(size, size).to(dtype) for _ in range(layers)]
    x = torch.randn(size).to(dtype)

    def run(times: int) -> None:
        del times  # a second row would make it a product
        for weight in weights:
            torch.mv(weight, x)

    return Stack(run, _tiny(lambda x: torch.mv(x, x[0]), layers))


def passes(elements: int, calls: int) -> Stack:
    """Sums over vectors larger than a cache: memory without any weights."""
    inputs = {times: torch.randn(elements * times) for times in (1, 2)}

    def run(times: int) -> None:
        for _ in range(calls):
            torch.add(inputs[times], 1.0)

    return Stack(run, _tiny(lambda x: torch.add(x, 1.0), calls))


def crumbs(calls: int, elements: int) -> Stack:
    """Very many operations on very few numbers: dispatch and Python."""
    x = torch.zeros(elements)

    def run(times: int) -> None:
        del times
        for _ in range(calls):
            x.add_(1.0)

    return Stack(run, run)


def talk(lines: int, calls: int) -> Stack:
    """Python between operations: nothing but the interpreter's work."""
    x = torch.zeros(8)

    def run(times: int) -> None:
        del times
        for _ in range(calls):
            total = 0
            for number in range(lines):
                total += number * number % 7
            x.add_(float(total % 3))

    return Stack(run, run)


def _tiny(operation: Callable[[torch.Tensor], Any], calls: int) -> Pass:
    x = torch.randn(8, 8)

    def run(times: int) -> None:
        del times
        for _ in range(calls):
            operation(x)

    return run
