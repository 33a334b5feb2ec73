"""What changed between two analyses of the same work: a pure function of two results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from ftprof.profiler.traces.model import PARTS, FileAnalysis

_MOST_ROWS = 40
Compared = Literal["per step", "whole window"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity before and after, in seconds of one step or of the window; None where a side does not have it."""

    name: str
    before_s: float | None
    after_s: float | None

    @property
    def delta_s(self) -> float | None:
        """After minus before."""
        return None if self.before_s is None or self.after_s is None else self.after_s - self.before_s


class KernelChange(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel name: calls and seconds of one step (or of the window) on both sides; 0 where it did not run."""

    name: str
    kind: str
    before_calls: float
    after_calls: float
    before_s: float
    after_s: float


class TraceDiff(msgspec.Struct, frozen=True, kw_only=True):
    """Two traces compared.

    `ratio` is the time before over the time after (above 1: faster). `comparable` says whether both did the same work,
    and `notes` why not, or with what care to read it. Parts, classes and phases are in order of the largest change.
    """

    compared: Compared
    before_s: float
    after_s: float
    ratio: float
    comparable: bool
    notes: tuple[str, ...]
    parts: tuple[Change, ...]
    classes: tuple[Change, ...]
    phases: tuple[Change, ...]
    kernels: tuple[KernelChange, ...]
    launches_before: float | None
    launches_after: float | None


def diff(before: FileAnalysis, after: FileAnalysis) -> TraceDiff:
    """Compares the windows of two files: per step where both have steps, else as they are."""
    per_step = before.window.steps > 0 and after.window.steps > 0
    counts = (before.window.steps, after.window.steps) if per_step else (1, 1)
    lengths = tuple(
        (side.window.end_s - side.window.start_s) / count for side, count in zip((before, after), counts, strict=True)
    )
    notes = _notes(before, after, per_step)
    return TraceDiff(
        compared="per step" if per_step else "whole window",
        before_s=lengths[0],
        after_s=lengths[1],
        ratio=lengths[0] / lengths[1],
        comparable=not notes,
        notes=notes,
        parts=_parts(before, after, counts),
        classes=_by_name(_classes(before), _classes(after), counts),
        phases=_by_name(_phases(before), _phases(after), (1, 1)),
        kernels=_kernels(before, after, counts),
        launches_before=_launches(before, counts[0]),
        launches_after=_launches(after, counts[1]),
    )


def _notes(before: FileAnalysis, after: FileAnalysis, per_step: bool) -> tuple[str, ...]:
    """Reasons to doubt that the two did the same work on the same device."""
    notes: list[str] = []
    names = [next((device.name for device in side.devices if device.analysed), None) for side in (before, after)]
    if names[0] != names[1]:
        notes.append(f"different devices: {names[0] or 'unknown'} and {names[1] or 'unknown'}")
    if not per_step:
        notes.append("no steps on both sides: whole windows are compared, and they may hold different amounts of work")
    if before.source.format != after.source.format:
        notes.append("different recorders: their overheads differ")
    for label, side in (("before", before), ("after", after)):
        if side.health.confidence == "low":
            notes.append(f"{label}: the trace is in poor health ({side.health.checks[0].sentence})")
    stacks = (before.source.with_stack or False, after.source.with_stack or False)
    if stacks[0] != stacks[1]:
        notes.append("only one side was recorded with stacks, which makes its host slower")
    return tuple(notes)


def _parts(before: FileAnalysis, after: FileAnalysis, counts: tuple[int, int]) -> tuple[Change, ...]:
    sides = [side.window.partition for side in (before, after)]
    if sides[0] is None or sides[1] is None:
        return ()
    first, second = sides[0].parts(), sides[1].parts()
    return tuple(
        Change(name=name, before_s=first[name] / counts[0], after_s=second[name] / counts[1]) for name in PARTS
    )


def _classes(side: FileAnalysis) -> dict[str, float] | None:
    return None if side.device is None else {row.kind: row.total_s for row in side.device.classes}


def _phases(side: FileAnalysis) -> dict[str, float] | None:
    """Mean time of a pass by phase."""
    return {row.phase: sum(row.times_s) / row.passes for row in side.phases} or None


def _by_name(
    before: dict[str, float] | None, after: dict[str, float] | None, counts: tuple[int, int]
) -> tuple[Change, ...]:
    if before is None or after is None:
        return ()
    names = dict.fromkeys([*before, *after])
    rows = [
        Change(name=name, before_s=before.get(name, 0.0) / counts[0], after_s=after.get(name, 0.0) / counts[1])
        for name in names
    ]
    return tuple(sorted(rows, key=lambda row: -abs(row.delta_s or 0.0)))


def _kernels(before: FileAnalysis, after: FileAnalysis, counts: tuple[int, int]) -> tuple[KernelChange, ...]:
    sides = [{row.name: row for row in (side.device.kernels if side.device else ())} for side in (before, after)]
    rows = [
        KernelChange(
            name=name,
            kind=(sides[0].get(name) or sides[1][name]).kind,
            before_calls=sides[0][name].calls / counts[0] if name in sides[0] else 0.0,
            after_calls=sides[1][name].calls / counts[1] if name in sides[1] else 0.0,
            before_s=sides[0][name].total_s / counts[0] if name in sides[0] else 0.0,
            after_s=sides[1][name].total_s / counts[1] if name in sides[1] else 0.0,
        )
        for name in _union(sides[0], sides[1])
    ]
    return tuple(sorted(rows, key=lambda row: -abs(row.after_s - row.before_s))[:_MOST_ROWS])


def _union(*sides: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for side in sides for name in side))


def _launches(side: FileAnalysis, steps: int) -> float | None:
    launches = side.device.launches if side.device else None
    return launches.calls / steps if launches else None
