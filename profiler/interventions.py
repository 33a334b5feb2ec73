"""What the experiments in a record say about a bound: confirmed, contradicted, or nothing. Pure.

A verdict from shares alone is suspected. More tokens at once, a twin of the model with hardly any width, one thread
instead of all, and requests without their tokeniser change the work in known ways; the time must follow as the bound
says it would.

Method: Verdicts (docs/method.md).
"""

from __future__ import annotations

from math import ceil, exp, log
from statistics import fmean, median
from typing import NamedTuple

from ftprof.profiler.diagnosis import Bound
from ftprof.profiler.record import Doubling, LoadSplit, Machine, Pretokenised, RunRecord
from ftprof.profiler.spread import median_error

# Doubling the tokens multiplies the time by at least 1.7 where arithmetic is the limit, by at most 1.3 where streaming
# the weights is, by at most 1.15 where the host is. As exponents of the growth, so that eight times the tokens
# are judged alike.
COMPUTE_EXPONENT, MEMORY_EXPONENT, HOST_EXPONENT = log(1.7) / log(2), log(1.3) / log(2), log(1.15) / log(2)
LEAST_GROWTH = 1.5
"""Fewer times as many tokens than this prove nothing."""
TESTED = ("prefill", "decode", "forward")

# A narrow twin keeps the host's work and drops nearly all other: what it takes of the time is the host's share. Half
# and more is needed for a bound that is the host's; a bound that is not cannot be true above two thirds.
HOST_TWIN, NOT_HOST_TWIN = 0.5, 0.65
TOLD_APART = 1.2
"""Threads gain at least this many times more at arithmetic than at reading (or the reverse), else they tell nothing."""
NEARER = 0.3
"""How far, of the way between the two gains, a phase may lie from the one that its bound names."""
LEAST_THREAD_GAIN = 1.5
HOST_THREAD_GAIN = 1.1
SKIPPED = 0.2
"""What skipping the tokeniser saves may differ by this much from the tokeniser's own time."""
IO_RELOAD = 0.4
"""Less of the time than this, gained by having the files in memory, does not make reading them the limit."""


class Proof(NamedTuple):
    """`verdict` is True where an experiment confirmed the bound, False where one contradicted it, None without any."""

    verdict: bool | None
    sentences: tuple[str, ...] = ()


class _Growth(NamedTuple):
    """How the time followed more tokens at once."""

    tokens: float
    ratio: float
    how: str

    @property
    def exponent(self) -> float:
        return log(max(self.ratio, 1e-9)) / log(self.tokens)


def judge(record: RunRecord, scenario: str, phase: str, bound: Bound, device_share: float) -> Proof:
    """What the experiments on a phase say about its bound.

    `device_share` is ideal compute and memory time over the phase's time. A contradiction outweighs a confirmation.
    """
    if phase == "load":
        return _by_warm_load(record.load, bound)
    if phase == "tokenise":
        return _by_skipping(record.pretokenised, scenario)
    if phase not in TESTED or bound not in ("compute", "memory", "host"):
        return Proof(None)
    found = [
        *_by_growth(record, scenario, phase, bound, device_share),
        *_by_twin(record, scenario, phase, bound),
        *_by_threads(record, scenario, phase, bound, device_share),
    ]
    against = tuple(sentence for verdict, sentence in found if not verdict)
    if against:
        return Proof(False, against)
    return Proof(True, tuple(sentence for _, sentence in found)) if found else Proof(None)


def twin_share(record: RunRecord, scenario: str, phase: str) -> float | None:
    """The narrow twin's time over the phase's, or None where there is none: the host's share, measured on its own."""
    twin = next((one for one in record.twin or () if one.phase == phase), None)
    times = record.times(scenario, phase)
    return median(twin.time_s) * _batches(record, scenario, phase) / median(times) if twin and times else None


