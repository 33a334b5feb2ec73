"""Joules for each token: a unit repeated while NVML is read, its energy over the tokens that it made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ftprof.profiler.nvml import device_use

if TYPE_CHECKING:
    from ftprof.profiler.nvml import Sampler

LEAST_S = 2.0
"""Power readings are averages over up to a second on data-centre parts, and lag by about as much."""
MOST_S = 20.0


class TokenEnergy(msgspec.Struct, frozen=True, kw_only=True):
    """What a scenario draws: the whole device's joules, idle draw included, over the tokens (rows for encoders) made."""

    scenario: str
    tokens: int
    seconds: float
    energy_j: float

    @property
    def per_token_j(self) -> float:
        """Joules a token."""
        return self.energy_j / self.tokens


def token_energy(
    sampler: Sampler, unit: Callable[[], int], *, scenario: str, least_s: float = LEAST_S, most_s: float = MOST_S
) -> TokenEnergy | None:
    """Repeat `unit`, which returns how many tokens it made, until `least_s` are over and two readings lie inside.

    The mean power between the first and the last reading inside stands for the whole time. None where readings ended
    before that, where the device answers neither energy nor power, or where nothing was made.
    """
    begin, tokens = sampler.now_s(), 0
    while True:
        tokens += unit()
        end = sampler.now_s()
        inside = [sample for sample in sampler.samples if begin <= sample.at_s <= end]
        if (end - begin >= least_s and len(inside) >= 2) or sampler.lost or end - begin >= most_s:
            break
    use = device_use(inside)
    if use is None or use.energy_j is None or use.seconds <= 0 or not tokens:
        return None
    seconds = end - begin
    return TokenEnergy(scenario=scenario, tokens=tokens, seconds=seconds, energy_j=use.energy_j / use.seconds * seconds)
