"""The requests of a worker that builds models for other runtimes; it keeps the slow exporters, and no model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ftprof.advisors.changes import applied

if TYPE_CHECKING:
    from ftprof.profiler.built import Recipe, Source
    from ftprof.profiler.record import ProbeCase, ProbeResult
    from ftprof.profiler.workload import Workload


class Builder:
    """Stateless: everything lies in directories."""

    def plain(self, workload: Workload, directory: str) -> Source:
        """Write the workload's model as a plain directory to convert, and let it go again."""
        from ftprof.profiler.built import Source
        from ftprof.profiler.load import load_engine
        from ftprof.profiler.rows import read_rows

        engine, _ = applied(load_engine(workload, workload.call)[0], workload)
        engine.save(Path(directory))
        return Source(
            directory=directory,
            facts=engine.facts(),
            task=workload.task,
            eos_ids=engine.eos_ids,
            rows=read_rows(workload.rows),
            trust_remote_code=workload.trust_remote_code,
        )

    def convert(self, recipe: Recipe, source: Source, target: str, threads: int | None) -> None:
        """Build a plain directory for another runtime."""
        from ftprof.profiler.built import build
        from ftprof.profiler.ort_session import thread_count

        build(recipe, source, Path(target), thread_count(threads))

    def probe_depths(
        self, cases: Sequence[ProbeCase], source: Source, scratch: str, budget_s: float
    ) -> tuple[ProbeResult, ...]:
        """Time shallow copies of a plain directory on other runtimes."""
        from ftprof.profiler.depth_probe import run_depth_probes

        return run_depth_probes(tuple(cases), source, Path(scratch), budget_s=budget_s)
