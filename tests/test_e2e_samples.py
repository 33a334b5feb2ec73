"""Whole runs on the two real samples, and what is found on their planted variants. Slow: minutes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from ftprof.advisors import baseline
from ftprof.advisors import variant as candidate
from ftprof.advisors.advise import WORTHWHILE, Advised, rank
from ftprof.advisors.baseline import phase_timing
from ftprof.advisors.budget import Budget
from ftprof.advisors.context import Context, Options, objective_of
from ftprof.advisors.duel import Samples
from ftprof.advisors.improve import Best, advised
from ftprof.advisors.progress import Silent
from ftprof.advisors.run import Request, workload_of
from ftprof.profiler.callfile import load_call
from ftprof.profiler.digest import digest_directory
from ftprof.profiler.directory import inspect
from ftprof.profiler.ledger import diagnose
from ftprof.profiler.load import load_engine
from ftprof.profiler.outputs import LEAST_TOKENS
from ftprof.profiler.processes import WorkerDied, prepare
from ftprof.profiler.record import Machine
from ftprof.profiler.rows import load_rows
from ftprof.profiler.workload import Call
from ftprof.samples.demo import demo_sample
from ftprof.samples.variants import Variant, build
from tests.test_e2e_tiny import TORCH, audit_of, trial_of

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def limits(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Limits of this machine, measured once."""
    prepare("cpu", offline=True)
    context = _context(tmp_path_factory.mktemp("limits"))
    try:
        return baseline.limits(context)[0]
    finally:
        context.end_workers()


NEW_TOKENS = 6
"""Decode steps are alike; without a cache each costs a prefill."""


def _context(scratch: Path) -> Context:
    return Context(options=TORCH, budget=Budget(200.0), progress=Silent(), scratch=scratch, device="cpu")


def looked_at(variant: Variant, limits: Machine, scratch: Path) -> tuple[Advised, tuple[str, str]]:
    """Advice for the variant from a quick look, a few units of each scenario and the probes that rules ask for."""
    context = _context(scratch)
    located = inspect(str(variant.model), base=str(variant.base) if variant.base else None, offline=True)
    rows = load_rows(str(variant.data), task=located.task, labels=located.labels)
    call = msgspec.structs.replace(load_call(str(variant.call) if variant.call else None), new_tokens=NEW_TOKENS)
    if located.task == "causal-lm":
        call = msgspec.structs.replace(call, batch_size=4)
    request = Request(located=located, rows=rows, call=call, options=TORCH)
    original = candidate.Variant(context, "original", workload_of(request, scratch))
    try:
        opened = baseline.open_model(context, original, [])
        record = baseline.quick_look(context, original, opened, limits)
        handle = original.handle()
        batch = [handle.call("unit", "batch", 0, 2 if located.task == "causal-lm" else None) for _ in range(2)]
        timing = phase_timing({"batch": samples_of(batch)})
        record = msgspec.structs.replace(
            record, timing=(*(record.timing or ()), *timing), padding=handle.call("padding", "batch")
        )
        names = tuple(scenario.name for scenario in opened.workload.scenarios)
        objective = objective_of("e2e", located.task, names)
        best = Best(variant=original, record=record, diagnosis=diagnose(record, *objective), objective=objective)
        return advised(context, best)[1], objective
    finally:
        context.end_workers()


def samples_of(units: list[dict[str, float]]) -> Samples:
    """Samples of one arm."""
    phases = {phase: tuple(unit[phase] for unit in units) for phase in units[0]}
    return Samples(sequence=("A",) * len(units), phases=phases)


def fixes_found(advice: Advised, objective: tuple[str, str]) -> list[str]:
    """Rules whose fix would be tried, in their order."""
    entries = [entry for entry in advice.entries if entry.fixable and entry.error is None and entry.refused is None]
    return [entry.rule for entry in rank(entries, 10.0, objective)]


def skip_where_noise_hid(rule: str, advice: Advised) -> None:
    """Skips where the rule did see a gain, but this machine was too noisy just now for its interval to show it."""
    said = next((sentence for sentence in advice.checked if sentence.startswith(f"{rule}: predicted ")), "")
    numbers = re.search(r"predicted ([\d.]+)x \(([\d.]+) to ([\d.]+)\)", said)
    if numbers and float(numbers[1]) >= 1.0 and float(numbers[3]) >= WORTHWHILE:
        pytest.skip(f"too noisy a machine: {said}")


