"""A model measured as every run of ftprof measures it before any fix, with a budget that starts again part by part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ftprof.advisors.budget import Budget
from ftprof.profiler.record import Machine

BASELINE_S = 60.0
"""The baseline takes the shares of its time that it takes of such a run."""


class Laps(Budget):
    """A budget that starts again for each part: fixes are measured until all are, whatever the part before took."""

    def lap(self) -> None:
        self._begin = self._clock()


@contextmanager
def workplace(seed: int, **options: Any) -> Iterator[Any]:
    """A context with laps of `BASELINE_S`; its workers and files are gone afterwards."""
    from ftprof.advisors.context import Context, Options
    from ftprof.advisors.progress import Silent

    with TemporaryDirectory(prefix="ftprof-truth-") as folder:
        context = Context(
            options=Options(**options),
            budget=Laps(BASELINE_S),
            progress=Silent(),
            scratch=Path(folder),
            device="cpu",
            seed=seed,
        )
        try:
            yield context
        finally:
            context.end_workers()


def measured(context: Any, files: tuple[Path, Path | None, Path, Any], machine: Machine) -> Any:
    """The `Best` that a run starts from: the model as called, with its whole baseline. `files`: model, base, data, call."""
    from ftprof.advisors import baseline
    from ftprof.advisors.context import objective_of
    from ftprof.advisors.improve import Best
    from ftprof.advisors.run import Request, workload_of
    from ftprof.advisors.variant import Variant
    from ftprof.profiler.directory import inspect
    from ftprof.profiler.ledger import diagnose
    from ftprof.profiler.processes import prepare
    from ftprof.profiler.rows import load_rows

    model, base, data, call = files
    located = inspect(str(model), base=str(base) if base else None, offline=True)
    rows = load_rows(str(data), task=located.task, labels=located.labels)
    request = Request(located=located, rows=rows, call=call, options=context.options, offline=True)
    prepare("cpu", offline=True)
    context.budget.lap()
    original = Variant(context, "original", workload_of(request, context.scratch))
    opened = baseline.open_model(context, original, [])
    record = baseline.quick_look(context, original, opened, machine)
    record, _ = baseline.complete(context, original, opened, record, 0)
    names = tuple(scenario.name for scenario in record.workload.scenarios) if record.workload else ()
    objective = objective_of("e2e", located.task, names)
    context.budget.lap()
    return Best(variant=original, record=record, diagnosis=diagnose(record, *objective), objective=objective)
