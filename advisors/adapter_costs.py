"""What an attached adapter costs beside its two products: wrappers, casts, and the bytes of scale and add. Pure."""

from __future__ import annotations

from ftprof.advisors.predict import ABLATION_ERROR, MODEL_ERROR, Ratios, paired
from ftprof.advisors.shapes import Step, occurrences
from ftprof.profiler.bounds import bandwidth_limit
from ftprof.profiler.record import AblationPair, AdapterFacts, ModelFacts, RunRecord

WRAPPER_DISPATCHES = 5  # measured: a disabled PEFT layer adds 4.7 us to its Linear where a tiny op takes 0.97 us
CASTS = 2  # a wrapped layer casts its input up and its result down
ARRAYS = 5  # read and written by scale (two) and add (three)
WIDTH = {"float32": 4, "bfloat16": 2, "float16": 2}
MOST, MOST_WRAPPER = 0.9, 0.2  # beyond these a share is a fault of the measurement


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


def casts_s(record: RunRecord, step: Step, modules: int) -> float:
    """Seconds in the adapter's casts: its part of the traced ones, else their dispatch alone."""
    for trace in record.ops or ():
        casts = [op for op in trace.ops if op.kind == "cast"]
        calls = sum(op.calls for op in casts)
        if (trace.scenario, trace.phase) == (step.scenario, step.phase) and calls:
            return sum(op.self_s for op in casts) * min(1.0, CASTS * modules / calls) * step.passes
    return CASTS * modules * step.passes * (record.machine.dispatch_s if record.machine else 0.0)


def moved_s(record: RunRecord, step: Step, model: ModelFacts, adapter: AdapterFacts) -> float:
    """Seconds that scale and add take longer because their arrays are wider than the base's."""
    machine, wide = record.machine, adapter.loaded_dtype
    elements = step.rows * step.query * model.hidden_size
    bandwidth = bandwidth_limit(machine, wide, elements * WIDTH[wide]) if machine and wide in WIDTH else None
    if bandwidth is None:
        return 0.0
    return adapter.modules * step.passes * ARRAYS * elements * (WIDTH[wide] - WIDTH[model.dtype]) / bandwidth
