"""Checks of our own runs: the engine's split of host and device, its bytes, its energy, and a PEFT trace for keeps."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu_check.models import TEXT, Shape, llama, tokenizer, with_adapter
from benchmarks.gpu_check.rows import Line, line

NEW_TOKENS = 16
TRACED_TOKENS = 4
SMALL_BYTES = 16 << 20


def engine_of(shape: Shape, device: str) -> Any:
    """The engine around a random model with its adapter."""
    from ftprof.profiler.torch_engine import TorchEngine
    from ftprof.profiler.workload import Call

    model = with_adapter(llama(shape, device), shape, device)
    return TorchEngine(model, tokenizer(), Call(), "causal-lm")


def engine_lines(name: str, engine: Any, machine: Any, device: str) -> Iterator[Line]:
    """Timing, trace, ledger and energy of one model in this process."""
    from ftprof.profiler.units import stamped
    from ftprof.profiler.windows import per_occurrence

    batch = engine.pad(engine.tokenise([TEXT]))
    run = stamped(engine, batch, NEW_TOKENS)
    run()
    times = per_occurrence([run() for _ in range(3)], ("prefill", "decode"))
    yield line(
        f"{name}: untraced times",
        f"prefill {1e3 * times['prefill']:.1f} ms, decode {1e3 * times['decode']:.2f} ms a token",
        0 < times["decode"] < times["prefill"] * 50,
    )
    traces = engine.op_traces(batch, TRACED_TOKENS, scenario="single", untraced=times, machine=machine, repeats=1)
    yield from _ledgers(name, traces, times, machine, engine)
    if device == "cpu":
        yield Line(f"{name}: split of host and device", "no GPU", "not exercised")
        yield Line(f"{name}: energy a token", "no GPU", "not exercised")
        return
    yield from _split(name, engine)
    yield from _bytes(name, engine, machine, times["decode"])
    yield from _energy(name, engine, batch, device)


def _ledgers(name: str, traces: Any, times: dict[str, float], machine: Any, engine: Any) -> Iterator[Line]:
    from ftprof.profiler.ledger import trace_ledger
    from ftprof.profiler.record import RunRecord

    on_gpu = engine.device_waits is not None
    waits = tuple(wait for found in (engine.device_waits or {}).values() for wait in found)
    for trace in traces:
        parts = trace_ledger(trace, machine, times[trace.phase], RunRecord(waits=waits))
        groups = {key: value / times[trace.phase] for key, value in parts.ledger.grouped().items()}
        said = ", ".join(f"{key} {value:.0%}" for key, value in groups.items() if value >= 0.005)
        off = abs(parts.ledger.total_s - times[trace.phase])
        yield line(
            f"{name}: ledger of {trace.phase}", said, off < 1e-6 and (not on_gpu or groups["unattributed"] < 0.25)
        )
    if len(traces) != 2:
        yield line(f"{name}: both phases traced", f"{len(traces)} of 2; {engine.device_notes}", False)


def _split(name: str, engine: Any) -> Iterator[Line]:
    for phase in engine.device_phases:
        total = sum(round(1e9 * value) for value in phase.partition.parts().values())
        said = ", ".join(
            f"{key} {value / phase.partition.total_s:.0%}"
            for key, value in phase.partition.parts().items()
            if value >= 0.005 * phase.partition.total_s
        )
        exact = total == round(1e9 * phase.partition.total_s)
        yield line(f"{name}: {phase.phase} split, parts sum to {total} ns", said, exact and phase.partition.busy_s > 0)


def _bytes(name: str, engine: Any, machine: Any, step_s: float) -> Iterator[Line]:
    """A decode step reads every weight once, so it can be no faster than the memory."""
    held = sum(weight.numel() * weight.element_size() for weight in engine.model.parameters())
    best = max(point.bytes_per_s for point in machine.bandwidth)
    share = held / step_s / best
    said = f"{held / 1e9:.2f} GB in {1e3 * step_s:.2f} ms: {share:.0%} of the measured bandwidth"
    yield line(f"{name}: weights read by a decode step", said, 0 < share < 1.1)


def _energy(name: str, engine: Any, batch: Any, device: str) -> Iterator[Line]:
    from ftprof.profiler.nvml import device_use, watch
    from ftprof.profiler.nvml_energy import token_energy

    sampler = watch(device)
    if sampler is None:
        yield Line(f"{name}: energy a token", "NVML does not answer", "not exercised")
        return
    found = token_energy(
        sampler,
        lambda: sum(len(row) for row in engine.generate(batch, NEW_TOKENS).tokens),
        scenario="single",
    )
    use = device_use(sampler.stop())
    joules = f"{found.per_token_j:.3g} J" if found else "not known"
    yield line(f"{name}: energy a token", joules, found is not None and found.per_token_j > 0)
    shares = f"SM {use.sm}, tensor {use.tensor}, DRAM {use.dram}" if use else "no readings"
    yield Line(f"{name}: GPM while generating", shares, "ok" if use and use.dram is not None else "not exercised")


def peft_trace_lines(engine: Any, device: str, target: Path) -> Iterator[Line]:
    """A trace of a PEFT LoRA generating, trimmed to two steps and written to `target`; no such trace is public."""
    from torch.profiler import ProfilerActivity, profile

    from ftprof.profiler.traces.analyse import analyse
    from ftprof.profiler.traces.trim import trim_steady

    batch = engine.pad(engine.tokenise([TEXT]))
    engine.generate(batch, TRACED_TOKENS)
    kinds = [ProfilerActivity.CPU, *([] if device == "cpu" else [ProfilerActivity.CUDA])]
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        path = Path(folder) / "lora.json.gz"
        with profile(activities=kinds, record_shapes=True, with_stack=True) as profiler:
            engine.generate(batch, 2 * TRACED_TOKENS)
        profiler.export_chrome_trace(str(path))
        whole = analyse(path)
        events = trim_steady(whole.files[0], target)
    found = analyse(target).files[0]
    size = target.stat().st_size
    yield line(f"PEFT trace {target.name}", f"{events} events, {size / 1e6:.1f} MB", 0 < size < SMALL_BYTES)
    steps = [step.end_s - step.start_s for step in whole.files[0].steps]
    said = f"{len(steps)} steps, median {1e3 * statistics.median(steps):.2f} ms" if steps else "no steps found"
    yield Line("PEFT trace: steps", said, "ok" if steps else "FAILED")
    if device == "cpu":
        yield Line("PEFT trace: LoRA's share of the device", "no GPU", "not exercised")
        return
    lora = found.lora
    told = f"{lora.device_share:.1%} by {lora.how}, ranks {lora.ranks}" if lora else "LoRA was not recognised"
    yield line("PEFT trace: LoRA's share of the device", told, lora is not None and lora.device_share > 0)
