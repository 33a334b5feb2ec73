"""What a gate found: one entry for each demand. Text, JSON and JUnit are views of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from ftprof.advisors.audit import Audit
from ftprof.profiler.diagnosis import Interval
from ftprof.reports import units

Outcome = Literal["met", "broken", "uncertain", "not measured", "ignored"]
FAILURES: frozenset[Outcome] = frozenset({"broken", "not measured"})


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One demand: its key in the budget, what was demanded, what was found, and why that is the outcome."""

    name: str
    outcome: Outcome
    limit: str
    found: str
    why: str = ""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """All demands of a budget on one audit. `exit_code` is what the command ends with."""

    model: str
    subject: str
    passed: bool
    exit_code: int
    headline: str
    demands: tuple[Judged, ...]
    notes: tuple[str, ...] = ()


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What only the machine that checks can tell: its fingerprint, and the digest of the files to be deployed.

    `problem` says why there is no digest.
    """

    fingerprint: str = ""
    directory: str = ""
    digest: str = ""
    problem: str = ""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The model that is judged: as it was loaded, or with the changes of the best variant."""

    audit: Audit
    changed: bool

    def time(self, scenario: str, phase: str) -> Interval | None:
        """The time of one phase, or None where it was not measured."""
        if self.changed:
            final = self.audit.final
            return final.after.get(scenario, {}).get(phase) if final else None
        times = (one.time_s for one in self.audit.phases if (one.scenario, one.name) == (scenario, phase))
        return next(times, None)


def missing(name: str, limit: str, why: str) -> Judged:
    """A demand whose figure is not in the audit: it counts as failed, since nothing shows that it is met."""
    return Judged(name=name, outcome="not measured", limit=limit, found=units.ABSENT, why=why)


def yes_no(name: str, met: bool, *, limit: str, found: str, why: str = "") -> Judged:
    """A demand without an interval."""
    return Judged(name=name, outcome="met" if met else "broken", limit=limit, found=found, why="" if met else why)
