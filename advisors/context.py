"""What every stage of a run needs: the user's choices, the clock, scratch space and how workers are started."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ftprof.advisors.budget import Budget
from ftprof.advisors.progress import Progress
from ftprof.advisors.worker import serve
from ftprof.profiler.processes import Handle
from ftprof.profiler.quality import Safety
from ftprof.profiler.workload import Task, generates

if TYPE_CHECKING:
    from ftprof.profiler.built import Source

OBJECTIVES = {"e2e": "e2e", "ttft": "prefill", "tpot": "decode", "throughput": "e2e"}
"""Phase behind each `--objective`; throughput is that of the batch scenario."""

GRACE_S = 15.0
"""A request that is running when the budget ends may finish within this; after it the worker is ended."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The choices of a run."""

    objective: str = "e2e"
    max_loss: Safety = "int8"
    runtime: Literal["any", "torch"] = "any"
    """Whether fixes may move the model to another runtime."""
    guards: dict[str, float] = field(default_factory=dict)
    fixes: bool = True
    save: Path | None = None
    memory_limit_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Context:
    """Handed down to every stage."""

    options: Options
    budget: Budget
    progress: Progress
    scratch: Path
    device: str
    seed: int = 0
    workers: list[Handle] = field(default_factory=list)
    """Every worker that was started, so that none is left behind, stopped or not, however the run ends."""
    builders: list[Handle] = field(default_factory=list)
    """Workers that convert models for other runtimes; the last one is in use."""
    sources: dict[str, Source] = field(default_factory=dict)
    """Plain directories that conversions started from, by what went into them."""

    def start(self, name: str) -> Handle:
        """A worker that holds nothing yet."""
        handle = Handle(serve, name, self.scratch / f"{name}.log", self.device)
        self.workers.append(handle)
        return handle

    def end_workers(self) -> None:
        """End every worker that still runs."""
        for handle in self.workers:
            handle.kill()

    def patience(self, seconds: float = 600.0) -> float:
        """How long one request may take: until GRACE_S after the budget's end, so that the wall stays hard."""
        return min(seconds, max(1.0, self.budget.total_s + GRACE_S - self.budget.spent()))


def objective_of(objective: str, task: Task, scenarios: tuple[str, ...]) -> tuple[str, str]:
    """(scenario, phase) that decides: e2e of a single request by default; for encoders a forward pass, of the batch
    scenario where there is one, since encoders are called in batches."""
    if not generates(task):
        return ("batch" if "batch" in scenarios else "single", "forward" if objective == "e2e" else "e2e")
    phase = OBJECTIVES[objective]
    return ("batch" if objective == "throughput" and "batch" in scenarios else "single", phase)
