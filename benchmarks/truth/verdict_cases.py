"""Runs with a known label out of six: compute, memory, host, I/O, sync, mixed; in bare stacks and in real models."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import torch

from benchmarks.truth import models, stacks
from benchmarks.truth.observe import Subject, observe, untraced, verdict
from benchmarks.truth.plants import Kind, delays, planted
from ftprof.profiler.diagnosis import PhaseDiagnosis
from ftprof.profiler.record import Machine

Label = Literal["compute", "memory", "host", "io", "sync", "mixed"]


@dataclass(frozen=True, slots=True)
class VerdictCase:
    """`label` is what limits `phase`; for "mixed", `both` names the two that share the time. `plants` are (kind, times the
    model's own time, which way)."""

    name: str
    label: Label
    phase: str
    subject: Callable[[], Subject]
    plants: tuple[tuple[Kind, float, int], ...] = ()
    both: tuple[str, ...] = ()


def cases(seed: int, quick: bool) -> Iterator[VerdictCase]:
    """At least 20 of each label; three where `quick`. Sizes and lengths are drawn with the seed."""
    draw = random.Random(seed)
    makers: dict[Label, Callable[[int, random.Random], VerdictCase]] = {
        "compute": _compute,
        "memory": _memory,
        "host": _host,
        "io": lambda number, draw: _waiting("io", number, draw),
        "sync": lambda number, draw: _waiting("sync", number, draw),
        "mixed": _mixed,
    }
    for number in range(3 if quick else 20):
        for make in makers.values():
            yield make(number, draw)


def _compute(number: int, draw: random.Random) -> VerdictCase:
    seed = draw.randrange(1 << 30)
    if number % 3 == 0:
        size, rows = draw.choice((768, 1024, 1536)), draw.choice((512, 1024))
        dtype = draw.choice((torch.float32, torch.bfloat16))
        name = f"{rows} rows through {size} x {size}, {dtype}"
        return VerdictCase(name, "compute", "forward", lambda: Subject(stacks.products(size, 6, rows, dtype), [[1]]))
    rows, length = draw.choice((8, 12, 16)), draw.choice((96, 128, 192))
    if number % 3 == 1:
        hidden, layers = draw.choice((384, 512, 768)), draw.choice((3, 4))
        name = f"BERT {hidden} x {layers}, {rows} x {length}"
        return VerdictCase(
            name, "compute", "forward", lambda: models.forward(models.encoder(hidden, layers), rows, length, seed)
        )
    if number % 2:
        name = f"SmolLM2 prefill, 4 x {length}"
        return VerdictCase(
            name, "compute", "prefill", lambda: models.generate(models.sample_decoder(), 4, length, seed, 2)
        )
    name = f"MiniLM, {rows} x {length}"
    return VerdictCase(name, "compute", "forward", lambda: models.forward(models.sample_encoder(), rows, length, seed))


def _memory(number: int, draw: random.Random) -> VerdictCase:
    seed = draw.randrange(1 << 30)
    if number % 4 == 0:
        size = draw.choice((2048, 3072, 4096))
        layers = max(3, (384 << 20) // (4 * size * size))
        name = f"vector through {layers} matrices {size} x {size}"
        return VerdictCase(
            name, "memory", "forward", lambda: Subject(stacks.vectors(size, layers, torch.float32), [[1]])
        )
    if number % 4 == 1:
        elements = draw.choice((16, 24, 32)) << 20
        name = f"sums over {elements >> 20} M numbers"
        return VerdictCase(name, "memory", "forward", lambda: Subject(stacks.passes(elements, 4), [[1]]))
    if number % 4 == 2:
        name = f"SmolLM2 decode after {(length := draw.choice((16, 32, 64)))}"
        return VerdictCase(name, "memory", "decode", lambda: models.generate(models.sample_decoder(), 1, length, seed))
    family, hidden = draw.choice(("llama", "gpt2", "qwen2")), draw.choice((1536, 2048))
    name = f"{family} {hidden} x 5 decode"
    return VerdictCase(
        name, "memory", "decode", lambda: models.generate(models.decoder(hidden, 5, family=family), 1, 16, seed)
    )


def _host(number: int, draw: random.Random) -> VerdictCase:
    seed = draw.randrange(1 << 30)
    if number % 4 == 0:
        calls, elements = draw.choice((5_000, 10_000, 20_000)), draw.choice((1, 8, 64))
        return VerdictCase(
            f"{calls} sums of {elements} numbers",
            "host",
            "forward",
            lambda: Subject(stacks.crumbs(calls, elements), [[1]]),
        )
    if number % 4 == 1:
        lines, calls = draw.choice((200, 1000)), draw.choice((500, 1000))
        return VerdictCase(
            f"{lines} lines of Python, {calls} times",
            "host",
            "forward",
            lambda: Subject(stacks.talk(lines, calls), [[1]]),
        )
    if number % 4 == 2:
        family, layers = draw.choice(("llama", "gpt2", "qwen2")), draw.choice((8, 16, 24))
        return VerdictCase(
            f"{family} 64 x {layers} decode",
            "host",
            "decode",
            lambda: models.generate(models.decoder(64, layers, family=family), 1, 8, seed),
        )
    times = draw.choice((3.0, 4.0))
    return _planted_in("host", (("host", times, 0),), number, draw, seed)


def _waiting(label: Literal["io", "sync"], number: int, draw: random.Random) -> VerdictCase:
    times = draw.choice((2.5, 3.0, 4.0))
    return _planted_in(label, ((label, times, number),), number, draw, draw.randrange(1 << 30))


def _mixed(number: int, draw: random.Random) -> VerdictCase:
    """Two delays of the same length, each two and a half times as long as the model itself."""
    pairs: tuple[tuple[Kind, Kind], ...] = (("io", "sync"), ("io", "host"), ("host", "sync"))
    pair = pairs[number % 3]
    plants = tuple((kind, 2.5, number) for kind in pair)
    case = _planted_in("mixed", plants, number, draw, draw.randrange(1 << 30))
    return VerdictCase(case.name, "mixed", case.phase, case.subject, plants, pair)


def _planted_in(
    label: Label, plants: tuple[tuple[Kind, float, int], ...], number: int, draw: random.Random, seed: int
) -> VerdictCase:
    """In MiniLM's forward, in SmolLM2's decode, or in a random decoder, by turns."""
    said = " and ".join(f"{kind} {times:g} x the model" for kind, times, _ in plants)
    if number % 3 == 0:
        rows = draw.choice((1, 4))
        return VerdictCase(
            f"MiniLM {rows} x 64, {said}",
            label,
            "forward",
            lambda: models.forward(models.sample_encoder(), rows, 64, seed),
            plants,
        )
    if number % 3 == 1:
        return VerdictCase(
            f"SmolLM2 decode, {said}",
            label,
            "decode",
            lambda: models.generate(models.sample_decoder(), 1, 16, seed, 4),
            plants,
        )
    family = draw.choice(("llama", "qwen2"))
    return VerdictCase(
        f"{family} 512 x 6 decode, {said}",
        label,
        "decode",
        lambda: models.generate(models.decoder(512, 6, family=family), 1, 16, seed),
        plants,
    )


def run(case: VerdictCase, machine: Machine) -> dict[str, Any]:
    """Diagnose one case; what was found beside what is true."""
    subject = case.subject()
    with ExitStack() as stack:
        if case.plants:
            subject = _plant(case, subject, stack)
        record = observe(subject, machine)
    found = verdict(record, case.phase)
    return {
        # What was judged wrong is kept whole: a regression test needs the record.
        **({"record": msgspec.json.encode(record).decode()} if found.bound != case.label else {}),
        "case": case.name,
        "label": case.label,
        "both": list(case.both),
        "found": found.bound,
        "named": _named(found),
        "share": found.bound_share,
        "confidence": found.confidence,
        "confirmed": found.confirmed,
        "seconds": found.time_s.median,
        "shares": _shares(found),
        "traced_ratio": found.traced_ratio,
        "evidence": list(found.evidence),
    }


def _plant(case: VerdictCase, subject: Subject, stack: ExitStack) -> Subject:
    """The subject with its delays before every layer, and a twin with the same host work in it."""
    from ftprof.profiler.narrow import narrow_engine

    base_s = sorted(untraced(subject, 3)[case.phase])[1]
    twin = narrow_engine(subject.engine)
    for engine in (subject.engine, twin):
        layers = models.layers_of(engine)
        for kind, times, way in case.plants:
            delay = stack.enter_context(delays(kind, times * base_s / len(layers), way))
            stack.enter_context(planted(layers, delay))
    return Subject(subject.engine, subject.ids, subject.new_tokens, twin)


def _shares(found: PhaseDiagnosis) -> dict[str, float]:
    ledger = found.ledger
    return {name: value / ledger.total_s for name, value in ledger.grouped().items()} if ledger else {}


def _named(found: PhaseDiagnosis) -> list[str]:
    """The two largest groups, which a mixed verdict names."""
    shares = {name: share for name, share in _shares(found).items() if name != "unattributed"}
    return sorted(shares, key=lambda name: -shares[name])[:2]
