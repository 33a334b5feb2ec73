"""Time two variants against each other: interleaved quads, the idle worker stopped, every sample kept.

Method: Before and after (docs/method.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

import msgspec

from ftprof.profiler.comparison import Ratio
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.paired import aa_log_ratios, log_ratios, order, pairs_of, ratio, should_stop
from ftprof.profiler.processes import Handle

Times = dict[str, float]


class Arm(Protocol):
    """One side of a duel. `enter` comes before its first sample after the other side had the machine."""

    def enter(self, scenario: str, unit: int) -> None: ...

    def sample(self, scenario: str, unit: int) -> Times: ...

    def leave(self) -> None: ...


class AdapterArm:
    """The adapter switched on or off inside one worker."""

    def __init__(self, handle: Handle, on: bool, new_tokens: int | None, patience: Callable[[], float]) -> None:
        self.handle = handle
        self.on = on
        self.new_tokens = new_tokens
        self._patience = patience

    def enter(self, scenario: str, unit: int) -> None:
        # The same process and the same base weights: nothing is cold but the few megabytes of the adapter.
        self.handle.call("set_adapter", self.on)

    def sample(self, scenario: str, unit: int) -> Times:
        times: Times = self.handle.call("unit", scenario, unit, self.new_tokens, timeout_s=self._patience())
        return times

    def leave(self) -> None:
        self.handle.call("set_adapter", True)


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """A duel's outcome: which arm ran when, and its times by phase, in order."""

    sequence: tuple[str, ...]
    phases: dict[str, tuple[float, ...]]
    seconds: float = 0.0

    def of(self, arm: str, phase: str) -> tuple[float, ...]:
        """All samples of one arm, in order."""
        return tuple(t for side, t in zip(self.sequence, self.phases.get(phase, ()), strict=False) if side == arm)

    def pairs(self, phase: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Paired samples of A and of B."""
        return pairs_of(self.sequence, self.phases.get(phase, ()))

    def control(self, phase: str) -> tuple[float, ...]:
        """Log ratios of the same arm run twice in a row, inside quads (all of a quad's samples run the same rows)."""
        samples = self.phases.get(phase, ())
        found: list[float] = []
        for start in range(0, len(samples) - 3, 4):
            found += aa_log_ratios(self.sequence[start : start + 4], samples[start : start + 4])
        return tuple(-value if place % 2 else value for place, value in enumerate(found))


def duel(
    a: Arm,
    b: Arm,
    scenario: str,
    *,
    quads: int,
    deadline: float,
    now: Callable[[], float],
    seed: int = 0,
    watch: str = "e2e",
    half_width: float = 0.02,
    first_unit: int = 0,
    least: int = 1,
) -> Samples:
    """Run up to `quads` quads, whole ones only, until `deadline` or until phase `watch` is precise enough.

    At least `least` quads are run. All four samples of a quad run the same rows.
    """
    begin = now()
    arms = {"A": a, "B": b}
    sequence = order(seed, quads)
    taken: list[Times] = []
    current: str | None = None
    try:
        for place, side in enumerate(sequence):
            whole = place % 4 == 0 and place >= 4 * least
            if whole and _finished(sequence, taken, watch, half_width, now(), begin, deadline):
                break
            unit = first_unit + place // 4
            if side != current:
                if current is not None:
                    arms[current].leave()
                arms[side].enter(scenario, unit)
                current = side
            taken.append(arms[side].sample(scenario, unit))
    finally:
        if current is not None:
            with suppress(FtprofError):  # the fault that ended the duel is the one to tell
                arms[current].leave()
    phases = sorted({phase for times in taken for phase in times})
    return Samples(
        sequence=sequence[: len(taken)],
        phases={phase: tuple(times[phase] for times in taken) for phase in phases if all(phase in t for t in taken)},
        seconds=now() - begin,
    )


def _finished(
    sequence: Sequence[str],
    taken: Sequence[Times],
    watch: str,
    half_width: float,
    now: float,
    begin: float,
    deadline: float,
) -> bool:
    per_quad = (now - begin) / (len(taken) // 4)
    if now + per_quad > deadline:
        return True
    samples = [times[watch] for times in taken if watch in times]
    if len(samples) < len(taken):
        return False
    return should_stop(log_ratios(*pairs_of(sequence, samples)), half_width)


def merged(parts: Sequence[Samples]) -> Samples:
    """Several duels of the same variants (in fresh processes each) as one."""
    phases = set(parts[0].phases).intersection(*(part.phases for part in parts))
    return Samples(
        sequence=tuple(side for part in parts for side in part.sequence),
        phases={phase: tuple(t for part in parts for t in part.phases[phase]) for phase in sorted(phases)},
        seconds=sum(part.seconds for part in parts),
    )


def ratios(samples: Samples) -> dict[str, Ratio]:
    """Speed-up of B over A by phase."""
    return {phase: ratio(*samples.pairs(phase), samples.control(phase)) for phase in samples.phases}
