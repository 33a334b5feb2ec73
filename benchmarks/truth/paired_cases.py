"""Sessions of the paired comparison on a real model with a known effect, or none."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import Any

from benchmarks.truth import models
from benchmarks.truth.plants import busy
from ftprof.profiler.paired import order, pairs_of, ratio
from ftprof.profiler.record import Machine
from ftprof.profiler.windows import no_collection

UNIT_S = 0.05
"""Length of a sample."""
QUADS = 8
AA_QUADS = 24
"""No difference is harder to prove than one: sixteen pairs decide half of the sessions, which says little of the test."""


@dataclass(frozen=True, slots=True)
class PairedCase:
    """A has `effect` times a pass more to do than B; with `noisy`, another process computes now and then."""

    effect: float
    noisy: bool
    seed: int
    quads: int = QUADS

    @property
    def name(self) -> str:
        return f"effect {100 * self.effect:g} %{', beside another process' if self.noisy else ''}, draw {self.seed}"


def cases(seed: int, quick: bool) -> Iterator[PairedCase]:
    """A/A sessions most of all, then effects from 1 to 50 %."""
    for number in range(10 if quick else 100):
        yield PairedCase(0.0, False, seed + number, QUADS if quick else AA_QUADS)
    for effect in (0.03, 0.10) if quick else (0.01, 0.02, 0.03, 0.05, 0.10, 0.20, 0.50):
        for number in range(3 if quick else 12):
            # Power is asked for at 3 % in three minutes and at 5 % in one: as many samples as fit into these.
            quads = QUADS if quick else {0.03: 48, 0.05: 24}.get(effect, QUADS)
            yield PairedCase(effect, False, seed + number, quads)
    for number in range(2 if quick else 10):
        yield PairedCase(0.0, True, seed + number)


@lru_cache(maxsize=1)
def _unit() -> tuple[Any, Any, int, float]:
    """The model, a batch, passes a sample, and the seconds of one pass."""
    engine = models.sample_encoder()
    batch = engine.pad(models.ids(1, 32, 0))
    for _ in range(5):
        engine.forward(batch)
    begin = time.perf_counter()
    for _ in range(10):
        engine.forward(batch)
    pass_s = (time.perf_counter() - begin) / 10
    return engine, batch, max(1, round(UNIT_S / pass_s)), pass_s


def run(case: PairedCase, machine: Machine) -> dict[str, Any]:
    """One session in ABBA quads; what was added is stamped, so the true ratio of each pair is known."""
    del machine
    engine, batch, passes, pass_s = _unit()
    sequence = order(case.seed, case.quads)
    samples, added = [], []
    other = _other() if case.noisy else None
    begun = time.perf_counter()
    try:
        with no_collection():
            for name in sequence:
                begin = time.perf_counter()
                for _ in range(passes):
                    engine.forward(batch)
                extra = time.perf_counter()
                if name == "A" and case.effect:
                    busy(case.effect * pass_s * passes)
                end = time.perf_counter()
                if name == "B" and case.effect:
                    # Untimed: after a wait the threads of the pool have to be woken, whichever side comes next.
                    busy(case.effect * pass_s * passes)
                samples.append(end - begin)
                added.append(end - extra if name == "A" else 0.0)
    finally:
        if other is not None:
            other.kill()
            other.wait()
    a, b = pairs_of(sequence, samples)
    extra_a, _ = pairs_of(sequence, added)
    found = ratio(a, b)
    # What A would have taken without its extra work is the same model: the true effect is that of the extra work.
    true = 1.0 + sorted(extra / (whole - extra) for extra, whole in zip(extra_a, a, strict=True))[len(a) // 2]
    return {
        "case": case.name,
        "effect": case.effect,
        "noisy": case.noisy,
        "true": true,
        "found": [found.speedup, found.low, found.high],
        "verdict": found.verdict,
        "covered": found.low <= true <= found.high,
        "width": log(found.high / found.low),
        "pairs": found.pairs,
        "seconds": time.perf_counter() - begun,
    }


def _other() -> subprocess.Popen[bytes]:
    """A process that takes a processor for a tenth of a second at a time, about half of the time."""
    code = (
        "import time,random\nwhile True:\n end=time.time()+0.1\n while time.time()<end: pass\n"
        " time.sleep(random.uniform(0.02,0.25))"
    )
    return subprocess.Popen([sys.executable, "-S", "-c", code])
