"""Damaged and harmless copies of the sample's fine-tune before the quality gate."""

from __future__ import annotations

import copy
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ftprof.profiler.engine import Engine
from ftprof.profiler.judge import judge_causal
from ftprof.profiler.judge_limits import Row as Limits
from ftprof.profiler.record import Machine

NEW_TOKENS = 24
ROWS = 24
HARMLESS = ("bfloat16", "eager attention", "one thread", "merged", "nothing")
DAMAGE = (
    "matrix x 1.1",
    "noise of 5 % in a matrix",
    "head rows zeroed",
    "alpha x 2",
    "alpha x 0.5",
    "adapter left out",
)


@dataclass(frozen=True, slots=True)
class DamageCase:
    """`harmful` changes must not pass, the others must."""

    change: str
    harmful: bool
    seed: int

    @property
    def name(self) -> str:
        return f"{self.change}, draw {self.seed}"


def cases(seed: int, quick: bool) -> Iterator[DamageCase]:
    for number in range(1 if quick else 5):
        for change in DAMAGE:
            yield DamageCase(change, True, seed + number)
        for change in HARMLESS[: 2 if quick else None]:
            yield DamageCase(change, False, seed + number)


@lru_cache(maxsize=1)
def _baseline() -> tuple[Any, Any, Path]:
    """The fine-tune with its adapter attached, as loaded, and what it is held against."""
    from ftprof.advisors.context import Options
    from ftprof.advisors.run import Request, workload_of
    from ftprof.profiler.callfile import load_call
    from ftprof.profiler.directory import inspect
    from ftprof.profiler.load import load_engine
    from ftprof.profiler.outputs import write_reference
    from ftprof.profiler.rows import load_rows
    from ftprof.samples.demo import demo_sample

    sample = demo_sample("smollm2-tickets")
    located = inspect(str(sample.model), base=str(sample.base), offline=True)
    rows = load_rows(str(sample.data), task=located.task, labels=located.labels)
    folder = Path(tempfile.mkdtemp(prefix="ftprof-truth-"))
    workload = workload_of(Request(located=located, rows=rows, call=load_call(None), options=Options()), folder)
    engine, _ = load_engine(workload, workload.call)
    reference = write_reference(
        engine, rows.rows[:ROWS], folder, new_tokens=NEW_TOKENS, limit=1024, eos=engine.eos_ids, budget_s=60.0
    )
    return engine, reference, folder


def run(case: DamageCase, machine: Machine) -> dict[str, Any]:
    """What the gate says of the changed copy; it is asked as strictly as the change would be."""
    del machine
    from ftprof.profiler.outputs import score

    engine, reference, folder = _baseline()
    limits: Limits = "half" if case.change == "bfloat16" else "equivalent"
    with _changed(engine, case) as candidate:
        scored = score(candidate, reference, folder)
    check = judge_causal("rounding", scored.documents, limits=limits)
    kl = check.figures.get("kl")
    return {
        "case": case.name,
        "harmful": case.harmful,
        "verdict": check.verdict,
        "kl": kl.value if kl else None,
        "tokens": check.tokens,
    }


@contextmanager
def _changed(engine: Any, case: DamageCase) -> Iterator[Engine]:
    """A copy with the change, or the engine itself under other settings."""
    import torch

    threads = torch.get_num_threads()
    try:
        if case.change == "one thread":
            torch.set_num_threads(1)
            yield engine
        elif case.change == "nothing":
            yield engine
        elif case.change == "adapter left out":
            with engine.model.disable_adapter():
                yield engine
        else:
            yield engine.with_model(_copy(copy.deepcopy(engine.model), case), adapter_dir=None)
    finally:
        torch.set_num_threads(threads)


def _copy(model: Any, case: DamageCase) -> Any:
    import torch

    from ftprof.profiler.adapter_merge import merge

    draw, generator = random.Random(case.seed), torch.Generator().manual_seed(case.seed)
    if case.change.startswith("alpha"):
        factor = float(case.change.split()[-1])
        for module in model.modules():
            if hasattr(module, "scaling") and isinstance(module.scaling, dict):
                module.scaling = {name: factor * value for name, value in module.scaling.items()}
        return merge(model)
    merged = merge(model)
    if case.change == "bfloat16":
        return merged.to(torch.bfloat16)
    if case.change == "eager attention":
        merged.set_attn_implementation("eager")
    if case.change == "head rows zeroed":
        head = merged.get_output_embeddings().weight
        rows = torch.randperm(len(head), generator=generator)[: len(head) // 20]
        head.data = head.data.clone()
        head.data[rows] = 0.0
    if "matrix" in case.change:
        weights = [value for name, value in merged.named_parameters() if value.ndim == 2 and "layers" in name]
        weight = weights[draw.randrange(len(weights))]
        if case.change == "matrix x 1.1":
            weight.data *= 1.1
        else:
            weight.data += 0.05 * weight.data.std() * torch.randn(weight.shape, generator=generator)
    return merged
