"""A tokeniser that is slower by a known time: its phase must show it, and skipping it must save it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import Any

from benchmarks.truth.plants import busy
from ftprof.profiler.record import Machine

RUNS = 15
ROWS = 4


@dataclass(frozen=True, slots=True)
class TokeniserCase:
    """`delay_s` is added to each call of the tokeniser."""

    delay_s: float
    seed: int

    @property
    def name(self) -> str:
        return f"tokeniser slower by {1e3 * self.delay_s:g} ms, draw {self.seed}"


def cases(seed: int, quick: bool) -> Iterator[TokeniserCase]:
    for delay_ms in (5, 20) if quick else (1, 2, 5, 10, 20, 40):
        for number in range(1 if quick else 2):
            yield TokeniserCase(delay_ms / 1e3, seed + number)


@lru_cache(maxsize=1)
def _sample() -> tuple[Any, Any]:
    """The sample's encoder with its own tokenizer, and its rows."""
    from transformers import AutoTokenizer

    from benchmarks.truth import models
    from ftprof.profiler.rows import load_rows
    from ftprof.samples.demo import demo_sample

    near = demo_sample("minilm-tickets")
    engine = models.sample_encoder()
    engine.tokenizer = AutoTokenizer.from_pretrained(near.base)
    return engine, load_rows(str(near.data), task="embedding").rows


def run(case: TokeniserCase, machine: Machine) -> dict[str, Any]:
    """What the phase shows more, in turns with the tokeniser as it is, and what the experiment says of it."""
    del machine
    from ftprof.profiler.interventions import judge
    from ftprof.profiler.pretokenised import skip_tokeniser
    from ftprof.profiler.record import RunRecord
    from ftprof.profiler.units import run_unit

    engine, rows = _sample()
    rows = rows[case.seed % 8 :: 8][:ROWS]
    plain = engine.tokenise

    def slower(texts: Sequence[str]) -> Any:
        busy(case.delay_s)
        return plain(texts)

    times: dict[bool, list[float]] = {False: [], True: []}
    try:
        for number in range(2 * RUNS + 2):
            slow = number % 2 == 1
            engine.tokenise = slower if slow else plain
            seconds = run_unit(engine, "embedding", rows, 0)["tokenise"]
            if number >= 2:
                times[slow].append(seconds)
        engine.tokenise = slower
        skipped = skip_tokeniser(engine, "embedding", rows, 0, scenario="single", budget_s=2.0)
    finally:
        del engine.tokenise
    return {
        "case": case.name,
        "true": case.delay_s,
        "recovered": median(times[True]) - median(times[False]),
        "confirmed": judge(RunRecord(pretokenised=skipped), "single", "tokenise", "host", 0.0).verdict,
    }
