"""What the adapter costs, by two independent ways, and whether they agree. Pure.

Method: Verdicts (docs/method.md).
"""

from __future__ import annotations

from collections.abc import Callable
from math import hypot
from statistics import median

import msgspec

from ftprof.profiler import paired
from ftprof.profiler.diagnosis import Lora, LoraPhase, LoraTarget, Share
from ftprof.profiler.record import AblationPair, ModuleTrace, RunRecord
from ftprof.profiler.wording import PHASE_NAMES, percent

BY_MODULES = "timed modules: LoRA layer minus its base layer"
LESS_DISPLACED = ", less what falls to the layers after it when it is off"
BY_REMOVAL = {"unloaded": "adapter merged and unloaded", "disabled": "adapter disabled, still wrapped"}
FROZEN = " A merged model also has no frozen head, whose matrix is copied here for each prompt."
PHASES = ("prefill", "decode", "forward")

ShareOf = Callable[[RunRecord, str, str], Share | None]


def lora_summary(record: RunRecord, scenario: str = "single", phase: str = "e2e") -> Lora | None:
    """The adapter's share of the objective and of every phase that was looked at; None where neither way saw one.

    The ablation that counts is "unloaded", what a user gains by merging; "disabled" stands in where it is missing
    or where merging takes away more than the adapter.
    """
    phases = tuple(
        LoraPhase(
            scenario=name,
            phase=part,
            attributed=attributed(record, name, part),
            ablation=ablation(record, name, part),
        )
        for name in ("single", "batch")
        for part in (*PHASES, "e2e")
    )
    seen = tuple(found for found in phases if found.attributed or found.ablation)
    if not seen:
        return None
    by_modules, by_removal = attributed(record, scenario, phase), ablation(record, scenario, phase)
    alike = paired.agree(by_modules, by_removal) if by_modules and by_removal else None
    headline = by_removal or by_modules
    disabled, left = _pairs(record, scenario, phase, "disabled"), wrapper(record, scenario, phase)
    if alike is not None and by_removal == disabled:
        alike = _alike_disabled(by_modules, disabled, left)
    return Lora(
        scenario=scenario,
        phase=phase,
        attributed=by_modules,
        ablation=by_removal,
        agree=alike,
        disabled=disabled,
        wrapper=left,
        advice=paired.lora_advice(headline) if headline else "unknown",
        phases=seen,
        targets=targets(record, scenario),
        explanation=_explanation(phase, by_modules, by_removal, disabled, displaced(record, scenario, phase), alike)
        + (FROZEN if copies_head(record) else ""),
    )


def copies_head(record: RunRecord) -> bool:
    """Whether PyTorch copies the head's matrix for each prompt: frozen, in 16 bit, on a processor. Attaching an adapter
    freezes the base, and a merged model is loaded without that."""
    model, workload = record.model, record.workload
    if model is None or workload is None or workload.device != "cpu":
        return False
    return bool(model.frozen_head) and model.dtype in ("bfloat16", "float16")


def attributed(record: RunRecord, scenario: str, phase: str) -> Share | None:
    """LoRA's share by timed modules; for e2e the phases' shares weighted by their time."""
    if phase == "e2e":
        return _end_to_end(record, scenario, attributed)
    if (trace := _trace(record, scenario, phase)) is None or not trace.lora_shares:
        return None
    how = BY_MODULES + (LESS_DISPLACED if trace.displaced_shares else "")
    return paired.share_from_repeats(trace.lora_shares, how)


def displaced(record: RunRecord, scenario: str, phase: str) -> Share | None:
    """What LoRA's layers take that falls to the layers after them without it; not part of `attributed`."""
    if phase == "e2e":
        return _end_to_end(record, scenario, displaced)
    if (trace := _trace(record, scenario, phase)) is None or not trace.displaced_shares:
        return None
    return paired.share_from_repeats(trace.displaced_shares, BY_MODULES)


def wrapper(record: RunRecord, scenario: str, phase: str) -> Share | None:
    """What LoRA's layers still take with the adapter off: part of `attributed`, but not of a "disabled" ablation."""
    if phase == "e2e":
        return _end_to_end(record, scenario, wrapper)
    if (trace := _trace(record, scenario, phase)) is None or not trace.wrapper_shares:
        return None
    return paired.share_from_repeats(trace.wrapper_shares, BY_MODULES)


def _alike_disabled(by_modules: Share | None, disabled: Share | None, left: Share | None) -> bool | None:
    """Whether both ways agree on the adapter's mathematics alone; None where the wrappers' part was not seen."""
    if by_modules is None or disabled is None or left is None:
        return None
    low, high = by_modules.low - left.share, by_modules.high - left.share
    return paired.agree(
        msgspec.structs.replace(by_modules, share=by_modules.share - left.share, low=low, high=high), disabled
    )


