"""The device waits for input data.

## What it detects
Idle time of 5 % of the step or more in which the launching thread loads or prepares data: torch's DataLoader, image,
audio or text processing.

## Why it is slow
Reading, decoding, tokenising and normalising run on the same thread that launches, so the device has nothing to do
until they are done. In a public pair of runs of one model, four loader workers took this wait from a quarter or a third of the
step to under 1 %.

## Fix
Load in other processes: `DataLoader(num_workers=4, pin_memory=True, persistent_workers=True)`. Prepare once and keep
the result, use the fast (Rust) tokeniser and the fast image processor, or do the arithmetic on the device.

## When it backfires
- Each worker is a process with its own memory; more workers than idle cores slow each other down.
- Workers start anew at each epoch unless they persist.
- A wait for one single request cannot be hidden by workers: make the preparation itself shorter.

## Sources
- PyTorch, performance tuning guide (docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html).
- pytorch/kineto, samples of its TensorBoard plugin: the same ResNet-50 with 0 and with 4 workers.
"""

from __future__ import annotations

from ftprof.advisors.trace_evidence import idle_rows, longest, percent, share_of_window, span
from ftprof.advisors.trace_rule import TraceEvidence, TraceFinding, TraceRule
from ftprof.profiler.traces.model import FileAnalysis
from ftprof.profiler.traces.schema import DATA_LOADING

FIRES = 0.05


def detect(file: FileAnalysis) -> TraceFinding | None:
    split = file.window.partition
    if split is None:
        return None
    share = share_of_window(file, split.data_loading_s)
    rows = _gaps(file) or idle_rows(file, lambda name: DATA_LOADING.search(name) is not None)
    if share < FIRES or not rows:
        return None
    return TraceFinding(
        rule="input-starved",
        severity=share,
        summary=f"the device waits {percent(share)} of {span(file)} for data to be loaded and prepared",
        evidence=rows,
        advice="load in other processes (DataLoader with num_workers, pin_memory and persistent_workers), prepare "
        "once, or use the fast processor",
    )


def _gaps(file: FileAnalysis) -> tuple[TraceEvidence, ...]:
    """The longest gaps with this cause, by what the thread was in."""
    sums: dict[tuple[str, str | None], list[float]] = {}
    for gap in file.device.gaps if file.device else ():
        if gap.cause == "data_loading":
            spent = sums.setdefault((gap.cpu or "nothing recorded", gap.python), [0, 0.0])
            spent[0] += 1
            spent[1] += gap.length_s
    return longest(
        TraceEvidence(
            what=name,
            where=f"{count:.0f} gap{'' if count == 1 else 's'} spent mostly so" + (f", at {line}" if line else ""),
            total_s=total,
            share=share_of_window(file, total),
        )
        for (name, line), (count, total) in sums.items()
    )


RULE = TraceRule(name="input-starved", title="Load and prepare data beside the device's work", detect=detect)