def _by_warm_load(load: LoadSplit | None, bound: Bound) -> Proof:
    """A cold load against one that found the files in the cache: what is gained is what reading them cost."""
    if load is None or load.warm_s is None or not load.evicted or bound not in ("host", "io"):
        return Proof(None)
    cold = load.build_s + load.adapter_s + load.first_use_s
    whole = load.import_s + cold
    saved = max(0.0, cold - load.warm_s) / whole if whole > 0 else 0.0
    seen = f"with its files in the file cache it took {100 * saved:.0f}% less"
    if bound == "io" and saved >= IO_RELOAD:
        return Proof(True, (f"Confirmed by loading it again: {seen}.",))
    if bound == "host" and saved <= 1 - NOT_HOST_TWIN:
        return Proof(True, (f"Confirmed by loading it again: {seen}, so reading is not what limits it.",))
    if bound == "io" and saved < IO_RELOAD / 2:
        return Proof(False, (f"Contradicted by loading it again: {seen}.",))
    return Proof(None)


def _by_skipping(seen: Pretokenised | None, scenario: str) -> Proof:
    """Whether a request gets shorter by the tokeniser's time once that is skipped: then nothing hides it."""
    if seen is None or seen.scenario != scenario or not seen.whole_s:
        return Proof(None)
    saved = [whole - without for whole, without in zip(seen.whole_s, seen.without_s, strict=True)]
    gain, part = median(saved), median(seen.tokenise_s)
    error = median_error(saved)
    if part <= 0 or error > SKIPPED * part:
        return Proof(None)
    said = f"requests whose tokens were ready took {1e3 * gain:.2f} ms less, tokenising {1e3 * part:.2f} ms"
    if abs(gain - part) <= SKIPPED * part + error:
        return Proof(True, (f"Confirmed by skipping it: {said}.",))
    if gain < part / 2:
        return Proof(False, (f"Contradicted by skipping it: {said}, so most of it is hidden behind other work.",))
    return Proof(None)


def _by_threads(
    record: RunRecord, scenario: str, phase: str, bound: Bound, device_share: float
) -> list[tuple[bool, str]]:
    """One thread against all: the phase follows the gain of what limits it, the host's work follows neither."""
    seen = next((one for one in record.threads or () if (one.scenario, one.phase) == (scenario, phase)), None)
    dtype = record.model.dtype if record.model else "float32"
    gains = _gains(record.machine, dtype)
    if seen is None or not seen.one_s or gains is None or min(gains) < LEAST_THREAD_GAIN:
        return []
    ratio = exp(median(log(one / many) for one, many in zip(seen.one_s, seen.all_s, strict=True)))
    said = f"{seen.threads} threads are {ratio:.2f} times as fast as one"
    compute, memory = gains
    known = f"{compute:.2f} times at arithmetic, {memory:.2f} at reading on this machine"
    if bound == "host":
        if ratio <= HOST_THREAD_GAIN and device_share < 0.5:
            return [(True, f"Confirmed by threads: {said}; they are {known}.")]
        return []
    if max(compute / memory, memory / compute) < TOLD_APART or ratio <= HOST_THREAD_GAIN:
        return []
    # 0 at the gain of arithmetic, 1 at that of reading.
    place = log(compute / ratio) / log(compute / memory)
    away = place if bound == "compute" else 1.0 - place
    if away <= NEARER:
        return [(True, f"Confirmed by threads: {said}; they are {known}.")]
    return []


def _gains(machine: Machine | None, dtype: str) -> tuple[float, float] | None:
    """What all threads gain over one, at arithmetic and at reading."""
    gain = machine.thread_gain if machine else None
    if gain is None or dtype not in gain.compute or dtype not in gain.memory:
        return None
    return gain.compute[dtype], gain.memory[dtype]


def _batches(record: RunRecord, scenario: str, phase: str) -> int:
    """Passes of the model in one occurrence of a phase; a decode step is one whatever the batch."""
    workload = record.workload
    if workload is None or phase == "decode":
        return 1
    units = next((one.units for one in workload.scenarios if one.name == scenario), ())
    return max([1, *(ceil(len(unit) / workload.call.batch_size) for unit in units[:1])])


