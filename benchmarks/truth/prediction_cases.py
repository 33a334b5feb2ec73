"""Whole runs on models with known faults: every prediction was written down before its trial, and is scored here (V17).

These go through the product itself: workers, probes, trials, quality gate. A model of another family gets random
weights and the tokenizer of the sample nearest to it; what is measured of it is speed, and its outputs mean nothing.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.truth.models import with_lora
from ftprof.profiler.record import Machine

BUDGET_S = 75.0
VARIANTS = ("smollm2-merged-no-cache", "minilm-adapter-dtype", "minilm-padded", "minilm-eager", "minilm-fp32")
SAMPLES = ("smollm2-tickets", "minilm-tickets")
# Family, width, layers, rank of the adapter, attention.
RANDOM = (
    ("llama", 512, 8, 16, "auto"),
    ("qwen2", 768, 6, 8, "auto"),
    ("gpt2", 512, 8, 0, "eager"),
    ("mistral", 640, 6, 32, "eager"),
    ("bert", 512, 4, 0, "eager"),
)


@dataclass(frozen=True, slots=True)
class PredictionCase:
    """`kind` "variant" or "sample" name prepared models; "random" is drawn."""

    kind: str
    name: str
    sizes: tuple[Any, ...] = ()
    seed: int = 0


def cases(seed: int, quick: bool) -> Iterator[PredictionCase]:
    for name in VARIANTS[:1] if quick else VARIANTS:
        yield PredictionCase("variant", name, seed=seed)
    for name in SAMPLES[:1] if quick else SAMPLES:
        yield PredictionCase("sample", name, seed=seed)
    for sizes in RANDOM[:1] if quick else RANDOM:
        family, hidden, layers, rank, attention = sizes
        said = f"random {family} {hidden} x {layers}, rank {rank}, attention {attention}"
        yield PredictionCase("random", said, sizes, seed)


def run(case: PredictionCase, machine: Machine) -> dict[str, Any]:
    """Every trial of one run: what was predicted, and what was measured on the objective."""
    del machine
    from ftprof.advisors.context import Options
    from ftprof.advisors.progress import Silent
    from ftprof.advisors.run import Request
    from ftprof.advisors.run import run as diagnose_and_fix
    from ftprof.profiler.callfile import load_call
    from ftprof.profiler.directory import inspect
    from ftprof.profiler.rows import load_rows

    folder = Path(tempfile.mkdtemp(prefix="ftprof-truth-"))
    try:
        model, base, data, call = _files(case, folder)
        located = inspect(str(model), base=str(base) if base else None, offline=True)
        request = Request(
            located=located,
            rows=load_rows(str(data), task=located.task, labels=located.labels),
            call=load_call(str(call) if call else None),
            options=Options(runtime="torch", max_loss="rounding"),
            budget_s=BUDGET_S,
            offline=True,
            seed=case.seed,
        )
        audit = diagnose_and_fix(request, Silent(), lambda _: None)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    scenario, phase = audit.settings.objective_scenario, audit.settings.objective_phase
    return {
        "case": case.name,
        "unattributed": {
            f"{one.scenario} {one.name}": one.ledger.unattributed_s / one.ledger.total_s
            for one in audit.phases
            if one.ledger and one.ledger.total_s
        },
        "trials": [
            {
                "rule": trial.rule,
                "status": trial.status,
                "predicted": [predicted.speedup, predicted.low, predicted.high],
                "measured": [trial.objective.speedup, trial.objective.low, trial.objective.high],
                "verdict": trial.objective.verdict,
            }
            for trial in audit.trials
            if trial.objective and trial.predicted and (predicted := trial.predicted.get(scenario, phase))
        ],
    }


def _files(case: PredictionCase, folder: Path) -> tuple[Path, Path | None, Path, Path | None]:
    """Model, base, data and call file."""
    from ftprof.samples.demo import demo_sample
    from ftprof.samples.variants import build

    if case.kind == "variant":
        variant = build(case.name)
        return variant.model, variant.base, variant.data, variant.call
    if case.kind == "sample":
        sample = demo_sample(case.name)
        return Path(sample.model), Path(sample.base), Path(sample.data), None
    family, hidden, layers, rank, attention = case.sizes
    near = demo_sample("minilm-tickets" if family == "bert" else "smollm2-tickets")
    base = _random_model(folder / "base", Path(near.base), family, hidden, layers, case.seed)
    call = folder / "call.toml"
    call.write_text(f'attention = "{attention}"\nnew_tokens = 16\nbatch_size = 4\n')
    if not rank:
        return base, None, Path(near.data), call
    return _random_adapter(folder / "adapter", base, rank, case.seed), base, Path(near.data), call


def _random_model(folder: Path, near: Path, family: str, hidden: int, layers: int, seed: int) -> Path:
    import torch
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(near)
    heads = hidden // 64
    sizes: dict[str, Any] = {"vocab_size": len(tokenizer), "pad_token_id": 0, "eos_token_id": 2, "bos_token_id": 1}
    if family == "gpt2":
        sizes |= {"n_embd": hidden, "n_layer": layers, "n_head": heads, "n_positions": 2048}
    else:
        sizes |= {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
        sizes |= {"intermediate_size": (4 if family == "bert" else 3) * hidden}
        if family != "bert":
            sizes |= {"num_key_value_heads": heads}
    torch.manual_seed(seed)
    kind: Any = AutoModel if family == "bert" else AutoModelForCausalLM
    kind.from_config(AutoConfig.for_model(family, **sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _random_adapter(folder: Path, base: Path, rank: int, seed: int) -> Path:
    from transformers import AutoModelForCausalLM

    with_lora(AutoModelForCausalLM.from_pretrained(base), rank, "all-linear", seed).save_pretrained(str(folder))
    return folder
