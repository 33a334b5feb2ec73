"""What `ftprof diagnose` measures of a model, taken in this process: the record, and the diagnosis made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from benchmarks.truth.stacks import Stack
from ftprof.profiler.diagnosis import PhaseDiagnosis
from ftprof.profiler.doubling import double_rows
from ftprof.profiler.ledger import diagnose
from ftprof.profiler.narrow import narrow_engine, time_twin
from ftprof.profiler.record import Machine, Measurement, Phase, PhaseTiming, RunRecord
from ftprof.profiler.thread_scaling import scale_threads
from ftprof.profiler.units import stamped
from ftprof.profiler.waits import trace_waits
from ftprof.profiler.windows import no_collection, seconds_by_phase
from ftprof.profiler.workload import Scenario, Workload

RUNS = 7


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to diagnose: an engine, the rows it runs on (token ids), and how many tokens it makes."""

    engine: Any
    ids: Sequence[Sequence[int]]
    new_tokens: int = 0
    twin: Any = None
    """Its narrow twin, where that has plants of its own; else one is made."""

    @property
    def phases(self) -> tuple[Phase, ...]:
        return ("prefill", "decode") if self.new_tokens else ("forward",)


def untraced(subject: Subject, runs: int = RUNS) -> dict[str, tuple[float, ...]]:
    """Seconds per occurrence of each phase, after one run that does not count."""
    run = stamped(subject.engine, subject.engine.pad(subject.ids), subject.new_tokens)
    with no_collection():
        run()
        taken = [run() for _ in range(runs)]
    return dict(seconds_by_phase(taken, subject.phases).items())


def observe(subject: Subject, machine: Machine, *, experiments: bool = True) -> RunRecord:
    """Untraced times first, then the trace and the waits, and the experiments that confirm a bound if they are asked
    for; the ledger's shares do not need them."""
    engine, batch = subject.engine, subject.engine.pad(subject.ids)
    times = untraced(subject)
    medians = {phase: sorted(samples)[len(samples) // 2] for phase, samples in times.items()}
    ops = engine.op_traces(batch, subject.new_tokens, scenario="single", untraced=medians, machine=machine, repeats=2)
    run = stamped(engine, batch, subject.new_tokens)
    waits = trace_waits(run, scenario="single", phases=subject.phases)
    record = RunRecord(
        workload=_workload(subject),
        machine=machine,
        timing=tuple(
            PhaseTiming(scenario="single", phase=phase, time_s=Measurement(samples=samples))  # type: ignore[arg-type]
            for phase, samples in times.items()
        ),
        ops=ops,
        waits=waits,
    )
    if not experiments:
        return record
    doubling = double_rows(
        engine, subject.ids, subject.new_tokens, scenario="single", phases=subject.phases, budget_s=2.0
    )
    threads = scale_threads(engine, batch, subject.new_tokens, scenario="single", phases=subject.phases, budget_s=1.0)
    return msgspec.structs.replace(record, doubling=doubling, threads=threads, twin=_twin(subject))


def _twin(subject: Subject) -> Any:
    """The narrow twin's times, where the subject has one."""
    engine = subject.engine
    if isinstance(engine, Stack):
        if engine.narrow is None:
            return None
        return time_twin(Stack(engine.narrow), 0, phases=subject.phases)  # type: ignore[arg-type]
    twin = subject.twin if subject.twin is not None else narrow_engine(engine)
    return time_twin(twin, subject.new_tokens, phases=subject.phases)


def _workload(subject: Subject) -> Workload:
    rows = tuple(range(len(subject.ids)))
    return Workload(
        model="planted",
        task="causal-lm" if subject.new_tokens else "embedding",
        rows="",
        rows_digest="",
        new_tokens=subject.new_tokens,
        prompt_tokens=tuple(len(row) for row in subject.ids),
        scenarios=(Scenario(name="single", units=(rows,)),),
    )


def verdict(record: RunRecord, phase: str) -> PhaseDiagnosis:
    """The diagnosis of one phase."""
    found = diagnose(record, "single", phase).phase("single", phase)
    assert found is not None, f"{phase} was timed"
    return found