def test_the_lora_sample_end_to_end(tmp_path: Path) -> None:
    sample = demo_sample("smollm2-tickets")
    before = digest_directory(sample.model), digest_directory(sample.base)
    save = tmp_path / "faster"
    options = Options(save=save, runtime="torch")
    try:
        audit, _ = audit_of(
            sample.model, sample.base, sample.data, options=options, call=Call(new_tokens=NEW_TOKENS), budget_s=70.0
        )
    except WorkerDied as error:
        pytest.skip(f"too slow a machine: {error.message}")
    assert before == (digest_directory(sample.model), digest_directory(sample.base))
    assert audit.settings.complete
    trial = trial_of(audit, "unmerged-adapter")
    assert trial.status == "kept", trial.why
    assert trial.quality is not None
    assert trial.quality.tokens >= LEAST_TOKENS
    assert trial.quality.figures["kl"].value < 1e-4
    assert audit.lora is not None
    assert audit.lora.attributed is not None
    assert audit.lora.ablation is not None
    assert audit.lora.ablation.how.startswith("adapter merged and unloaded")
    assert audit.lora.advice != "leave"
    assert audit.final is not None
    if audit.final.objective is not None:
        assert audit.final.objective.speedup > 1.0
    assert audit.final.artefact is not None
    assert audit.final.artefact.reload == "ok"


def test_the_classifier_sample_end_to_end() -> None:
    sample = demo_sample("minilm-tickets")
    audit, _ = audit_of(sample.model, sample.base, sample.data, budget_s=34.0)
    for rule in ("padded-batches", "unmerged-adapter", "fp32-weights"):
        if any(trial.rule == rule for trial in audit.trials):
            trial_of(audit, rule)
    kept = [trial for trial in audit.trials if trial.status == "kept"]
    assert kept, [(trial.rule, trial.status, trial.why) for trial in audit.trials]
    for trial in kept:
        assert trial.quality is not None
        assert trial.quality.verdict == "pass"
        assert "label_agreement" in trial.quality.figures
    assert audit.final is not None
    assert audit.final.objective is not None
    assert audit.final.objective.speedup > 1.0


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("smollm2-merged-no-cache", "disabled-kv-cache"),
        ("minilm-adapter-dtype", "fp32-adapter"),
        ("minilm-padded", "padded-batches"),
        ("minilm-eager", "eager-attention"),
        ("minilm-fp32", "fp32-weights"),
    ],
)
def test_a_planted_fault_is_found_first(name: str, rule: str, limits: Machine, tmp_path: Path) -> None:
    advice, objective = looked_at(build(name), limits, tmp_path)
    found = fixes_found(advice, objective)
    if rule not in found:
        skip_where_noise_hid(rule, advice)
    assert found[:1] == [rule], advice


@pytest.mark.parametrize("name", ["smollm2-healthy", "minilm-healthy"])
def test_nothing_is_found_on_a_healthy_model(name: str, limits: Machine, tmp_path: Path) -> None:
    advice, _ = looked_at(build(name), limits, tmp_path)
    assert not [entry for entry in advice.entries if entry.safety in ("exact", "rounding")], advice


def test_use_cache_in_config_json_alone_is_no_fault(limits: Machine, tmp_path: Path) -> None:
    advice, _ = looked_at(build("smollm2-merged-config-only"), limits, tmp_path)
    assert "disabled-kv-cache" not in [entry.rule for entry in advice.entries]


@pytest.mark.parametrize(
    ("name", "file", "cached"),
    [
        ("smollm2-merged-config-only", "config.json", True),
        ("smollm2-merged-no-cache", "generation_config.json", False),
    ],
)
def test_use_cache_counts_where_it_takes_effect(name: str, file: str, cached: bool, tmp_path: Path) -> None:
    variant = build(name)
    assert json.loads((variant.model / file).read_text())["use_cache"] is False
    located = inspect(str(variant.model), offline=True)
    rows = load_rows(str(variant.data), task=located.task, labels=located.labels)
    workload = workload_of(Request(located=located, rows=rows, call=Call(), options=TORCH), tmp_path)
    engine, _ = load_engine(workload, workload.call)
    assert engine.facts().use_cache is cached
