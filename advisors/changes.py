"""A workload's changes, carried out: on how the model is called, and on the engine that was loaded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ftprof.advisors.rules import get_rule
from ftprof.profiler.workload import Call, Workload

if TYPE_CHECKING:
    from ftprof.profiler.engine import Engine


def changed_call(workload: Workload) -> Call:
    """The workload's call after the `rewrite`s of its changes, in order."""
    call = workload.call
    for change in workload.changes:
        rewrite = get_rule(change.rule).rewrite
        call = rewrite(call) if rewrite else call
    return call


def applied(engine: Engine, workload: Workload) -> tuple[Engine, float]:
    """The engine after the `apply`s of the workload's changes, in order, and the seconds that they took."""
    begin = time.perf_counter()
    for change in workload.changes:
        apply = get_rule(change.rule).apply
        engine = apply(engine) if apply else engine
    return engine, time.perf_counter() - begin
