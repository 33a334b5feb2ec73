"""What the rules that move a model to another runtime share: probes at two depths, the prediction, and refusals. Pure.

Method: Predictions (docs/method.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ftprof.advisors.adapter_costs import without_adapter
from ftprof.advisors.merging import unmergeable
from ftprof.advisors.predict import (
    MODEL_ERROR,
    Ratios,
    centre,
    from_log,
    samples_of,
    times,
    typical_s,
    with_end_to_end,
)
from ftprof.advisors.rule import Evidence, Finding, PredictedRatio, Prediction
from ftprof.advisors.shapes import Step, main_phase, steps
from ftprof.profiler.built import Recipe
from ftprof.profiler.record import ModelFacts, ProbeCase, RunRecord
from ftprof.profiler.workload import Scalar

RULE = "depth"
"""Cases are shared by all rules, so that each place is timed once."""
SHALLOW, DEEP = 2, 6
DEEP_BYTES = 192 << 20
"""The deep copy of a small model takes more layers, up to this size: what a layer costs is multiplied by all that were left
out, and so is its error, which matters most where passes are short."""
WHOLE_BYTES = 2 << 30
"""A model on PyTorch of at most this size is timed whole: a few layers fit a cache that all of them do not, and then run
faster than their share."""
PRECISIONS = {"float32": "fp32"}
REPLACED = (
    *("eager-runtime", "unquantised-weights", "int4-weights"),
    *("fp32-weights", "fp16-on-cpu", "eager-attention", "fp32-adapter", "disabled-kv-cache", "frozen-head"),
)
"""What a conversion takes the place of: other runtimes, and ways of running the model on PyTorch."""
VNNI = ("avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm")


def runtime_of(task: str) -> str:
    """The runtime for a task: decoders need a key-value cache of their own, which GenAI has."""
    return "genai" if task == "causal-lm" else "ort"


def found(record: RunRecord, summary: str, evidence: tuple[Evidence, ...] = ()) -> Finding:
    """A finding about the whole model: every phase is at stake."""
    scenario, phase = main_phase(record)
    seconds = typical_s(record, scenario, phase) or 0.0
    return Finding(summary=summary, scenario=scenario, phase=phase, at_stake_s=seconds, evidence=evidence)


def depths(model: ModelFacts) -> tuple[int, int] | None:
    """The two depths that are built; None for a model of one layer."""
    if model.layers < 2:
        return None
    if model.layers < DEEP:
        return 1, model.layers
    return SHALLOW, min(model.layers, max(DEEP, DEEP_BYTES * model.layers // (4 * model.parameters)))


def label(recipe: Recipe) -> str:
    """The variant of a probe case; recipes that differ in speed by more than their precision have their own."""
    static = "-static" if recipe.options.get("quantisation") == "static" else ""
    return f"{recipe.runtime}:{recipe.precision}{static}"


def current(model: ModelFacts) -> str:
    """The variant that stands for the model as it runs now, with the settings that a conversion takes away."""
    if model.engine != "torch":
        return f"{model.engine}:{PRECISIONS.get(model.dtype, model.dtype)}"
    eager = "+eager" if model.attention == "eager" else ""
    uncached = "+no-cache" if model.use_cache is False and model.use_cache_source != "config" else ""
    frozen = "+frozen" if model.frozen_head and model.dtype != "float32" else ""
    return f"torch:{model.dtype}{eager}{uncached}{frozen}"


def _cases(record: RunRecord, step: Step, variant: str) -> tuple[ProbeCase, ...]:
    """The model whole, or at two depths; none for a model that has too few layers for two."""
    model = record.model
    chosen: tuple[int, ...] | None = depths(model) if model else None
    if model is None or chosen is None:
        return ()
    if variant.startswith("torch:") and 4 * model.parameters <= WHOLE_BYTES:
        chosen = (model.layers,)
    decode = step.phase == "decode"
    return tuple(
        ProbeCase(rule=RULE, kind="depth", shape=(layers, step.rows, step.prompt, int(decode)), variant=variant)
        for layers in chosen
    )


def probes(record: RunRecord, recipe: Recipe) -> tuple[ProbeCase, ...]:
    """The model as it is and on the other runtime, for every step of the workload."""
    assert record.model is not None
    return tuple(
        case
        for step in steps(record)
        for variant in (current(record.model), label(recipe))
        for case in _cases(record, step, variant)
    )


def _samples(record: RunRecord, step: Step, variant: str) -> list[float]:
    """Seconds of one pass through the whole model, round by round, straight through two depths where it was not timed
    whole."""
    cases = _cases(record, step, variant)
    assert record.model is not None
    if len(cases) < 2:
        return [seconds for case in cases for seconds in samples_of(record, case)]
    low, high = (samples_of(record, case) for case in cases)
    part = (record.model.layers - cases[0].shape[0]) / (cases[1].shape[0] - cases[0].shape[0])
    whole = [a + part * (b - a) for a, b in zip(low, high, strict=False)]
    # A burst on the shallow copy alone can turn the slope round; such a round says nothing.
    return whole if all(seconds > 0 for seconds in whole) else [max(a, b) for a, b in zip(low, high, strict=False)]


def predict(record: RunRecord, recipe: Recipe) -> Prediction:
    """The ratio of the two runtimes at full depth, on top of what the adapter costs, since a conversion merges it."""
    assert record.model is not None
    merged = without_adapter(record)
    ratios: Ratios = {}
    for step in steps(record):
        old = _samples(record, step, current(record.model))
        new = _samples(record, step, label(recipe))
        if old and new:
            ratio = _paired(old, new)
            first = merged.get(step.scenario, {}).get(step.phase)
            ratios.setdefault(step.scenario, {})[step.phase] = times(ratio, first) if first else ratio
    basis = f"copies of {' and '.join(map(str, depths(record.model) or ()))} layers, in turns with the model as it is"
    return Prediction(ratios=with_end_to_end(record, ratios), basis=basis)


def _paired(old: list[float], new: list[float]) -> PredictedRatio:
    log, sd = centre([math.log(a / b) for a, b in zip(old, new, strict=False)])
    return from_log(log, math.hypot(sd, MODEL_ERROR))


def refuse(record: RunRecord, recipe: Recipe) -> str | None:
    """Why the model cannot go to that runtime here, or None."""
    workload, model = record.workload, record.model
    if stays := unmergeable(record):
        return f"a graph holds no adapter: {stays}"
    if workload is not None and workload.built:
        return "it is a graph already: quantise or convert the PyTorch model that it was made from"
    if workload is not None and workload.device != "cpu":
        if recipe.precision == "int8":
            return "on a GPU ONNX Runtime has no int8 kernels, and ftprof does not drive torchao: 8 bit is for the CPU"
        return "ftprof builds graphs for the CPU"
    if workload is not None and workload.trust_remote_code:
        return "the model's own code cannot be exported"
    if recipe.runtime == "ort" and recipe.precision == "int8" and not _has_int8(record):
        return "this processor has no 8-bit dot products (VNNI or AMX): int8 gains nothing without them"
    failed = [probe for probe in record.probes or () if probe.error and probe.case.variant == label(recipe)]
    if failed:
        return failed[0].error
    return None if model is not None and depths(model) else "the model has too few layers to be probed"


def _has_int8(record: RunRecord) -> bool:
    return record.machine is None or not record.machine.isa or any(flag in record.machine.isa for flag in VNNI)


class ByRecipe(NamedTuple):
    """The parts of a rule that its recipe alone decides."""

    probes: Callable[[RunRecord, Finding], tuple[ProbeCase, ...]]
    predict: Callable[[RunRecord, Finding], Prediction]
    refuse: Callable[[RunRecord, Finding], str | None]


def by_recipe(convert: Callable[[Mapping[str, Scalar]], Recipe]) -> ByRecipe:
    """Probes, prediction and refusal of a rule that converts, for the alternative that the finding asks about."""
    return ByRecipe(
        probes=lambda record, finding: probes(record, convert(finding.options)),
        predict=lambda record, finding: predict(record, convert(finding.options)),
        refuse=lambda record, finding: refuse(record, convert(finding.options)),
    )
