"""Arithmetic of predictions: T' = T - old + new for what a fix touches, with an 80 % interval. Pure.

Method: Predictions (docs/method.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from ftprof.advisors.rule import PredictedRatio
from ftprof.advisors.shapes import Batches, main_phase, occurrences
from ftprof.profiler.diagnosis import Diagnosis, Share
from ftprof.profiler.record import ProbeCase, RunRecord
from ftprof.profiler.spread import median_error

Z80 = 1.2816  # two-sided 80 % of a normal
KERNEL_ERROR = 0.10  # single operators are predicted within about 10 % (LLMCompass, ISCA 2024: 10.4 to 10.9 %)
MODEL_ERROR = 0.04  # errors of operators cancel in part: 4 % for whole models (the same source: 4.1 %)
ABLATION_ERROR = 0.02  # two variants of the same process, toggled: what a ratio is good for on a shared machine
LONE_ERROR = 0.30  # too few samples to tell a burst from the truth
LEAST_LEFT = 0.05  # a fix that would save more than 95 % of a phase is more than a probe can vouch for

Ratios = dict[str, dict[str, PredictedRatio]]


def centre(samples: Sequence[float]) -> tuple[float, float]:
    """Median and its standard error, by the median absolute deviation; one or two samples may be off by 30 %."""
    middle = median(samples)
    if len(samples) < 3:
        return middle, abs(middle) * LONE_ERROR
    return middle, median_error(samples)


def from_log(log: float, sd: float) -> PredictedRatio:
    """Speed-up exp(log), 80 % interval from the standard deviation of the log."""
    return PredictedRatio(speedup=math.exp(log), low=math.exp(log - Z80 * sd), high=math.exp(log + Z80 * sd))


def from_saving(total_s: float, saved_s: float, sd_s: float) -> PredictedRatio:
    """Speed-up of a phase of `total_s` seconds when `saved_s` +- `sd_s` go (negative: come)."""

    def ratio(saved: float) -> float:
        return total_s / max(total_s - saved, LEAST_LEFT * total_s)

    return PredictedRatio(speedup=ratio(saved_s), low=ratio(saved_s - Z80 * sd_s), high=ratio(saved_s + Z80 * sd_s))


def paired(old: Sequence[float], new: Sequence[float], error: float) -> PredictedRatio:
    """Speed-up from samples taken in turns; `error` is the standard deviation of what the pairs cannot show."""
    log, sd = centre([math.log(a / b) for a, b in zip(old, new, strict=False)])
    return from_log(log, math.hypot(sd if len(old) >= 3 else LONE_ERROR, error))


def times(first: PredictedRatio, second: PredictedRatio) -> PredictedRatio:
    """Both speed-ups one after the other; their errors are independent."""
    sds = [math.log(ratio.high / ratio.low) / (2 * Z80) for ratio in (first, second)]
    return from_log(math.log(first.speedup * second.speedup), math.hypot(*sds))


def samples_of(record: RunRecord, case: ProbeCase) -> tuple[float, ...]:
    """Seconds that a probe took; empty where it was not run."""
    for probe in record.probes or ():
        if probe.case == case:
            return probe.samples_s
    return ()


def typical_s(record: RunRecord, scenario: str, phase: str) -> float | None:
    """Median untraced seconds of a phase; None where it was not timed."""
    samples = record.times(scenario, phase)
    return median(samples) if samples else None


def traced_share(record: RunRecord, scenario: str, phase: str, kind: str) -> float | None:
    """Share of a phase's untraced time in ops of one kind; None where the phase was not traced."""
    for trace in record.ops or ():
        if (trace.scenario, trace.phase) == (scenario, phase) and trace.untraced_s > 0:
            return min(1.0, sum(op.self_s for op in trace.ops if op.kind == kind) / trace.untraced_s)
    return None


def fractions(record: RunRecord, scenario: str) -> dict[str, float]:
    """Share of each phase in one end-to-end unit; empty where end to end was not timed. They sum to at most 1."""
    whole = typical_s(record, scenario, "e2e")
    if not whole:
        return {}
    shares = {
        phase: count * (typical_s(record, scenario, phase) or 0.0) / whole
        for phase, count in occurrences(record, scenario).items()
    }
    return {phase: share / max(1.0, sum(shares.values())) for phase, share in shares.items() if share > 0}


def with_end_to_end(record: RunRecord, ratios: Mapping[str, Mapping[str, PredictedRatio]]) -> Ratios:
    """Adds the end-to-end speed-up that the phases' speed-ups make together; phases without one stay as they are.

    Low goes with low and high with high: the phases share one cause, so their errors do not cancel.
    """
    out: Ratios = {scenario: dict(phases) for scenario, phases in ratios.items() if phases}
    for scenario, phases in out.items():
        shares = fractions(record, scenario)
        known = {phase: share for phase, share in shares.items() if phase in phases}
        if known and "e2e" not in phases:
            phases["e2e"] = PredictedRatio(
                speedup=_amdahl([(share, phases[phase].speedup) for phase, share in known.items()]),
                low=_amdahl([(share, phases[phase].low) for phase, share in known.items()]),
                high=_amdahl([(share, phases[phase].high) for phase, share in known.items()]),
            )
    return out


def interpolate(points: Sequence[tuple[float, float]], tokens: float) -> float:
    """Seconds of a batch of `tokens`, straight between probed (tokens, seconds); flat below the first, where the
    weights' bytes set the time, and proportional beyond the last."""
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 <= tokens <= x1 and x1 > x0:
            return y0 + (y1 - y0) * (tokens - x0) / (x1 - x0)
    return points[0][1] if tokens <= points[0][0] else points[-1][1] * tokens / points[-1][0]


def by_tokens(record: RunRecord, cases: Sequence[ProbeCase], now: Batches, then: Batches) -> PredictedRatio | None:
    """Speed-up from one set of batches to another, by probes of whole passes at (rows, length, ...); None without."""
    samples = [samples_of(record, case) for case in cases]
    if not all(samples):
        return None
    centres = [centre(values) for values in samples]
    points = [(case.shape[0] * case.shape[1], seconds) for case, (seconds, _) in zip(cases, centres, strict=True)]
    old, new = (sum(interpolate(points, rows * length) for rows, length in batches) for batches in (now, then))
    noise = max(sd / seconds for seconds, sd in centres)
    return from_log(math.log(old / new), math.hypot(noise, MODEL_ERROR))


def _amdahl(parts: Sequence[tuple[float, float]]) -> float:
    return 1.0 / (1.0 - sum(share * (1.0 - 1.0 / speedup) for share, speedup in parts))


def lora_share(diagnosis: Diagnosis) -> Share | None:
    """The adapter's share of the objective's time: by ablation where there is one, else as attributed."""
    lora = diagnosis.lora
    return (lora.ablation or lora.disabled or lora.attributed) if lora else None


def stake(record: RunRecord, shares: Mapping[str, float]) -> tuple[str, str, float]:
    """(scenario, phase, seconds): the most that can be saved where people feel it, given shares by phase (0 to 1)."""
    scenario, phase = main_phase(record)
    whole = typical_s(record, scenario, phase) or 0.0
    if phase in shares or phase != "e2e":
        return scenario, phase, whole * min(1.0, shares.get(phase, 0.0))
    inside = fractions(record, scenario)
    return scenario, phase, whole * min(1.0, sum(share * shares.get(name, 0.0) for name, share in inside.items()))
