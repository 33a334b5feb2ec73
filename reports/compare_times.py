"""Times of two audits, taken at different moments: a verdict only where noise cannot explain the change.

Runs at different moments are not paired, so a machine that changed its speed in between looks like a changed model.
Everything that the audits know about that is therefore added to the interval: how far the model strayed from itself
within each run (the A/A control), how far the machine's peak moved within each run, and between the runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from statistics import NormalDist

import msgspec

from ftprof.advisors.audit import Audit, PhaseEntry
from ftprof.profiler.diagnosis import Interval
from ftprof.profiler.paired_estimate import MIN_PAIRS
from ftprof.profiler.record import Machine
from ftprof.reports import units, wording
from ftprof.reports.compare_document import Difference, TimeChange, TimeVerdict

MIN_EFFECT = 0.05
"""Change that counts as none. Inside a run, where samples alternate, it is 3 %; two runs cannot tell that little apart."""
GATES = ("e2e", "prefill", "decode", "forward")
"""Phases that can fail a build: at most three a scenario, so that few alarms are tried for. Cold load has one sample."""
Z95, Z80 = NormalDist().inv_cdf(0.975), NormalDist().inv_cdf(0.80)
METHOD = (
    "Change is the ratio of the medians, head over base. Its interval adds three things: the 95% intervals of both "
    "medians (in quadrature, widened for the number of times that are judged), the larger A/A control of the two runs, "
    "and the larger of the machine's drift within the runs and the change of its measured limits between them. "
    "A regression is proven where the interval lies above no change and the change is at least {least}."
)


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """Log half-widths of one phase's change: `random` of the medians, `control` and `drift` as allowances."""

    random: float
    control: float
    drift: float

    def half_width(self, judged: int) -> float:
        """The whole, with the random part at 95 % for all of `judged` times together (Bonferroni)."""
        return self.random * NormalDist().inv_cdf(1 - 0.025 / max(judged, 1)) / Z95 + self.control + self.drift


def time_changes(
    base: Audit, head: Audit, found: Sequence[Difference], min_effect: float = MIN_EFFECT
) -> tuple[TimeChange, ...]:
    """One entry for each phase that either audit timed, in the order of `head`."""
    keys = dict.fromkeys((entry.scenario, entry.name) for entry in (*head.phases, *base.phases))
    rows = [_row(base, head, key, found) for key in keys]
    judged = sum(row.gates and row.verdict != "not compared" for row in rows)
    shift = machine_shift(base.machine, head.machine)
    rows = [_judged(row, base, head, shift, judged, min_effect) for row in rows]
    decisive = _decisive(head, rows)
    return tuple(msgspec.structs.replace(row, decisive=(row.scenario, row.phase) in decisive) for row in rows)


def entry_of(audit: Audit, scenario: str, phase: str) -> PhaseEntry | None:
    """What an audit holds about one phase of the model as loaded."""
    return next((one for one in audit.phases if (one.scenario, one.name) == (scenario, phase)), None)


def _row(base: Audit, head: Audit, key: tuple[str, str], found: Sequence[Difference]) -> TimeChange:
    a, b = entry_of(base, *key), entry_of(head, *key)
    why = ""
    if a is None or b is None:
        why = f"not timed in {'the base' if a is None else 'the head'}"
    stopping = [one for one in found if one.stops and fnmatchcase("/".join(key), one.stops)]
    if stopping and not why:
        why = f"{stopping[0].field}: {stopping[0].base} against {stopping[0].head}"
    return TimeChange(
        scenario=key[0],
        phase=key[1],
        label=wording.place(head, *key),
        base=a.time_s if a else None,
        head=b.time_s if b else None,
        verdict="not compared" if why else "inconclusive",
        why=why,
        gates=key[1] in GATES,
    )


