"""The worker's side: build a workload with its changes and answer the conductor's requests.

Lives here and not in the profiler because it hands the rules' transforms down to the engine.
"""

from __future__ import annotations

import gc
import importlib.util
import inspect
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ftprof.advisors.builder import Builder
from ftprof.advisors.changes import applied, changed_call
from ftprof.advisors.worker_device import DeviceService, bytes_before, device_free_bytes
from ftprof.advisors.worker_experiments import ExperimentService
from ftprof.profiler.processes import Failure, RequestFailed, quiet_start
from ftprof.profiler.workload import Workload, generates

if TYPE_CHECKING:
    from ftprof.profiler.load import LoadTimes
    from ftprof.profiler.nvml import Sampler
    from ftprof.profiler.outputs import Greedy, Reference, Scored
    from ftprof.profiler.record import (
        AdapterFacts,
        HostFrame,
        Machine,
        ModelFacts,
        ModuleTrace,
        OpTrace,
        Phase,
        PhaseWaits,
        ProbeCase,
        ProbeResult,
    )
    from ftprof.profiler.workload import Call


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A worker is ready: what it holds and what the load took."""

    model: ModelFacts
    adapter: AdapterFacts | None
    call: Call
    import_s: float
    build_s: float
    adapter_s: float
    apply_s: float
    evicted: bool
    read_bytes: int | None
    before_bytes: int
    threads: int
    eos: tuple[int, ...]
    device_free_bytes: int | None = None
    """What the GPU could still hold after the load; None on the CPU."""


class Service:
    """The requests that a worker answers; one engine at a time."""

    def __init__(self) -> None:
        self._engine: Any = None
        self._workload: Any = None
        self._rows: Any = ()
        self.sampler: Sampler | None = None

    def load(self, workload: Workload, evict: Sequence[str] = ()) -> Loaded:
        """Build the engine; with `evict`, ask the kernel first to drop these files from its cache."""
        import torch

        from ftprof.profiler import preload, residency
        from ftprof.profiler.rows import read_rows

        before = bytes_before(workload.device)
        evicted = residency.evict(Path(path) for path in evict) if evict else False
        read = residency.read_bytes()
        self._workload, self._rows = workload, read_rows(workload.rows)
        times, apply_s = self._open(workload)
        if workload.device.startswith("cuda"):
            from ftprof.profiler.nvml import watch

            self.sampler = watch(workload.device)
        # What is loaded stays; the collections between samples need not look at it again.
        gc.collect()
        gc.freeze()
        return Loaded(
            model=self._engine.facts(),
            adapter=self._engine.adapter(),
            call=self._engine.call,
            import_s=preload.IMPORT_S,
            build_s=times.build_s,
            adapter_s=times.adapter_s,
            apply_s=apply_s,
            evicted=evicted,
            read_bytes=None if read is None else (residency.read_bytes() or 0) - read,
            before_bytes=before,
            threads=torch.get_num_threads(),
            eos=self._engine.eos_ids,
            device_free_bytes=device_free_bytes(workload.device),
        )

    def _open(self, workload: Workload) -> tuple[LoadTimes, float]:
        """Build the engine on PyTorch with its changes, or open what was built for another runtime."""
        import time

        from ftprof.profiler.built import MANIFEST, open_built
        from ftprof.profiler.load import LoadTimes, load_engine
        from ftprof.profiler.ort_engine import open_onnx

        if workload.built:
            begin = time.perf_counter()
            built, call = Path(workload.built), changed_call(workload)
            if (built / MANIFEST).is_file():
                self._engine, apply_s = open_built(built, call, workload.device), 0.0
            else:
                opened = open_onnx(built, call, workload.task, device=workload.device)
                self._engine, apply_s = applied(opened, workload)
            return LoadTimes(build_s=time.perf_counter() - begin - apply_s, adapter_s=0.0), apply_s
        engine, times = load_engine(workload, changed_call(workload))
        self._engine, apply_s = applied(engine, workload)
        return times, apply_s

    def token_lengths(self) -> list[int]:
        """Prompt tokens of every row."""
        return [len(ids) for ids in self._engine.tokenise([row.prompt for row in self._rows])]

    def completion_lengths(self) -> list[int]:
        """Tokens of the completions that rows have."""
        texts = [row.completion for row in self._rows if row.completion]
        return [len(ids) for ids in self._engine.tokenise(texts)] if texts else []

    def replan(self, workload: Workload) -> None:
        """Take over scenarios and token counts; the engine stays."""
        self._workload = workload

    @property
    def holds(self) -> tuple[Any, Workload]:
        """The engine and its workload."""
        return self._engine, self._workload

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases that are traced."""
        return ("prefill", "decode") if generates(self._workload.task) else ("forward",)

    def unit_rows(self, scenario: str, unit: int) -> list[Any]:
        """The rows of one unit."""
        units = self._workload.scenario(scenario).units
        return [self._rows[row] for row in units[unit % len(units)]]

    def unit(self, scenario: str, unit: int, new_tokens: int | None = None) -> dict[str, float]:
        """Seconds by phase of one sample: the mean of the scenario's repeats."""
        from ftprof.profiler.units import run_unit

        count = self._workload.tokens(scenario) if new_tokens is None else new_tokens
        rows = self.unit_rows(scenario, unit)
        repeats = self._workload.scenario(scenario).repeats
        taken = [run_unit(self._engine, self._workload.task, rows, count) for _ in range(repeats)]
        return {phase: sum(times[phase] for times in taken) / repeats for phase in taken[0]}

    def warm(self, scenario: str, unit: int) -> None:
        """A short run whose time nobody looks at, after another worker had the machine."""
        from ftprof.profiler.units import WARM_TOKENS, run_unit

        rows = self.unit_rows(scenario, unit)[: self._engine.call.batch_size]
        run_unit(self._engine, self._workload.task, rows, WARM_TOKENS)

    def set_adapter(self, on: bool) -> None:
        """Switch the adapter's part of the work on or off; its wrappers stay."""
        from ftprof.profiler.adapter_switch import set_adapter

        set_adapter(self._engine.model, on)

    def first_ids(self, scenario: str, unit: int) -> list[Any]:
        """Token ids of the first batch of a unit."""
        from ftprof.profiler.batching import plan

        ids = self._engine.tokenise([row.prompt for row in self.unit_rows(scenario, unit)])
        return [ids[row] for row in plan([len(row) for row in ids], self._engine.call)[0]]

    def _first(self, scenario: str, unit: int) -> Any:
        return self._engine.pad(self.first_ids(scenario, unit))

    def tokens_made(self, new_tokens: int) -> int:
        """New tokens of a run; an encoder makes none."""
        return new_tokens if generates(self._workload.task) else 0

    def _stamped(self, scenario: str, unit: int, new_tokens: int) -> Callable[[], tuple[int, ...]]:
        from ftprof.profiler.units import stamped

        return stamped(self._engine, self._first(scenario, unit), self.tokens_made(new_tokens))

    def first_batch(self, scenario: str, unit: int, new_tokens: int, repeats: int) -> dict[str, list[float]]:
        """Untraced seconds of what `trace` runs (the first batch of a unit): samples by phase, decode per step."""
        from ftprof.profiler.windows import seconds_by_phase

        run = self._stamped(scenario, unit, new_tokens)
        run()
        times = seconds_by_phase([run() for _ in range(repeats)], self.phases)
        return {phase: list(samples) for phase, samples in times.items()}

    def trace(
        self, scenario: str, unit: int, new_tokens: int, untraced: dict[str, float], machine: Machine, repeats: int
    ) -> tuple[OpTrace, ...]:
        """Ops of the first batch of a unit, by phase."""
        traces: tuple[OpTrace, ...] = self._engine.op_traces(
            self._first(scenario, unit),
            self.tokens_made(new_tokens),
            scenario=scenario,
            untraced=untraced,
            machine=machine,
            repeats=repeats,
        )
        return traces

    def modules(
        self, scenario: str, unit: int, new_tokens: int, untraced: dict[str, float], machine: Machine, repeats: int
    ) -> tuple[ModuleTrace, ...]:
        """Modules of the first batch of a unit, by phase; none where the model is a graph, or runs beside its host."""
        from ftprof.profiler.modules import trace_modules

        # On a GPU a `forward` returns when its work is queued, and its length says nothing about that work.
        if self._workload.built or self._workload.device.startswith("cuda"):
            return ()
        run = self._stamped(scenario, unit, new_tokens)
        return trace_modules(
            self._engine.model,
            run,
            scenario=scenario,
            phases=self.phases,
            untraced=untraced,
            machine=machine,
            repeats=repeats,
            switch=self._switch(),
        )

    def _switch(self) -> Callable[[bool], None] | None:
        """Turns the adapter on and off; None where there is none, or PEFT cannot."""
        from ftprof.profiler.errors import FtprofError

        if self._engine.adapter() is None:
            return None
        try:
            self.set_adapter(False)
            self.set_adapter(True)
        except FtprofError:
            return None
        return self.set_adapter

    def frames(self, scenario: str, unit: int, new_tokens: int) -> tuple[HostFrame, ...]:
        """Python frames of the first batch of a unit; none where the sampler is not installed (a foreign stack)."""
        from ftprof.profiler.frames import sample_frames

        if importlib.util.find_spec("pyinstrument") is None:
            return ()
        return sample_frames(self._stamped(scenario, unit, new_tokens))

    def waits(self, scenario: str, unit: int, new_tokens: int) -> tuple[PhaseWaits, ...]:
        """Waits for files and others in the first batch of a unit, by phase; on a GPU those that its trace shows."""
        if isinstance(seen := getattr(self._engine, "device_waits", None), dict):
            return tuple(seen.get(scenario, ()))
        from ftprof.profiler.waits import trace_waits

        return trace_waits(self._stamped(scenario, unit, new_tokens), scenario=scenario, phases=self.phases)

    def probe(self, cases: Sequence[ProbeCase], budget_s: float) -> tuple[ProbeResult, ...]:
        """Time what rules asked for."""
        from ftprof.profiler.probe import run_probes

        return run_probes(tuple(cases), self._engine, budget_s=budget_s)

    def padding(self, scenario: str) -> Any:
        """Token counts of a scenario's first unit under the call."""
        from ftprof.profiler.batching import padding_facts

        lengths = [len(ids) for ids in self._engine.tokenise([row.prompt for row in self.unit_rows(scenario, 0)])]
        return padding_facts(scenario, lengths, self._engine.call)

    def reference(self, folder: str, limit: int, budget_s: float) -> Reference:
        """Write what candidates are judged against (causal models)."""
        from ftprof.profiler.outputs import write_reference

        return write_reference(
            self._engine,
            self._rows,
            Path(folder),
            new_tokens=self._workload.new_tokens,
            limit=limit,
            eos=tuple(
                dict.fromkeys(
                    ([self._engine.eos_id] if self._engine.eos_id is not None else []) + [*self._engine.eos_ids]
                )
            ),
            budget_s=budget_s,
        )

    def scores(self, reference: Reference, folder: str) -> Scored:
        """Divergences from the reference."""
        from ftprof.profiler.outputs import score

        return score(self._engine, reference, Path(folder))

    def greedy(self) -> Greedy:
        """Greedy continuations of the first prompts."""
        from ftprof.profiler.outputs import greedy

        return greedy(self._engine, self._rows, self._workload.new_tokens)

    def encoder_outputs(self, path: str, budget_s: float, rows: int | None = None) -> int:
        """Write probabilities or vectors of the first `rows` rows to `path` (.npy); how many were done."""
        import numpy as np

        from ftprof.profiler.outputs import encoder_outputs

        values = encoder_outputs(self._engine, self._workload.task, self._rows[:rows], budget_s)
        np.save(path, values)
        return len(values)

    def fingerprint(self, count: int = 4) -> list[float]:
        """A few output figures of the first prompts, to compare a reloaded artefact with."""
        ids = self._engine.tokenise([row.prompt for row in self._rows[:count]])
        values = self._engine.embed(ids) if self._workload.task == "embedding" else self._engine.logits(ids)
        if values.ndim == 3:
            values = values[range(len(ids)), [len(row) - 1 for row in ids]]
        return [float(x) for x in values[:, : min(64, values.shape[1])].ravel()]

    def save(self, directory: str) -> None:
        """Write the engine's model as a plain directory."""
        self._engine.save(Path(directory))


def serve(pipe: Connection, log: str) -> None:
    """Answer requests until the conductor goes away."""
    quiet_start(log)
    held = Service()
    methods = {
        name: method
        for service in (held, DeviceService(held), ExperimentService(held), Builder())
        for name, method in inspect.getmembers(service, inspect.ismethod)
        if name[0] != "_"
    }
    while True:
        try:
            method, args, named = pipe.recv()
        except EOFError:
            return
        try:
            answer: Any = methods[method](*args, **named)
        except Exception as error:  # noqa: BLE001  whatever it is, the conductor decides
            answer = Failure(_sendable(error), traceback.format_exc())
        try:
            pipe.send(answer)
        except BrokenPipeError:
            return


def _sendable(error: Exception) -> Exception:
    from ftprof.profiler.errors import FtprofError

    if isinstance(error, FtprofError):
        return error
    # Third-party exceptions need not survive pickling, and only their first line says something to a person.
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    return RequestFailed(f"{type(error).__name__}: {line[:300]}", "run again with --debug for the traceback")
