"""What falls to the layers after a LoRA layer when its adapter is off: their times with and without it, by timed modules.

Streaming a base layer's weights drives code and activations out of the caches. Whatever runs next pays for getting
them back: LoRA's own operations where there are any, the layers that follow otherwise. That part of LoRA's time is not
gained by removing it.

Method: Verdicts (docs/method.md).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from ftprof.profiler.forward_timer import Span


class Seen(NamedTuple):
    """One prefill, one generated token or one forward: its wall time and the timed calls in it."""

    wall_ns: int
    calls: Sequence[Span]


class Without(NamedTuple):
    """With the adapter off, as shares of the time with it on: what others pay for in LoRA's place, and what LoRA's
    wrappers cost by themselves."""

    displaced: float
    wrapper: float


def without_lora(
    on: Sequence[Seen], off: Sequence[Seen], groups: Sequence[str], warm: Mapping[str, float], *, base: Sequence[str]
) -> Without | None:
    """What remains of LoRA's time once its adapter is off.

    `groups` names the group of each timed module: the same place in every layer of the model, so that medians over
    layers shrug off what disturbs a few calls. `warm` holds the adapter's groups, and the nanoseconds that one call of
    each takes with warm caches and the adapter off: 0 for what does not run then. `base` are the groups of the layers
    that the adapter is wrapped around; they do the same work either way and are the clock between the two runs.
    `displaced` is below zero at times, within the noise; None where a side saw nothing, or no base layer.
    """
    with_it, without = _by_group(on, groups), _by_group(off, groups)
    base_on, base_off = (sum(times.get(group, 0.0) for group in base) for times in (with_it, without))
    if not base_on or not base_off:
        return None
    drift, whole = base_on / base_off, sum(with_it.values())
    apart = {*warm, *base}
    others_on, others_off = (
        sum(time for group, time in times.items() if group not in apart) for times in (with_it, without)
    )
    cold = drift * sum(time for group, time in without.items() if group in warm)
    own = min(cold, sum(calls * warm[group] for group, calls in _calls(off, groups).items() if group in warm))
    return Without((drift * others_off - others_on + cold - own) / whole, own / whole)


def _calls(parts: Sequence[Seen], groups: Sequence[str]) -> dict[str, float]:
    """Calls of a part by group."""
    found = Counter(groups[call.module] for part in parts for call in part.calls)
    return {group: count / len(parts) for group, count in found.items()}


def _by_group(parts: Sequence[Seen], groups: Sequence[str]) -> dict[str, float]:
    """Self nanoseconds of a part by group: its calls times their median. "" is what lies outside all modules."""
    if not parts:
        return {}
    seen: defaultdict[str, list[int]] = defaultdict(list)
    for part in parts:
        for call in part.calls:
            seen[groups[call.module]].append(call.self_ns)
        seen[""].append(part.wall_ns - sum(call.end - call.start for call in part.calls if call.top))
    return {group: len(times) / len(parts) * median(times) for group, times in seen.items()}
