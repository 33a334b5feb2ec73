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
- Embeddings tied to the head are adapter targets: they part, and the file grows.
- Undoing a merge is not bit-exact: keep the adapter's directory.

## Sources
- PEFT's LoRA guide (huggingface.co/docs/peft); huggingface/peft#957: 4.2 s against 2.8 s merged; vllm-project/vllm#3316: 780 against 400 ms.
- huggingface/peft#1388: loss after a bf16 merge; #2321 and #2972: quantised bases, tied weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ftprof.advisors.predict import ABLATION_ERROR, MODEL_ERROR, Ratios, lora_share, paired, typical_s, with_end_to_end
from ftprof.advisors.rule import ALL_TASKS, Evidence, Finding, Prediction, Rule
from ftprof.advisors.shapes import occurrences
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.record import AblationPair, RunRecord

if TYPE_CHECKING:
    from ftprof.profiler.engine import Engine

FIRES, SURE, MUST = 0.05, 0.02, 0.20  # shares: worth a merge, not noise, merge in any case
MOST, MOST_WRAPPER = 0.9, 0.2  # beyond these a share is a fault of the measurement
WRAPPER_DISPATCHES = 5  # measured: a disabled PEFT layer adds 4.7 us to its Linear where a tiny op takes 0.97 us


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


def _wrapper_s(record: RunRecord, pair: AblationPair) -> float:
    if pair.how == "unloaded" or record.machine is None or record.adapter is None:
        return 0.0
    forwards = occurrences(record, pair.scenario)["decode"] + 1 if pair.phase == "e2e" else 1
    return forwards * record.adapter.modules * WRAPPER_DISPATCHES * record.machine.dispatch_s


def predict(record: RunRecord, finding: Finding) -> Prediction:
    ratios: Ratios = {}
    for trace in record.modules or ():
        if left := [1.0 - min(share, MOST) for share in trace.lora_shares]:
            ratios.setdefault(trace.scenario, {})[trace.phase] = paired([1.0] * len(left), left, MODEL_ERROR)
    # "unloaded" is the merged model's own cost, so it comes last and wins.
    for pair in sorted(record.ablation or (), key=lambda pair: pair.how):
        off = [time - min(_wrapper_s(record, pair), MOST_WRAPPER * time) for time in pair.off_s]
        ratios.setdefault(pair.scenario, {})[pair.phase] = paired(pair.on_s, off, ABLATION_ERROR)
    basis = "ablation of the adapter" if record.ablation else "time attributed to the adapter's modules"
    return Prediction(ratios=with_end_to_end(record, ratios), basis=basis)


def refuse(record: RunRecord, finding: Finding) -> str | None:
    return "; ".join(record.adapter.blockers) or None if record.adapter else None


def merge(model: Any) -> Any:
    """The base with the adapter folded in; each layer is merged in fp32 and cast back once."""
    import warnings

    import torch
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers: list[Any] = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    for layer in layers:
        kept = getattr(getattr(layer.get_base_layer(), "weight", None), "dtype", None)
        if kept in (torch.bfloat16, torch.float16):
            layer.float().merge(safe_merge=True)
            layer.to(kept)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="All adapters are already merged")
        return model.merge_and_unload(safe_merge=True)


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
    predict=predict,
    refuse=refuse,
    apply=apply,
    steps="peft.PeftModel.from_pretrained(base, adapter).merge_and_unload(safe_merge=True).save_pretrained(merged)",
)
