"""LoRA in known doses: rank, targets and adapters; attribution against removal, and no adapter at all."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.truth import models
from benchmarks.truth.observe import Subject
from ftprof.profiler.adapter_switch import set_adapter
from ftprof.profiler.lora import lora_summary
from ftprof.profiler.modules import trace_modules
from ftprof.profiler.paired import order, pairs_of
from ftprof.profiler.record import AblationPair, Machine, Measurement, PhaseTiming, RunRecord
from ftprof.profiler.units import stamped
from ftprof.profiler.windows import no_collection, seconds_by_phase

TARGETS = ("q_proj", "v_proj", "k_proj", "o_proj", "up_proj", "down_proj", "gate_proj")
QUADS = 40
"""Twenty pairs know a removal to three points, eighty to less than one."""
NEW_TOKENS = 5


@dataclass(frozen=True, slots=True)
class LoraCase:
    """`targets` kinds of layer get an adapter of `rank`; none of either is a dose of zero."""

    rank: int
    targets: int
    length: int
    seed: int

    @property
    def name(self) -> str:
        return f"rank {self.rank}, {self.targets} targets, {self.length} tokens, draw {self.seed}"


def cases(seed: int, quick: bool) -> Iterator[LoraCase]:
    draw = random.Random(seed)
    grid = [(8, 7), (0, 0)] if quick else [(r, t) for r in (1, 8, 64, 256) for t in (1, 2, 4, 7)] + [(0, 0)] * 4
    for number, (rank, targets) in enumerate(grid):
        yield LoraCase(rank, targets, draw.choice((16, 64)), seed + number)


def run(case: LoraCase, machine: Machine) -> dict[str, Any]:
    """LoRA's share of prefill and decode, both ways."""
    base = copy.deepcopy(models.sample_decoder().model)
    if not case.rank:
        tuned = plain = models.engine_of(base, "causal-lm")
    else:
        tuned = models.engine_of(
            models.with_lora(base, case.rank, list(TARGETS[: case.targets]), case.seed),
            "causal-lm",
            adapter_dir="planted",
        )
        plain = models.engine_of(_without_adapter(tuned.model), "causal-lm")
    subject = Subject(tuned, models.ids(1, case.length, case.seed), NEW_TOKENS)
    record = _record(case, subject, plain, machine)
    found: dict[str, Any] = {"case": case.name, "rank": case.rank, "targets": case.targets}
    for phase in ("prefill", "decode"):
        summary = lora_summary(record, "single", phase)
        if summary is not None:
            found[phase] = {
                "attributed": _share(summary.attributed),
                "removed": _share(summary.ablation),
                "agree": summary.agree,
            }
    return found


def _without_adapter(model: Any) -> Any:
    """The operations of the merged model, on the very weights of this one: where weights lie in memory moves decoding by
    a few per cent, which would pass for the adapter."""
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, shared).unload()


def _share(share: Any) -> list[float] | None:
    return [share.share, share.low, share.high] if share else None


def _record(case: LoraCase, subject: Subject, plain: Any, machine: Machine) -> RunRecord:
    """Both arms in turns in this process, then the timed modules of the adapter."""
    batch = subject.engine.pad(subject.ids)
    runs = {name: stamped(engine, batch, NEW_TOKENS) for name, engine in (("A", subject.engine), ("B", plain))}
    sequence = order(case.seed, QUADS)
    with no_collection():
        for run in runs.values():
            run()
        taken = [runs[name]() for name in sequence]
    phases = seconds_by_phase(taken, subject.phases)
    pairs = {phase: pairs_of(sequence, samples) for phase, samples in phases.items()}
    untraced: dict[str, float] = {phase: sorted(on)[len(on) // 2] for phase, (on, _) in pairs.items()}
    modules = (
        trace_modules(
            subject.engine.model,
            runs["A"],
            scenario="single",
            phases=subject.phases,
            untraced=untraced,
            machine=machine,
            repeats=12,
            switch=partial(set_adapter, subject.engine.model),
        )
        if case.rank
        else ()
    )
    return RunRecord(
        machine=machine,
        timing=tuple(
            PhaseTiming(scenario="single", phase=phase, time_s=Measurement(samples=on))
            for phase, (on, _) in pairs.items()
        ),
        modules=modules,
        ablation=tuple(
            AblationPair(scenario="single", phase=phase, how="unloaded", on_s=on, off_s=off)
            for phase, (on, off) in pairs.items()
        ),
    )
