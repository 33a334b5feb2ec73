"""Ready-made budgets. What a person's own budget says goes before them."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ftprof.reports.check_budget import Budget, Deployment, FindingLimits, QualityDemands, TrustDemands

T = TypeVar("T", bound=msgspec.Struct)

PRESETS = {
    # A pull request is judged by the model as its directory loads it. Grade D proves nothing; fixes that change no
    # output cost nothing but the doing.
    "pull-request": Budget(
        subject="loaded",
        quality=QualityDemands(verdict="pass"),
        findings=FindingLimits(safety=("exact",)),
        trust=TrustDemands(grade="C"),
    ),
    # A release is judged by what is deployed: the best variant, or the model itself where nothing was changed.
    "pre-deployment": Budget(
        subject="best",
        quality=QualityDemands(verdict="pass", own_data=True),
        trust=TrustDemands(grade="B"),
        deployment=Deployment(this_machine=True, cold_start=True, peak_at_largest_context=True, artefact=True),
    ),
}


def with_preset(budget: Budget, name: str | None = None) -> Budget:
    """`budget` on top of the preset called `name`, else of its own; without either as it is."""
    chosen = name or budget.preset
    return _over(budget, PRESETS[chosen]) if chosen else budget


def _over(own: T, preset: T) -> T:
    """`preset` with everything that `own` sets; tables are merged key by key."""
    found = {}
    for field in msgspec.structs.fields(own):
        mine, theirs = getattr(own, field.name), getattr(preset, field.name)
        if isinstance(mine, msgspec.Struct) and type(mine) is type(theirs):
            found[field.name] = _over(mine, theirs)
        else:
            found[field.name] = theirs if mine is None or mine == () else mine
    return type(own)(**found)
