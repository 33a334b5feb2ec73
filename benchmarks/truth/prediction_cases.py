"""Models with several faults each: every fix predicted first, then applied alone and measured.

Everything goes through the product's own parts: workers, baseline, probes, interleaved pairs. The quality gate is left
out, since only speed is asked about; a model of another family gets random weights, and its outputs mean nothing. Fixes
that a run would leave alone are measured all the same: a fix that does not pay must be predicted so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.truth.models import with_lora
from benchmarks.truth.opened import measured, workplace
from ftprof.profiler.record import Machine

PAIRS_S = 9.0
QUADS, LEAST_QUADS = 16, 2
NEW_TOKENS, ROWS = 12, 4
# Family, width, layers, rank of the adapter (0: none), and how it is called.
RANDOM: tuple[tuple[str, int, int, int, dict[str, Any]], ...] = (
    ("bert", 512, 4, 0, {"attention": "eager", "padding": "max_length", "pad_to": 256}),
    ("llama", 512, 8, 16, {"attention": "eager"}),
    ("qwen2", 768, 6, 8, {"dtype": "bfloat16"}),
    ("gpt2", 512, 8, 0, {"attention": "eager"}),
    ("mistral", 640, 6, 32, {"use_cache": False}),
    ("bert", 768, 6, 0, {}),
)
SAMPLES = ("smollm2-tickets", "minilm-tickets")
VARIANTS = ("minilm-adapter-dtype", "minilm-padded")


@dataclass(frozen=True, slots=True)
class PredictionCase:
    """`sizes` are those of a random model, empty for a sample or one of its variants."""

    name: str
    sizes: tuple[Any, ...] = ()
    seed: int = 0


def cases(seed: int, quick: bool) -> Iterator[PredictionCase]:
    for name in () if quick else (*SAMPLES, *VARIANTS):
        yield PredictionCase(name, seed=seed)
    for sizes in RANDOM[:1] if quick else RANDOM:
        family, hidden, layers, rank, call = sizes
        called = ", ".join(f"{key} {value}" for key, value in call.items())
        said = f"random {family} {hidden} x {layers}{f', rank {rank}' if rank else ''}{f', {called}' if called else ''}"
        yield PredictionCase(said, sizes, seed)


def run(case: PredictionCase, machine: Machine) -> dict[str, Any]:
    """Every fix that has something to say about the model: what it was predicted to bring, and what it brought."""
    from ftprof.advisors.improve import advised

    with workplace(case.seed, max_loss="int4") as context:
        best = advised(context, measured(context, _files(case, context.scratch), machine))[0]
        trials = [trial for found in _predicted(best) for trial in _tried(context, best, *found)]
    return {
        "case": case.name,
        "unattributed": {
            f"{one.scenario} {one.name}": one.ledger.unattributed_s / one.ledger.total_s
            for one in best.diagnosis.phases
            if one.ledger and one.ledger.total_s
        },
        "trials": trials,
    }


def _predicted(best: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Rule, options and prediction of each fix; of a ladder the mildest step."""
    from ftprof.advisors.advise import applies
    from ftprof.advisors.rules import load_rules

    for rule in load_rules():
        finding = rule.detect(best.record, best.diagnosis) if rule.fixes() and applies(rule, best.record) else None
        if finding is None:
            continue
        for options in rule.alternatives(best.record)[: 1 if rule.ladder else None]:
            asked = msgspec.structs.replace(finding, options=options)
            if rule.refuse(best.record, asked) is None:
                yield rule, options, rule.predict(best.record, asked)


def _tried(context: Any, best: Any, rule: Any, options: Any, prediction: Any) -> Iterator[dict[str, Any]]:
    """What the fix alone brings in each scenario, as far as it was predicted."""
    from ftprof.advisors.duel import duel, ratios
    from ftprof.advisors.stacking import stacked
    from ftprof.advisors.variant import Variant, VariantArm
    from ftprof.profiler.workload import Change, labelled

    workload = best.variant.workload
    attached = best.record.adapter is not None
    changes = stacked((), Change(rule=rule.name, options=options), attached=attached)
    candidate = Variant(context, rule.name, msgspec.structs.replace(workload, changes=changes))
    phase = "e2e" if workload.task == "causal-lm" else "forward"
    try:
        for scenario in workload.scenarios:
            predicted = prediction.get(scenario.name, phase)
            if predicted is None:
                continue
            context.budget.lap()
            candidate.handle()
            samples = duel(
                VariantArm(best.variant),
                VariantArm(candidate),
                scenario.name,
                quads=QUADS,
                least=LEAST_QUADS,
                deadline=context.budget.until(PAIRS_S),
                now=context.budget.now,
                seed=workload.seed,
                watch=phase,
            )
            found = ratios(samples)[phase]
            yield {
                "rule": labelled(rule.name, options),
                "scenario": scenario.name,
                "predicted": [predicted.speedup, predicted.low, predicted.high],
                "measured": [found.speedup, found.low, found.high],
                "verdict": found.verdict,
            }
    finally:
        candidate.close()


def _files(case: PredictionCase, folder: Path) -> tuple[Path, Path | None, Path, Any]:
    """Model, base, data and call."""
    from ftprof.profiler.callfile import load_call
    from ftprof.profiler.workload import Call
    from ftprof.samples.demo import demo_sample
    from ftprof.samples.variants import build

    short = {"new_tokens": NEW_TOKENS, "batch_size": ROWS}
    if case.name in VARIANTS:
        variant = build(case.name)
        call = load_call(str(variant.call) if variant.call else None)
        return variant.model, variant.base, variant.data, msgspec.structs.replace(call, new_tokens=NEW_TOKENS)
    if case.name in SAMPLES:
        sample = demo_sample(case.name)
        return Path(sample.model), Path(sample.base), Path(sample.data), Call(new_tokens=NEW_TOKENS)
    family, hidden, layers, rank, called = case.sizes
    near = demo_sample("minilm-tickets" if family == "bert" else "smollm2-tickets")
    base = random_model(folder / "base", Path(near.base), family, hidden, layers, case.seed)
    call = Call(**(called | (short if family != "bert" else {})))
    if not rank:
        return base, None, Path(near.data), call
    return _random_adapter(folder / "adapter", base, rank, case.seed), base, Path(near.data), call


def random_model(folder: Path, near: Path, family: str, hidden: int, layers: int, seed: int) -> Path:
    """A random model of this family and size with the tokenizer of the model at `near`, saved in `folder`."""
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
