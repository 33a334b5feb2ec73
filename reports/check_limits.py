"""Limits on figures with intervals: met where the whole interval is inside, broken where it is outside, else uncertain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ftprof.advisors.audit import Audit
from ftprof.profiler.diagnosis import Share
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.paired_estimate import MIN_PAIRS
from ftprof.profiler.workload import generates
from ftprof.reports import units
from ftprof.reports.check_budget import Budget, Latency, Percentiles
from ftprof.reports.check_document import Judged, Outcome, Subject, missing
from ftprof.reports.check_units import Quantity
from ftprof.reports.compare_document import Compared
from ftprof.reports.compare_times import entry_of, stray
from ftprof.reports.summary import lora_of

PHASES = {"e2e": "e2e", "ttft": "prefill", "tpot": "decode", "forward": "forward"}
SAMPLES_NEEDED = {"p95": 130, "p99": 662}
"""Fewest samples from which a percentile can be bounded at 99 %; see profiler.order_statistics.percentile."""
MERGE = "unmerged-adapter"


def limits(subject: Subject, budget: Budget, compared: Compared | None) -> Iterator[Judged]:
    """All limits of the budget that have a figure with an interval."""
    for scenario in ("single", "batch"):
        latency: Latency | None = getattr(budget.latency, scenario) if budget.latency else None
        yield from _latency(subject, scenario, latency)
        rate: Quantity | None = getattr(budget.throughput, scenario) if budget.throughput else None
        if rate is not None:
            yield _throughput(subject, scenario, rate)
    if budget.memory is not None and budget.memory.peak is not None:
        yield _peak(subject, budget.memory.peak)
    if budget.lora is not None and budget.lora.share is not None:
        yield _lora(subject, budget.lora.share)
    yield from _changes(budget, compared)


def _latency(subject: Subject, scenario: str, latency: Latency | None) -> Iterator[Judged]:
    for key, phase in PHASES.items():
        wanted: Percentiles | None = getattr(latency, key) if latency else None
        for percentile in ("p50", "p95", "p99"):
            limit: Quantity | None = getattr(wanted, percentile) if wanted else None
            if limit is not None:
                name = f"latency.{scenario}.{key}.{percentile}"
                judge = _median if percentile == "p50" else _tail
                yield judge(subject, scenario, phase, name, limit)


def _median(subject: Subject, scenario: str, phase: str, name: str, limit: Quantity) -> Judged:
    time = subject.time(scenario, phase)
    text = f"at most {limit.text}"
    if time is None:
        return missing(name, text, f"{phase} of {scenario} was not timed")
    outcome, why = _held(time.low, time.high, limit.value, time.n)
    return Judged(name=name, outcome=outcome, limit=text, found=units.interval(time), why=why)


def _held(low: float, high: float, limit: float, n: int) -> tuple[Outcome, str]:
    """How an interval stands to an upper limit."""
    if n < MIN_PAIRS:
        return "uncertain", f"{n} samples have no 95% interval; {MIN_PAIRS} are the fewest"
    if high <= limit:
        return "met", ""
    return ("broken", "the whole interval is beyond it") if low > limit else ("uncertain", "the interval crosses it")


def _tail(subject: Subject, scenario: str, phase: str, name: str, limit: Quantity) -> Judged:
    """P95 or P99: met where its upper bound is inside, broken where the plain percentile is outside."""
    key, text = name.rpartition(".")[2], f"at most {limit.text}"
    share, needed = float(key[1:]) / 100, SAMPLES_NEEDED[key]
    entry = None if subject.changed else entry_of(subject.audit, scenario, phase)
    time = subject.time(scenario, phase)
    if time is None:
        return missing(name, text, f"{phase} of {scenario} was not timed")
    if time.n < needed:
        return missing(name, text, f"{time.n} samples; {key.upper()} takes {needed}")
    if entry is None or not entry.samples:
        return missing(name, text, "the audit holds no samples of it, only their median")
    bound, plain = _percentile(share, entry.samples)
    outcome: Outcome = "met" if bound <= limit.value else "broken" if plain > limit.value else "uncertain"
    found = f"{units.duration(plain)}, at most {units.duration(bound)}"
    why = {"broken": "it is beyond the limit", "uncertain": "its upper bound is beyond the limit"}.get(outcome, "")
    return Judged(name=name, outcome=outcome, limit=text, found=found, why=why)


def _percentile(share: float, samples: Sequence[float]) -> tuple[float, float]:
    """Upper bound of a percentile, and the percentile of the samples themselves."""
    from ftprof.profiler.order_statistics import percentile

    bound = percentile(share, samples)
    assert bound is not None, "there are enough samples"
    return bound, sorted(samples)[math.ceil(share * len(samples)) - 1]


def _throughput(subject: Subject, scenario: str, limit: Quantity) -> Judged:
    name, text = f"throughput.{scenario}", f"at least {limit.text}"
    rate = _rate(subject.audit, scenario, limit)
    time = subject.time(scenario, "e2e")
    if rate is None or time is None:
        return missing(name, text, f"end to end of {scenario} was not timed")
    # A rate is work over time, so its interval is the time's, turned round.
    outcome, why = _held(time.low, time.high, rate / limit.value, time.n)
    low, middle, high = (units.significant(rate / seconds) for seconds in (time.high, time.median, time.low))
    return Judged(name=name, outcome=outcome, limit=text, found=f"{middle} {limit.unit} ({low} to {high})", why=why)


def _rate(audit: Audit, scenario: str, limit: Quantity) -> float | None:
    """What one sample of a scenario produces: new tokens, or rows of an encoder."""
    writes = generates(audit.workload.task)
    wanted = "tok/s" if writes else "rows/s"
    if limit.unit != wanted:
        raise FtprofError(
            f"throughput.{scenario} = {limit.text!r}: the task {audit.workload.task} is counted in {wanted}",
            f"write it in {wanted}",
            Exit.USAGE,
        )
    units_of = [one.units for one in audit.workload.scenarios if one.name == scenario]
    if not units_of or not units_of[0]:
        return None
    rows = sum(map(len, units_of[0])) / len(units_of[0])
    return rows * audit.workload.tokens(scenario) if writes else rows


def _peak(subject: Subject, limit: Quantity) -> Judged:
    memory = None if subject.changed else subject.audit.model.memory
    text = f"at most {limit.text}"
    if memory is None:
        whose = "the changed model" if subject.changed else "the model"
        return missing("memory.peak", text, f"peak memory of {whose} is not in the audit")
    met = memory.peak_bytes <= limit.value
    found = units.size(memory.peak_bytes)
    return Judged(name="memory.peak", outcome="met" if met else "broken", limit=text, found=found)


def _lora(subject: Subject, limit: Quantity) -> Judged:
    audit, text = subject.audit, f"at most {limit.text}"
    merged = subject.changed and audit.final is not None and any(one.rule == MERGE for one in audit.final.changes)
    if merged or (audit.model.adapter is None and audit.workload.adapter is None):
        return Judged(name="lora.share", outcome="met", limit=text, found="no adapter is loaded")
    lora = lora_of(audit)
    share = (lora.ablation or lora.attributed) if lora else None
    if lora is None or share is None:
        return missing("lora.share", text, "the adapter's share is not in the audit")
    _refuse_below_floor("lora.share", limit, stray(audit, lora.scenario, lora.phase))
    outcome, why = _share(share, limit.value)
    return Judged(name="lora.share", outcome=outcome, limit=text, found=units.share(share), why=why)


def _share(share: Share, limit: float) -> tuple[Outcome, str]:
    return _held(share.low, share.high, limit, share.n)


def _changes(budget: Budget, compared: Compared | None) -> Iterator[Judged]:
    """Limits on what became slower since the base audit."""
    for key, phase in PHASES.items():
        limit: Quantity | None = getattr(budget.change, key) if budget.change else None
        if limit is None:
            continue
        name, text = f"change.{key}", f"at most {limit.text} slower"
        row = (
            next((row for row in compared.times if (row.scenario, row.phase) == ("single", phase)), None)
            if (compared)
            else None
        )
        if compared is None or row is None:
            yield missing(name, text, "no base audit was given" if compared is None else "it was not timed")
        elif row.low is None or row.high is None or row.change is None or row.detectable is None:
            yield missing(name, text, row.why)
        else:
            _refuse_below_floor(name, limit, math.log1p((row.high - row.low) / 2))
            outcome, why = _held(row.low, row.high, limit.value, MIN_PAIRS)
            yield Judged(name=name, outcome=outcome, limit=text, found=f"{100 * row.change:+.1f}%", why=why)


def _refuse_below_floor(name: str, limit: Quantity, floor: float | None) -> None:
    """FtprofError where a limit asks for more than this machine could show: such a gate would be a coin toss."""
    if floor is None or limit.value >= math.expm1(floor):
        return
    raise FtprofError(
        f"{name} = {limit.text!r} is below the noise of this audit, {units.percent(math.expm1(floor))}",
        "raise the limit above it, or measure on a quieter machine with a larger --budget (ftprof doctor shows what helps)",
        Exit.USAGE,
    )
