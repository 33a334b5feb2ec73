"""Known delays of 1 to 50 % of a phase: how much of each comes back in the row that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch

from benchmarks.truth import models
from benchmarks.truth.observe import Subject, observe, untraced, verdict
from benchmarks.truth.plants import delays, planted
from ftprof.profiler.diagnosis import PhaseDiagnosis
from ftprof.profiler.record import Machine

Row = Literal["host", "io", "sync", "op"]
DOSES = (0.01, 0.02, 0.05, 0.10, 0.20, 0.50)


@dataclass(frozen=True, slots=True)
class DelayCase:
    """A delay of `dose` times the phase, in all, before every layer of a real model."""

    model: Literal["minilm", "smollm2"]
    row: Row
    dose: float
    seed: int

    @property
    def name(self) -> str:
        return f"{self.model}, {self.row} {100 * self.dose:g} %, draw {self.seed}"


def cases(seed: int, quick: bool) -> Iterator[DelayCase]:
    rows: tuple[Row, ...] = ("host", "io", "sync", "op")
    for draw in range(1 if quick else 2):
        for model in ("minilm", "smollm2"):
            if quick and model == "smollm2":
                continue
            for row in rows:
                for dose in (0.05, 0.5) if quick else DOSES:
                    yield DelayCase(model, row, dose, seed + draw)


def run(case: DelayCase, machine: Machine) -> dict[str, Any]:
    """The row with and without the delay, both as shares of the time with it, and the true share."""
    if case.model == "minilm":
        subject, phase = models.forward(models.sample_encoder(), 4, 64, case.seed), "forward"
    else:
        subject, phase = models.generate(models.sample_decoder(), 1, 16, case.seed, 4), "decode"
    layers = models.layers_of(subject.engine)
    base_s = sorted(untraced(subject, 5)[phase])[2]
    before = verdict(observe(subject, machine, experiments=False), phase)
    each = case.dose * base_s / len(layers)
    if case.row == "op":
        found, true_s = _with_op(subject, each, machine, phase)
    else:
        with delays(case.row, each, case.seed) as delay, planted(layers, delay) as seen:
            seen.clear()
            found = verdict(observe(subject, machine, experiments=False), phase)
            true_s = seen.seconds / seen.calls * len(layers)
    assert found.ledger and before.ledger
    time_s = found.time_s.median
    true = true_s / time_s
    now, then = (_share(one, "memory" if case.row == "op" else case.row) for one in (found, before))
    return {
        "case": case.name,
        "row": case.row,
        "true": true,
        # What the row had before, it has of the time that is not planted: shares, since a machine that is two per cent
        # slower by now would make a row of nine tenths that much larger.
        "recovered": now - then * (1 - true),
        "unattributed": found.ledger.unattributed_s / time_s,
        "unattributed_before": before.ledger.unattributed_s / before.time_s.median,
        "seconds": time_s,
    }


def _share(found: PhaseDiagnosis, group: str) -> float:
    """A group's part of the phase's time, 0 to 1."""
    assert found.ledger
    return found.ledger.grouped()[group] / found.time_s.median


def _with_op(subject: Subject, each_s: float, machine: Machine, phase: str) -> tuple[Any, float]:
    """An in-place sum over as many numbers as take `each_s` before every layer."""
    layers = models.layers_of(subject.engine)
    pool = torch.zeros(64 << 20)
    rate = _elements_a_second(pool)
    part = pool[: max(1024, int(each_s * rate))]
    with planted(layers, lambda: part.add_(1.0)) as seen:
        found = verdict(observe(subject, machine, experiments=False), phase)
        return found, seen.seconds / seen.calls * len(layers)


def _elements_a_second(pool: torch.Tensor) -> float:
    import time

    part = pool[: 4 << 20]
    part.add_(1.0)
    begin = time.perf_counter()
    for _ in range(5):
        part.add_(1.0)
    return 5 * part.numel() / (time.perf_counter() - begin)
