"""A LoRA adapter still runs as matrices of its own at inference.

## What it detects
An attached adapter that takes 5 % of the time or more (lower bound above 2 %), by ablation, else by attribution. From
20 % on the advice is to merge; below that, to merge if this is the only adapter served.

## Why it is slow
Every wrapped layer runs the base product, then A, B, a scale and an add. In decode these are tiny operations whose
cost is their number, hardly their rank: on a 135M model with 210 wrapped layers they took a quarter of each token.

## Fix
Merge in fp32, layer by layer, and cast back once: PEFT alone rounds the update to a 16-bit base's dtype, then the sum
again. The merged directory loads without PEFT.

## When it backfires
- Several adapters are switched at run time: merging freezes one.
- The base is quantised: the update is smaller than a 4-bit step and is rounded away; merge on a 16-bit base instead.
- A LoRA on embeddings tied to the head, or on the tied head: they part, and the file grows by one table.
- Prompt and prefix tuning have no weights to merge; kinds whose merge is not known to be exact are left alone.
- Undoing a merge is not bit-exact: keep the adapter's directory.

## Sources
- PEFT's LoRA guide (huggingface.co/docs/peft); huggingface/peft#957: 4.2 s against 2.8 s merged; vllm-project/vllm#3316: 780 against 400 ms.
- huggingface/peft#1388: loss after a bf16 merge; #2321 and #2972: quantised bases, tied weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ftprof.advisors.adapter_costs import THAWED, without_adapter
from ftprof.advisors.merging import unmergeable
from ftprof.advisors.predict import Ratios, lora_share, times, typical_s, with_end_to_end
from ftprof.advisors.rule import ALL_TASKS, Evidence, Finding, Prediction, Rule
from ftprof.advisors.toggles import toggle_prediction, toggle_probes
from ftprof.profiler.adapter_merge import merge
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.lora import copies_head
from ftprof.profiler.record import ProbeCase, RunRecord

if TYPE_CHECKING:
    from ftprof.profiler.engine import Engine

FIRES, SURE, MUST = 0.05, 0.02, 0.20  # shares: worth a merge, not noise, merge in any case


def detect(record: RunRecord, diagnosis: Diagnosis) -> Finding | None:
    lora, share = diagnosis.lora, lora_share(diagnosis)
    if lora is None or share is None or share.share < FIRES or share.low < SURE:
        return None
    advice = "merge it" if share.share >= MUST else "merge it if this is the only adapter you serve"
    taken = f"{share.share:.1%} ({share.low:.1%} to {share.high:.1%}) of {lora.scenario} {lora.phase}"
    return Finding(
        summary=f"the adapter takes {taken}: {advice}",
        scenario=lora.scenario,
        phase=lora.phase,
        at_stake_s=share.share * (typical_s(record, lora.scenario, lora.phase) or 0.0),
        evidence=(Evidence(name="LoRA share", value=share.share, condition=f">= {FIRES:.0%}, by {share.how}"),),
        where=record.adapter.targets if record.adapter else (),
    )


def probes(record: RunRecord, finding: Finding) -> tuple[ProbeCase, ...]:
    """A merged model's head is not frozen, which an adapter that is switched off does not show."""
    return toggle_probes(record, THAWED) if copies_head(record) else ()


def predict(record: RunRecord, finding: Finding) -> Prediction:
    basis = "ablation of the adapter" if record.ablation else "time attributed to the adapter's modules"
    ratios = without_adapter(record)
    if copies_head(record) and not any(pair.how == "unloaded" for pair in record.ablation or ()):
        ratios = _thawed(ratios, toggle_prediction(record, THAWED).ratios)
        basis += ", and a head that is not copied"
    return Prediction(ratios=with_end_to_end(record, ratios), basis=basis)


def _thawed(ratios: Ratios, thawed: Ratios) -> Ratios:
    """Both speed-ups, phase by phase; end to end is made of the phases anew."""
    found: Ratios = {}
    for scenario in {**ratios, **thawed}:
        both = (ratios.get(scenario, {}), thawed.get(scenario, {}))
        if not both[1]:
            found[scenario] = both[0]
            continue
        for phase in {**both[0], **both[1]}:
            one, other = (ways.get(phase) for ways in both)
            if phase != "e2e" and (either := one or other):
                found.setdefault(scenario, {})[phase] = times(one, other) if one and other else either
    return found


def refuse(record: RunRecord, finding: Finding) -> str | None:
    return unmergeable(record)


def apply(engine: Engine) -> Engine:
    from ftprof.profiler.torch_engine import TorchEngine

    assert isinstance(engine, TorchEngine)
    return engine.with_model(merge(engine.model))


RULE = Rule(
    name="unmerged-adapter",
    title="Merge the LoRA adapter into the base weights",
    safety="rounding",
    tasks=ALL_TASKS,
    needs=("adapter",),
    detect=detect,
    probes=probes,
    predict=predict,
    refuse=refuse,
    apply=apply,
    replaces=("frozen-head",),  # a merged model is loaded without one
    steps="peft.PeftModel.from_pretrained(base, adapter).merge_and_unload(safe_merge=True).save_pretrained(merged)",
)
