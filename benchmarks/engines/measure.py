"""One sample: the competent baseline, then each candidate in turns with it, judged on two splits of the data."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.engines.candidates import AS_LOADED, MERGED, MERGED_BF16, Candidate, converted, in_order
from ftprof.advisors import baseline
from ftprof.advisors.budget import Budget
from ftprof.advisors.context import Context, Options, objective_of
from ftprof.advisors.conversions import with_built
from ftprof.advisors.duel import duel, ratios
from ftprof.advisors.gate import Gate, open_gate
from ftprof.advisors.laxest import laxest
from ftprof.advisors.progress import Silent
from ftprof.advisors.run import Request, workload_of
from ftprof.advisors.variant import Variant, VariantArm
from ftprof.profiler.comparison import Ratio
from ftprof.profiler.directory import inspect
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.processes import prepare
from ftprof.profiler.quality import Safety
from ftprof.profiler.rows import load_rows
from ftprof.profiler.workload import Call, Workload
from ftprof.samples.demo import HERE, demo_sample

MAX_LOSS: Safety = "int4"


class Bench:
    """One sample, opened once: workload, machine, record, and a gate on each split."""

    def __init__(
        self, name: str, scratch: Path, *, quads: int, new_tokens: int, seconds: float, first_only: bool
    ) -> None:
        sample = demo_sample(name)
        prepare("cpu", offline=True)
        self.quads, self.first_only = quads, first_only
        self.located = inspect(str(sample.model), base=str(sample.base), offline=True)
        options = Options(max_loss=MAX_LOSS)
        self.context = Context(
            options=options, budget=Budget(seconds), progress=Silent(), scratch=scratch, device="cpu"
        )
        self.call = Call(new_tokens=new_tokens)
        workload, rows = self._workload(str(sample.data), scratch)
        machine, _ = baseline.limits(self.context)
        original = Variant(self.context, "original", workload)
        opened = baseline.open_model(self.context, original, [])
        self.workload: Workload = opened.workload
        self.record = baseline.quick_look(self.context, original, opened, machine)
        self.gates: list[tuple[Context, Workload, Gate]] = [
            (self.context, self.workload, open_gate(self.context, original, rows))
        ]
        original.close()
        self._second_split(scratch)
        self.objective = objective_of("e2e", self.workload.task, tuple(s.name for s in self.workload.scenarios))

    def _workload(self, data: str, scratch: Path) -> tuple[Workload, Any]:
        rows = load_rows(data, task=self.located.task, labels=self.located.labels)
        request = Request(located=self.located, rows=rows, call=self.call, options=self.context.options)
        return workload_of(request, scratch), rows.rows

    def _second_split(self, scratch: Path) -> None:
        """The other split in a folder of its own, since each gate leaves its reference there; graphs are shared."""
        folder = scratch / "second"
        folder.mkdir()
        (scratch / "built").mkdir(exist_ok=True)
        (folder / "built").symlink_to(scratch / "built")
        context = Context(
            options=self.context.options,
            budget=self.context.budget,
            progress=Silent(),
            scratch=folder,
            device="cpu",
            workers=self.context.workers,
            builders=self.context.builders,
            sources=self.context.sources,
        )
        workload, rows = self._workload(str(HERE / "tickets" / "unseen.jsonl"), folder)
        workload = msgspec.structs.replace(
            self.workload, rows=workload.rows, rows_digest=workload.rows_digest, prompt_tokens=()
        )
        original = Variant(context, "original, second split", workload)
        try:
            self.gates.append((context, workload, open_gate(context, original, rows)))
        finally:
            original.close()

    def candidates(self) -> list[Candidate]:
        native = [AS_LOADED, MERGED_BF16, in_order(MERGED), in_order(MERGED_BF16)]
        return [*native, *converted(self.record, MAX_LOSS, first_only=self.first_only)]

    def baseline(self) -> tuple[Candidate, dict[str, Any]]:
        """The faster of merged and merged in bf16: what a competent user of PyTorch would run."""
        found = self.against(MERGED, MERGED_BF16)
        return (MERGED_BF16 if found["verdict"] == "faster" else MERGED), found

    def variant(self, candidate: Candidate) -> Variant:
        workload = msgspec.structs.replace(self.workload, changes=candidate.changes)
        return Variant(self.context, candidate.name, workload)

    def against(self, base: Candidate, candidate: Candidate) -> dict[str, Any]:
        """Candidate in turns with the baseline, by scenario and phase, with what it takes to get it."""
        a, b = self.variant(base), self.variant(candidate)
        try:
            begin = time.perf_counter()
            b.handle()
            ready_s = time.perf_counter() - begin
            times = {name: self._duel(a, b, name) for name in self._scenarios()}
            scenario, phase = self.objective
            size = b.loaded.model.weight_bytes if b.loaded else None
            return {
                "candidate": candidate.name,
                "over": base.name,
                "ratios": {name: {p: _plain(r) for p, r in found.items()} for name, (found, _) in times.items()},
                "seconds": {name: seconds for name, (_, seconds) in times.items()},
                "verdict": times[scenario][0][phase].verdict,
                "speedup": _plain(times[scenario][0][phase]),
                "ready_s": ready_s,
                "size_bytes": self._size(b.workload) or size,
            }
        finally:
            a.close()
            b.close()

    def _scenarios(self) -> list[str]:
        return [scenario.name for scenario in self.workload.scenarios]

    def _duel(self, a: Variant, b: Variant, scenario: str) -> tuple[dict[str, Ratio], dict[str, float]]:
        now, budget = self.context.budget.now, self.context.budget
        samples = duel(
            VariantArm(a),
            VariantArm(b),
            scenario,
            quads=self.quads if scenario == self.objective[0] else 3,
            least=3,
            deadline=budget.until(60.0),
            now=now,
            watch=self.objective[1] if scenario == self.objective[0] else "e2e",
        )
        middle = {p: sorted(samples.of("B", p))[len(samples.of("B", p)) // 2] for p in samples.phases}
        return ratios(samples), middle

    def _size(self, workload: Workload) -> int | None:
        """Bytes on the disk of what was built; None where nothing was."""
        built = with_built(self.context, workload).built
        return sum(path.stat().st_size for path in Path(built).rglob("*") if path.is_file()) if built else None

    def judged(self, candidate: Candidate) -> list[dict[str, Any]]:
        """The gate's verdict and figures on both splits; nothing for the model as loaded itself."""
        if not candidate.changes:
            return []
        found = []
        for context, workload, gate in self.gates:
            variant = Variant(context, candidate.name, msgspec.structs.replace(workload, changes=candidate.changes))
            try:
                variant.handle()
                dtype = variant.loaded.model.dtype if variant.loaded else ""
                check = gate.check(variant, *laxest([change.rule for change in candidate.changes], dtype))
                figures = {name: figure.value for name, figure in check.figures.items()}
                found.append({"verdict": check.verdict, "why": check.why, "figures": figures})
            finally:
                variant.close()
        return found


def _plain(ratio: Ratio) -> list[float]:
    return [ratio.speedup, ratio.low, ratio.high]


@contextmanager
def opened(name: str, scratch: Path, **options: Any) -> Iterator[Bench]:
    bench = Bench(name, scratch, **options)
    try:
        yield bench
    finally:
        bench.context.end_workers()


def rows_of(bench: Bench, done: Collection[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """A row for each candidate that is not done over this baseline; one that fails is a row that says why."""
    base, found = bench.baseline()
    yield {"candidate": base.name, "baseline": True, "choice": found, "quality": bench.judged(base)}
    for candidate in bench.candidates():
        if (base.name, candidate.name) in done or candidate == base:
            continue
        try:
            yield bench.against(base, candidate) | {"native": candidate.native, "quality": bench.judged(candidate)}
        except FtprofError as error:
            yield {"candidate": candidate.name, "error": error.message}