def _by_twin(record: RunRecord, scenario: str, phase: str, bound: Bound) -> list[tuple[bool, str]]:
    share = twin_share(record, scenario, phase)
    if share is None:
        return []
    seen = f"the same model with hardly any width still takes {100 * share:.0f}% of the time"
    if bound == "host" and share >= HOST_TWIN:
        return [(True, f"Confirmed by a narrow twin: {seen}.")]
    if bound == "host" and share < 1 - NOT_HOST_TWIN:
        return [(False, f"Contradicted by a narrow twin: {seen}, so the host is not what limits it.")]
    if bound != "host" and share > NOT_HOST_TWIN:
        return [(False, f"Contradicted by a narrow twin: {seen}, so the host may be what limits it.")]
    return []


def _by_growth(
    record: RunRecord, scenario: str, phase: str, bound: Bound, device_share: float
) -> list[tuple[bool, str]]:
    growth = _doubled(record, scenario, phase) or _batched(record, phase)
    if growth is None:
        return []
    seen = f"{growth.tokens:.1f} times the tokens at once took {growth.ratio:.2f} times as long"
    start = f"Confirmed by {growth.how}: {seen}"
    if bound == "memory" and phase == "decode" and growth.exponent <= MEMORY_EXPONENT:
        return [(True, f"{start}, so streaming the weights, not arithmetic, sets the pace.")]
    if bound == "compute" and growth.exponent >= COMPUTE_EXPONENT:
        return [(True, f"{start}, as arithmetic does.")]
    if bound == "host" and growth.exponent <= HOST_EXPONENT and device_share < 0.5:
        return [(True, f"{start}, so the cost is a call's, not a token's.")]
    against = f"Contradicted by {growth.how}: {seen}"
    if bound == "compute" and growth.exponent <= MEMORY_EXPONENT:
        return [(False, f"{against}, which arithmetic would not.")]
    if bound == "host" and growth.exponent >= COMPUTE_EXPONENT:
        return [(False, f"{against}, which the host's calls would not.")]
    return []


def _doubled(record: RunRecord, scenario: str, phase: str) -> _Growth | None:
    """Every row twice, in turns with every row once."""
    found = next((one for one in record.doubling or () if (one.scenario, one.phase) == (scenario, phase)), None)
    return _Growth(2.0, paired_ratio(found), "doubling the rows") if found and found.once_s else None


def paired_ratio(found: Doubling) -> float:
    """Median over pairs of the time with twice the rows over the time with one."""
    return exp(median(log(twice / once) for once, twice in zip(found.once_s, found.twice_s, strict=True)))


def _batched(record: RunRecord, phase: str) -> _Growth | None:
    """The batch scenario against the single one."""
    single, batch = record.times("single", phase), record.times("batch", phase)
    growth = token_growth(record, phase)
    if not single or not batch or growth is None or growth < LEAST_GROWTH:
        return None
    return _Growth(growth, median(batch) / median(single), "batching")


def token_growth(record: RunRecord, phase: str) -> float | None:
    """How many times as many tokens one pass of the batch scenario computes as one of the single scenario."""
    workload = record.workload
    if workload is None or {scenario.name for scenario in workload.scenarios} < {"single", "batch"}:
        return None
    single, batch = workload.scenario("single"), workload.scenario("batch")
    rows = fmean(len(unit) for unit in batch.units) if batch.units else 0.0
    if phase == "decode":
        return min(rows, float(workload.call.batch_size)) or None
    lengths = workload.prompt_tokens
    if not lengths or not single.units or not batch.units:
        return None
    one = fmean(sum(lengths[row] for row in unit) for unit in single.units)
    facts = record.padding
    many = facts.padded_tokens / len(batch.units) if facts and facts.scenario == "batch" else None
    return (many or fmean(max(lengths[row] for row in unit) * len(unit) for unit in batch.units)) / one
