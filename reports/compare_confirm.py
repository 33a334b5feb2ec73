"""Take a second, side-by-side measurement into a comparison: an alarm needs both, and doubt may be settled."""

from __future__ import annotations

import math

import msgspec

from ftprof.profiler.comparison import Comparison, Ratio
from ftprof.reports.compare import concluded
from ftprof.reports.compare_document import Compared, TimeChange, TimeVerdict

VERDICTS: dict[str, TimeVerdict] = {"slower": "slower", "faster": "faster", "equivalent": "same"}


def doubtful(compared: Compared) -> tuple[str, ...]:
    """Scenarios worth measuring again: those with an alarm, and that of the objective where noise forbade a verdict."""
    rows = [row for row in compared.times if _open(row)]
    return tuple(dict.fromkeys(row.scenario for row in rows))


def _open(row: TimeChange) -> bool:
    return (row.gates and row.verdict == "slower") or (row.decisive and row.verdict == "inconclusive")


def confirmed(compared: Compared, again: Comparison, min_effect: float) -> Compared:
    """`compared` with the rows in doubt decided by `again`. A time stays slower only if both measurements say so."""
    times = tuple(_decided(row, again, min_effect) if _open(row) else row for row in compared.times)
    method = (
        f"{compared.method} Times in doubt were measured again: {again.design}, {again.processes} a side; what is shown "
        "of them is that measurement."
    )
    cleared = [
        f"An alarm was cleared: {now.label}, {now.why}."
        for before, now in zip(compared.times, times, strict=True)
        if before.gates and before.verdict == "slower" and now.verdict != "slower"
    ]
    warnings = (*compared.warnings, *cleared)
    return concluded(msgspec.structs.replace(compared, times=times, method=method, warnings=warnings))


def _decided(row: TimeChange, again: Comparison, min_effect: float) -> TimeChange:
    ratio = again.get(row.scenario, row.phase)
    if ratio is None or min(ratio.low, ratio.speedup) <= 0:
        return msgspec.structs.replace(row, verdict="inconclusive", why="it could not be measured again")
    verdict = _verdict(ratio, min_effect)
    said = f"side by side it took {1 / ratio.speedup:.3f} times as long ({ratio.pairs} pairs)"
    return msgspec.structs.replace(
        row,
        change=1 / ratio.speedup - 1,
        low=1 / ratio.high - 1,
        high=1 / ratio.low - 1,
        detectable=ratio.detectable,
        verdict=verdict,
        why=said,
    )


def _verdict(ratio: Ratio, min_effect: float) -> TimeVerdict:
    verdict = VERDICTS.get(ratio.verdict, "inconclusive")
    small = abs(math.log(ratio.speedup)) < math.log1p(min_effect)
    # A change that is proven but smaller than what counts is no change.
    inside = max(abs(math.log(ratio.low)), abs(math.log(ratio.high))) <= math.log1p(min_effect)
    if verdict in ("slower", "faster") and small:
        return "same" if inside else "inconclusive"
    return verdict
