"""The limits of this machine as a run measures them, against ten times as long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ftprof.profiler.record import Machine

LONG_S = 30.0


@dataclass(frozen=True, slots=True)
class LimitsCase:
    """Short against long, in turns."""

    number: int

    @property
    def name(self) -> str:
        return f"limits, round {self.number}"


def cases(seed: int, quick: bool) -> Iterator[LimitsCase]:
    del seed
    for number in range(1 if quick else 3):
        yield LimitsCase(number)


def run(case: LimitsCase, machine: Machine) -> dict[str, Any]:
    """Each limit of the short run over that of the long one, and what the short one took."""
    del machine
    from ftprof.advisors.baseline import MACHINE_S
    from ftprof.profiler.machine import measure_machine

    budgets = (MACHINE_S, LONG_S) if case.number % 2 == 0 else (LONG_S, MACHINE_S)
    found = {budget: measure_machine(budget_s=budget) for budget in budgets}
    short, long = _limits(found[MACHINE_S]), _limits(found[LONG_S])
    return {
        "case": case.name,
        "seconds": found[MACHINE_S].measured_in_s,
        "ratios": {name: short[name] / value for name, value in long.items() if name in short},
    }


def _limits(machine: Machine) -> dict[str, float]:
    largest = max((point.working_set_bytes for point in machine.bandwidth), default=0)
    reading = {
        f"reading {point.dtype}": point.bytes_per_s for point in machine.bandwidth if point.working_set_bytes == largest
    }
    products = {f"products {dtype}": rate for dtype, rate in machine.flops_per_s.items()}
    return {**products, **reading, "one small op": 1 / machine.dispatch_s}