def _judged(row: TimeChange, base: Audit, head: Audit, shift: float, judged: int, min_effect: float) -> TimeChange:
    a, b = row.base, row.head
    if row.verdict == "not compared" or a is None or b is None:
        return row
    if min(a.low, b.low) <= 0:
        return msgspec.structs.replace(row, why="a time of zero has no ratio")
    effect = math.log(b.median / a.median)
    plain = msgspec.structs.replace(row, change=math.expm1(effect))
    noise = _noise(base, head, a, b, row, shift)
    if isinstance(noise, str):
        return msgspec.structs.replace(plain, why=noise)
    half, least = noise.half_width(judged), math.log1p(min_effect)
    verdict = _verdict(effect, half, least)
    detectable = math.expm1(max(half, least) + Z80 * noise.random / Z95)
    return msgspec.structs.replace(
        plain,
        low=math.expm1(effect - half),
        high=math.expm1(effect + half),
        detectable=detectable,
        verdict=verdict,
        why=_why(verdict, noise, detectable),
    )


def _verdict(effect: float, half: float, least: float) -> TimeVerdict:
    if effect - half > 0 and effect >= least:
        return "slower"
    if effect + half < 0 and effect <= -least:
        return "faster"
    return "same" if abs(effect) + half <= least else "inconclusive"


def _why(verdict: TimeVerdict, noise: Noise, detectable: float) -> str:
    if verdict != "inconclusive":
        return ""
    parts = {"spread": noise.random, "A/A control": noise.control, "drift of the machine": noise.drift}
    most = max(parts, key=lambda name: parts[name])
    return f"a slow-down would be proven from {units.percent(detectable)} on; most of that is {most}"


def _noise(base: Audit, head: Audit, a: Interval, b: Interval, row: TimeChange, shift: float) -> Noise | str:
    """The noise of one phase, or the reason why it is not known."""
    if min(a.n, b.n) < MIN_PAIRS:
        return f"{min(a.n, b.n)} samples have no 95% interval; {MIN_PAIRS} are the fewest"
    controls = [stray(audit, row.scenario, row.phase) for audit in (base, head)]
    if None in controls:
        which = "the base" if controls[0] is None else "the head"
        return f"{which} has no A/A control of {MIN_PAIRS} pairs for this phase"
    return Noise(
        random=math.hypot(_half(a), _half(b)),
        control=max(value for value in controls if value is not None),
        drift=max(shift, _drift(base), _drift(head)),
    )


def _half(time: Interval) -> float:
    return max(math.log(time.high / time.median), math.log(time.median / time.low))


def stray(audit: Audit, scenario: str, phase: str) -> float | None:
    """How far, in log, the model may have strayed from itself in this audit; None where it cannot be told."""
    for control in audit.trust.controls if audit.trust else ():
        ratio = control.ratio
        if (control.scenario, control.phase) == (scenario, phase) and ratio.pairs >= MIN_PAIRS and ratio.low > 0:
            return max(abs(math.log(ratio.low)), abs(math.log(ratio.high)))
    return None


def _drift(audit: Audit) -> float:
    drift = audit.trust.drift if audit.trust else None
    return abs(math.log1p(drift)) if drift is not None and drift > -1 else 0.0


def machine_shift(base: Machine | None, head: Machine | None) -> float:
    """Largest change, in log, of the limits that both runs measured; 0.0 where they have none in common."""
    if base is None or head is None:
        return 0.0
    rates = [(base.flops_per_s[dtype], head.flops_per_s.get(dtype)) for dtype in base.flops_per_s]
    read = {(point.dtype, point.working_set_bytes): point.bytes_per_s for point in head.bandwidth}
    large = max((point.working_set_bytes for point in base.bandwidth), default=0)
    # Caches are shared with strangers and their figures jump; the largest working set is what weights are read with.
    rates += [
        (point.bytes_per_s, read.get((point.dtype, point.working_set_bytes)))
        for point in base.bandwidth
        if point.working_set_bytes == large
    ]
    return max((abs(math.log(b / a)) for a, b in rates if a > 0 and b is not None and b > 0), default=0.0)


def _decisive(head: Audit, rows: Sequence[TimeChange]) -> set[tuple[str, str]]:
    """The objective; its parts where the whole cannot be compared, as with another number of new tokens."""
    objective = (head.settings.objective_scenario, head.settings.objective_phase)
    states = {(row.scenario, row.phase): row.verdict for row in rows}
    if objective[1] == "e2e" and states.get(objective) == "not compared":
        parts = {(objective[0], phase) for phase in ("prefill", "decode", "forward")}
        if any(states.get(part, "not compared") != "not compared" for part in parts):
            return parts
    return {objective}
