"""In which order two variants are sampled, and which samples belong together.

A slow drift of the machine hits both arms alike in A B B A; a randomised mix of ABBA and BAAB keeps any rhythm of the
machine from falling in step with the order.

Method: Before and after (docs/method.md).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import chain

QUADS = (("A", "B", "B", "A"), ("B", "A", "A", "B"))


def order(seed: int, quads: int) -> tuple[str, ...]:
    """4 * `quads` arms, "A" or "B", in randomised quads. The same seed with more quads continues the same sequence."""
    rng = random.Random(seed)
    return tuple(chain.from_iterable(rng.choice(QUADS) for _ in range(quads)))


def pairs_of(sequence: Sequence[str], samples: Sequence[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Adjacent samples of different arms, each used once: those of A and those of B, pair by pair in time order.

    `samples` may be shorter than `sequence` (stopped early); a sample without a partner is left out.
    """
    a: list[float] = []
    b: list[float] = []
    for first, second in _neighbours(sequence, samples, same=False):
        ours, theirs = (first, second) if sequence[first] == "A" else (second, first)
        a.append(samples[ours])
        b.append(samples[theirs])
    return tuple(a), tuple(b)


def aa_log_ratios(sequence: Sequence[str], samples: Sequence[float]) -> tuple[float, ...]:
    """ln of the ratio of adjacent samples of the *same* arm: what "no change" looks like in these minutes.

    Every second pair is turned round. In A B B A each arm comes first equally often, so drift cancels there; without
    the turn the control would void sessions for a drift that the comparison itself is free of.
    """
    ratios = [math.log(samples[i] / samples[j]) for i, j in _neighbours(sequence, samples, same=True)]
    return tuple(-ratio if index % 2 else ratio for index, ratio in enumerate(ratios))


def _neighbours(sequence: Sequence[str], samples: Sequence[float], *, same: bool) -> list[tuple[int, int]]:
    """Index pairs of adjacent samples whose arms are the same, or not; no index twice."""
    found: list[tuple[int, int]] = []
    index, length = 0, min(len(sequence), len(samples))
    while index + 1 < length:
        if (sequence[index] == sequence[index + 1]) is same:
            found.append((index, index + 1))
            index += 1
        index += 1
    return found
