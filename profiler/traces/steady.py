"""Chooses the steps that stand for the run: warm and whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ftprof.profiler.traces.steps import Window

# A first step that compiles or loads kernels takes several times as long; warm steps differ by some per cent.
WARM_WITHIN = 0.25
# The deleted TensorBoard plugin dropped trailing steps with less than 80 % of the device work of the one before.
WORK_OF_A_WHOLE_STEP = 0.8


@dataclass(frozen=True, slots=True)
class Steady:
    """Steps first to last (positions, both included) and why they were chosen."""

    first: int
    last: int
    reason: str


def choose(windows: list[Window], pieces: list[int]) -> Steady | None:
    """The longest stretch of steps of one phase, without warm-up at its head and torn steps at its tail.

    `pieces` is the device work by step. Slow steps in the middle stay: to leave them out would hide what makes them
    slow. None without steps.
    """
    if not windows:
        return None
    if len(windows) == 1:
        return Steady(0, 0, "the only step in the trace; whether it was warm cannot be told")
    main_phase = _main_phase(windows)
    fits = [window.phase == main_phase and count > 0 for window, count in zip(windows, pieces, strict=True)]
    first, last = _longest_run(fits if any(fits) else [window.phase == main_phase for window in windows])
    run = range(first, last + 1)
    length = float(np.median([windows[number].end - windows[number].start for number in run]))
    work = float(np.median([pieces[number] for number in run]))
    while last > first and pieces[last] < WORK_OF_A_WHOLE_STEP * work:
        last -= 1
    while first < last and windows[first].end - windows[first].start > (1 + WARM_WITHIN) * length:
        first += 1
    return Steady(first, last, _reason(first, last, len(windows), main_phase))


def _main_phase(windows: list[Window]) -> str | None:
    spent: dict[str | None, int] = {}
    for window in windows:
        spent[window.phase] = spent.get(window.phase, 0) + window.end - window.start
    if "decode" in spent and sum(window.phase == "decode" for window in windows) > 1:
        return "decode"  # what repeats; a prefill comes once per request
    return max(spent, key=lambda phase: spent[phase])


def _longest_run(marks: list[bool]) -> tuple[int, int]:
    """(first, last) of the longest run of true marks, the latest of equals; (0, -1) where there is none."""
    best, start = (0, -1), 0
    for number, mark in enumerate([*marks, False]):
        if mark:
            continue
        if number > start and number - start >= best[1] - best[0] + 1:
            best = (start, number - 1)
        start = number + 1
    return best


def _reason(first: int, last: int, count: int, phase: str | None) -> str:
    chosen = f"step {first + 1}" if first == last else f"steps {first + 1} to {last + 1}"
    kind = f" {phase}" if phase else ""
    return f"{chosen} of {count}: the longest stretch of{kind} steps, without warm-up at its head and torn steps at its end"
