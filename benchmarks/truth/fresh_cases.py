"""A model against itself: a process that has measured a whole baseline, and a new one (A/A over processes).

Each case runs in a process of its own, with the allocator as every run of ftprof sets it, or as the system has it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.truth.opened import measured, workplace
from ftprof.profiler.heap import LEAVE
from ftprof.profiler.record import Machine

PAIRS_S = 12.0
QUADS = 6


@dataclass(frozen=True, slots=True)
class FreshCase:
    """`settled`: the allocator starts as ftprof sets it."""

    settled: bool
    seed: int

    @property
    def name(self) -> str:
        whose = "a settled" if self.settled else "the system's"
        return f"a new process, {whose} allocator, draw {self.seed}"


def cases(seed: int, quick: bool) -> Iterator[FreshCase]:
    for number in range(1 if quick else 4):
        for settled in (False, True):
            yield FreshCase(settled, seed + number)


def run(case: FreshCase, machine: Machine) -> dict[str, Any]:
    """Speed-up of the new process over the old one on batches."""
    del machine
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    environment |= {} if case.settled else {LEAVE: "system"}
    command = [sys.executable, "-m", "benchmarks.truth.fresh_cases", json.dumps(asdict(case))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {"case": case.name, "settled": case.settled, **found}


def _compare(case: FreshCase) -> dict[str, Any]:
    from ftprof.advisors.duel import duel, ratios
    from ftprof.advisors.variant import Variant, VariantArm
    from ftprof.profiler.machine import measure_machine
    from ftprof.profiler.workload import Call
    from ftprof.samples.demo import demo_sample

    sample = demo_sample("minilm-tickets")
    with workplace(case.seed) as context:
        files = (Path(sample.model), Path(sample.base), Path(sample.data), Call())
        old = measured(context, files, measure_machine(budget_s=1.0)).variant
        samples = duel(
            VariantArm(old),
            VariantArm(Variant(context, "new", old.workload)),
            "batch",
            quads=QUADS,
            least=3,
            deadline=context.budget.until(PAIRS_S),
            now=context.budget.now,
            seed=case.seed,
            watch="forward",
        )
    found = ratios(samples)["forward"]
    return {"found": [found.speedup, found.low, found.high], "verdict": found.verdict, "pairs": found.pairs}


if __name__ == "__main__":
    print(json.dumps(_compare(FreshCase(**json.loads(sys.argv[1])))))
