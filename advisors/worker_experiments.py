"""The worker's answers about what limits a model: the experiments that confirm or contradict a bound.

Method: Verdicts (docs/method.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ftprof.advisors.worker import Service
    from ftprof.profiler.record import Doubling, HostTwin, Pretokenised, ThreadScaling


class ExperimentService:
    """Each changes the work in a known way, on the first batch of a unit, and times it both ways in turns."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def twin(self, new_tokens: int) -> tuple[HostTwin, ...]:
        """Untraced times of the same model with hardly any width; raises where none can be made."""
        from ftprof.profiler.narrow import narrow_engine, time_twin

        engine, workload = self._service.holds
        if workload.built:
            return ()
        return time_twin(narrow_engine(engine), self._service.tokens_made(new_tokens), phases=self._service.phases)

    def threads(self, scenario: str, unit: int, new_tokens: int, budget_s: float) -> tuple[ThreadScaling, ...]:
        """With one thread and with all, by phase; none where no threads of PyTorch compute."""
        from ftprof.profiler.thread_scaling import scale_threads

        engine, workload = self._service.holds
        if workload.built or workload.device.startswith("cuda"):
            return ()
        return scale_threads(
            engine,
            engine.pad(self._service.first_ids(scenario, unit)),
            self._service.tokens_made(new_tokens),
            scenario=scenario,
            phases=self._service.phases,
            budget_s=budget_s,
        )

    def pretokenised(self, scenario: str, unit: int, budget_s: float) -> Pretokenised:
        """The whole unit with its tokeniser and without."""
        from ftprof.profiler.pretokenised import skip_tokeniser

        engine, workload = self._service.holds
        rows, tokens = self._service.unit_rows(scenario, unit), workload.tokens(scenario)
        return skip_tokeniser(engine, workload.task, rows, tokens, scenario=scenario, budget_s=budget_s)

    def doubling(self, scenario: str, unit: int, new_tokens: int, budget_s: float) -> tuple[Doubling, ...]:
        """With every row once and twice, by phase."""
        from ftprof.profiler.doubling import double_rows

        return double_rows(
            self._service.holds[0],
            self._service.first_ids(scenario, unit),
            self._service.tokens_made(new_tokens),
            scenario=scenario,
            phases=self._service.phases,
            budget_s=budget_s,
        )
