"""How far an audit's figures can be believed: a grade with the reasons that cost it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ftprof.advisors.audit import Control, Final, Trial, Trust
from ftprof.profiler.diagnosis import Diagnosis, Lora
from ftprof.profiler.paired import MIN_PAIRS
from ftprof.profiler.record import RunRecord

# Limits from the method: a control wider than the largest change that counts as none proves little (3 %), limits that
# moved by 10 % within a run are not limits, and shares of a trace that slowed the run by half are uncertain by points.
WIDE_CONTROL, DRIFT, SLOWED, UNATTRIBUTED = 0.03, 0.10, 1.5, 0.10
FEW_PAIRS = 8
GRADES: tuple[Literal["A", "B", "C", "D"], ...] = ("A", "B", "C", "D")


def trust(
    record: RunRecord,
    diagnosis: Diagnosis,
    controls: Sequence[Control],
    trials: Sequence[Trial],
    final: Final | None,
    drift: float | None,
    objective: tuple[str, str],
) -> Trust:
    """Grade A without a reason, one grade less for each; D at most."""
    reasons = [
        *_control_reasons(controls, objective),
        *_drift_reasons(drift),
        *_ledger_reasons(diagnosis, objective),
        *_lora_reasons(diagnosis.lora),
        *_final_reasons(final),
    ]
    found = diagnosis.phase(*objective)
    return Trust(
        grade=GRADES[min(len(reasons), len(GRADES) - 1)],
        reasons=tuple(reasons),
        controls=tuple(controls),
        drift=drift,
        traced_ratio=_traced_ratio(record) if found else None,
        predictions=tuple(trial.log_error for trial in trials if trial.log_error is not None),
    )


def _traced_ratio(record: RunRecord) -> float | None:
    ratios = [trace.traced_s / trace.untraced_s for trace in record.ops or () if trace.untraced_s > 0]
    return max(ratios) if ratios else None


def _control_reasons(controls: Sequence[Control], objective: tuple[str, str]) -> list[str]:
    for control in controls:
        if (control.scenario, control.phase) != objective:
            continue
        ratio = control.ratio
        if ratio.pairs < MIN_PAIRS:
            return [f"only {ratio.pairs} pairs of the model against itself could be taken"]
        if not ratio.low <= 1.0 <= ratio.high:
            return [f"the model against itself reads {ratio.speedup:.3f}x ({ratio.low:.3f} to {ratio.high:.3f}), not 1"]
        if max(ratio.high - 1, 1 - ratio.low) > WIDE_CONTROL:
            return [
                (
                    f"noise: the model against itself is only known to {ratio.low:.3f} to {ratio.high:.3f} "
                    f"({ratio.pairs} pairs)"
                )
            ]
        return []
    return ["no control of the model against itself was taken for the objective"]


def _drift_reasons(drift: float | None) -> list[str]:
    if drift is not None and abs(drift) > DRIFT:
        return [f"the machine's measured peak moved by {drift:+.0%} during the run"]
    return []


def _ledger_reasons(diagnosis: Diagnosis, objective: tuple[str, str]) -> list[str]:
    found = diagnosis.phase(*objective)
    if found is None or found.ledger is None or found.ledger.total_s <= 0:
        return []
    share = found.ledger.unattributed_s / found.ledger.total_s
    return [f"{share:.0%} of the objective's time is unattributed"] if abs(share) > UNATTRIBUTED else []


def _lora_reasons(lora: Lora | None) -> list[str]:
    if lora is not None and lora.agree is False:
        return ["the two measurements of LoRA's share disagree"]
    return []


def _final_reasons(final: Final | None) -> list[str]:
    if final is None or not final.changes:
        return []
    if final.objective is None:
        return ["the final comparison could not be made"]
    if final.objective.verdict == "inconclusive":
        return ["the final comparison is inconclusive"]
    if final.comparison is not None and final.comparison.processes < 3:
        return [f"the final comparison has {final.comparison.processes} fresh processes a side, not 3"]
    if final.objective.pairs < FEW_PAIRS:
        return [f"the final comparison has only {final.objective.pairs} pairs"]
    return []
