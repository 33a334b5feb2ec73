"""What an attached adapter costs in all, and what its wrappers cost alone. Pure."""

from __future__ import annotations

from ftprof.advisors.predict import ABLATION_ERROR, MODEL_ERROR, Ratios, paired
from ftprof.advisors.shapes import occurrences
from ftprof.profiler.record import AblationPair, RunRecord

WRAPPER_DISPATCHES = 5  # measured: a disabled PEFT layer adds 4.7 us to its Linear where a tiny op takes 0.97 us
MOST, MOST_WRAPPER = 0.9, 0.2  # beyond these a share is a fault of the measurement
THAWED = "head:thawed"
"""The state of a loaded model whose head could take a gradient."""


def without_adapter(record: RunRecord) -> Ratios:
    """Speed-ups of a merged model over the one with its adapter, by scenario and phase: by ablation where there is one,
    else as attributed. Empty where no adapter is attached."""
    ratios: Ratios = {}
    for trace in record.modules or () if record.adapter else ():
        if left := [1.0 - min(share, MOST) for share in trace.lora_shares]:
            ratios.setdefault(trace.scenario, {})[trace.phase] = paired([1.0] * len(left), left, MODEL_ERROR)
    # "unloaded" is the merged model's own cost, so it comes last and wins.
    for pair in sorted(record.ablation or (), key=lambda pair: pair.how):
        off = [time - min(wrapper_s(record, pair), MOST_WRAPPER * time) for time in pair.off_s]
        ratios.setdefault(pair.scenario, {})[pair.phase] = paired(pair.on_s, off, ABLATION_ERROR)
    return ratios


def wrapper_s(record: RunRecord, pair: AblationPair) -> float:
    """Seconds that disabled adapter layers still cost in one occurrence of the pair's phase; 0 where they were gone."""
    if pair.how == "unloaded" or record.machine is None or record.adapter is None:
        return 0.0
    forwards = occurrences(record, pair.scenario)["decode"] + 1 if pair.phase == "e2e" else 1
    return forwards * record.adapter.modules * WRAPPER_DISPATCHES * record.machine.dispatch_s
