"""How good a rule's predictions have been on this machine, and what that corrects in the next one.

Every prediction that a trial then measured is one line in the user's state folder: the rule, the machine's fingerprint
and two ratios, nothing of the model. It is read back before the next prediction is written down.

Method: Predictions (docs/method.md).
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from statistics import median

import msgspec

from ftprof.advisors.rule import PredictedRatio

LEAST = 5
"""Fewer earlier predictions of a rule correct nothing."""
KEPT = 50
"""The newest ones count: rules and their libraries change."""
COVERAGE = 0.80


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One prediction that was measured: speed-ups as the rule itself predicted (`raw`) and as measured, and the 80 %
    interval as written down."""

    rule: str
    machine: str
    raw: float
    low: float
    high: float
    measured: float

    @property
    def log_error(self) -> float:
        """ln(predicted / measured): above zero where the rule promises too much."""
        return math.log(self.raw / self.measured)


class TrackRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A rule's earlier predictions on this machine: how many, the median of ln(predicted / measured), the median of its
    absolute value, and the share of measured ratios inside the predicted 80 % interval."""

    n: int
    bias: float
    error: float
    inside: float
    spread: float
    """Half-width, in log, around the corrected prediction that would have held 80 % of them (split conformal)."""


def history_file() -> Path:
    """`$XDG_STATE_HOME/ftprof/predictions.jsonl`, or below `~/.local/state`."""
    configured = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (configured if configured.is_absolute() else Path.home() / ".local/state") / "ftprof/predictions.jsonl"


def remember(outcome: Outcome, path: Path | None = None) -> None:
    """Add one line. A folder that cannot be written costs the memory, not the run."""
    with suppress(OSError):
        target = path or history_file()
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("ab") as file:
            file.write(msgspec.json.encode(outcome) + b"\n")


def track_records(machine: str, path: Path | None = None) -> dict[str, TrackRecord]:
    """By rule, from the outcomes on the machine with this fingerprint; lines that cannot be read are passed over."""
    found: dict[str, list[Outcome]] = {}
    with suppress(OSError):
        for line in (path or history_file()).read_bytes().splitlines():
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                outcome = msgspec.json.decode(line, type=Outcome)
                if outcome.machine == machine and min(outcome.raw, outcome.measured) > 0:
                    found.setdefault(outcome.rule, []).append(outcome)
    return {rule: _record(outcomes[-KEPT:]) for rule, outcomes in found.items()}


def _record(outcomes: list[Outcome]) -> TrackRecord:
    errors = [outcome.log_error for outcome in outcomes]
    bias = median(errors)
    off = sorted(abs(error - bias) for error in errors)
    # The conformal quantile: of n + 1 equally likely places for the next one, 80 % lie below this.
    place = min(len(off), math.ceil(COVERAGE * (len(off) + 1)))
    return TrackRecord(
        n=len(errors),
        bias=bias,
        error=median(map(abs, errors)),
        inside=sum(outcome.low <= outcome.measured <= outcome.high for outcome in outcomes) / len(outcomes),
        spread=off[place - 1],
    )


def corrected(
    ratios: Mapping[str, Mapping[str, PredictedRatio]], record: TrackRecord | None
) -> dict[str, dict[str, PredictedRatio]]:
    """The ratios without the rule's known bias, their intervals never narrower than its past errors were."""
    if record is None or record.n < LEAST:
        return {scenario: dict(phases) for scenario, phases in ratios.items()}
    return {
        scenario: {phase: _corrected(ratio, record) for phase, ratio in phases.items()}
        for scenario, phases in ratios.items()
    }


def _corrected(ratio: PredictedRatio, record: TrackRecord) -> PredictedRatio:
    middle = math.log(ratio.speedup) - record.bias
    below = max(math.log(ratio.speedup / ratio.low), record.spread)
    above = max(math.log(ratio.high / ratio.speedup), record.spread)
    return PredictedRatio(speedup=math.exp(middle), low=math.exp(middle - below), high=math.exp(middle + above))