def _trace(record: RunRecord, scenario: str, phase: str) -> ModuleTrace | None:
    traces = (trace for trace in record.modules or () if (trace.scenario, trace.phase) == (scenario, phase))
    return next(traces, None)


def ablation(record: RunRecord, scenario: str, phase: str) -> Share | None:
    """LoRA's share by taking the adapter away; for e2e from its own pairs, else from the phases'.

    A merged model differs by more than the adapter where that froze the head; there it stands in for "disabled".
    """
    ways = ("unloaded", "disabled")
    for how in reversed(ways) if copies_head(record) else ways:
        if found := _pairs(record, scenario, phase, how):
            return found
    return _end_to_end(record, scenario, ablation) if phase == "e2e" else None


def _pairs(record: RunRecord, scenario: str, phase: str, how: str) -> Share | None:
    for pair in record.ablation or ():
        if (pair.scenario, pair.phase, pair.how) == (scenario, phase, how) and _usable(pair):
            return paired.share_from_pairs(pair.on_s, pair.off_s, BY_REMOVAL[how])
    return None


def _usable(pair: AblationPair) -> bool:
    return bool(pair.on_s) and len(pair.on_s) == len(pair.off_s)


def _end_to_end(record: RunRecord, scenario: str, share_of: ShareOf) -> Share | None:
    """Shares of the parts weighted by what each part takes of the whole; all model parts that were timed must have one."""
    weights = time_weights(record, scenario)
    parts = [(weight, share_of(record, scenario, phase)) for phase, weight in weights.items()]
    known = [(weight, share) for weight, share in parts if share is not None]
    if not known or len(known) < len(parts):
        return None
    point = sum(weight * share.share for weight, share in known)
    # Errors of independent parts add in quadrature.
    below = hypot(*(weight * (share.share - share.low) for weight, share in known))
    above = hypot(*(weight * (share.high - share.share) for weight, share in known))
    return Share(
        share=point,
        low=point - below,
        high=point + above,
        n=min(share.n for _, share in known),
        how=known[0][1].how + ", phases weighted by their time",
    )


def time_weights(record: RunRecord, scenario: str) -> dict[str, float]:
    """Each model phase's part of the end-to-end time; empty where that was not timed."""
    whole = record.times(scenario, "e2e")
    if not whole:
        return {}
    steps = max((record.workload.tokens(scenario) if record.workload else 0) - 1, 0)
    often = {"prefill": 1, "decode": steps, "forward": 1}
    return {
        phase: often[phase] * median(times) / median(whole)
        for phase in PHASES
        if (times := record.times(scenario, phase)) and often[phase]
    }


def targets(record: RunRecord, scenario: str) -> tuple[LoraTarget, ...]:
    """Seconds per occurrence by kind of target, for each phase that was looked at."""
    return tuple(
        LoraTarget(
            phase=trace.phase,
            target=kind.target,
            base_s=kind.base_s,
            a_s=kind.a_s,
            b_s=kind.b_s,
            rest_s=kind.rest_s,
        )
        for trace in record.modules or ()
        if trace.scenario == scenario
        for kind in trace.lora_kinds
    )


def _explanation(
    phase: str,
    by_modules: Share | None,
    by_removal: Share | None,
    disabled: Share | None,
    moved: Share | None,
    alike: bool | None,
) -> str:
    """What the two ways saw, and where a difference comes from."""
    said = [f"{PHASE_NAMES.get(phase, phase)}:"]
    if by_removal:
        said.append(f"without the adapter {_spell(by_removal)} of the time is gone ({by_removal.how});")
    if by_modules:
        said.append(f"its layers account for {_spell(by_modules)} ({by_modules.how}).")
    if by_modules and moved and moved.low > 0:
        said.append(
            f"Another {percent(moved.share)} that they take falls to the layers after them without it, since whoever"
            " follows a large matrix refills the caches."
        )
    if alike is not None:
        said.append("The two agree." if alike else "The two do not agree; the first is the one to rely on.")
    if disabled and by_removal and by_removal.how == BY_REMOVAL["unloaded"]:
        wrapper = max(0.0, by_removal.share - disabled.share)
        said.append(f"Of it {percent(disabled.share)} is the adapter's mathematics, {percent(wrapper)} PEFT's wrapper.")
    return " ".join(said)


def _spell(share: Share) -> str:
    return f"{percent(share.share)} ({100 * share.low:.1f} to {100 * share.high:.1f})"
