"""Whole runs on the two real samples and on their planted variants. Slow: minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ftprof.advisors.audit import Audit
from ftprof.advisors.context import Options
from ftprof.profiler.callfile import load_call
from ftprof.profiler.digest import digest_directory
from ftprof.samples.demo import demo_sample
from ftprof.samples.variants import Variant, build
from tests.test_e2e_tiny import audit_of

pytestmark = pytest.mark.e2e


def diagnosed(variant: Variant, budget_s: float) -> Audit:
    """The variant measured and advised on; nothing is tried."""
    call = load_call(str(variant.call) if variant.call else None)
    audit, _ = audit_of(
        variant.model, variant.base, variant.data, options=Options(fixes=False), budget_s=budget_s, call=call
    )
    return audit


def fixes_found(audit: Audit) -> list[str]:
    """Rules whose fix would be tried, in their order."""
    from ftprof.advisors.advise import rank

    entries = [entry for entry in audit.advice if entry.fixable and entry.error is None and entry.refused is None]
    objective = (audit.settings.objective_scenario, audit.settings.objective_phase)
    return [entry.rule for entry in rank(entries, 10.0, objective)]


def test_the_lora_sample_end_to_end(tmp_path: Path) -> None:
    sample = demo_sample("smollm2-tickets")
    before = digest_directory(sample.model), digest_directory(sample.base)
    save = tmp_path / "faster"
    audit, _ = audit_of(sample.model, sample.base, sample.data, options=Options(save=save), budget_s=150.0)
    assert before == (digest_directory(sample.model), digest_directory(sample.base))
    assert audit.settings.complete
    trial = next(trial for trial in audit.trials if trial.rule == "unmerged-adapter")
    assert trial.status == "kept", trial.why
    assert trial.quality is not None
    assert trial.quality.tokens >= 1000
    assert trial.quality.figures["kl"].value < 1e-4
    assert audit.lora is not None
    assert audit.lora.attributed is not None
    assert audit.lora.ablation is not None
    assert audit.lora.ablation.how.startswith("adapter merged and unloaded")
    assert audit.lora.advice != "leave"
    assert audit.final is not None
    assert audit.final.objective is not None
    assert audit.final.objective.speedup > 1.0
    assert audit.final.artefact is not None
    assert audit.final.artefact.reload == "ok"


def test_the_classifier_sample_end_to_end() -> None:
    sample = demo_sample("minilm-tickets")
    audit, _ = audit_of(sample.model, sample.base, sample.data, budget_s=90.0)
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
    ("name", "rule", "budget_s"),
    [
        ("smollm2-merged-no-cache", "disabled-kv-cache", 60.0),
        ("smollm2-adapter-dtype", "fp32-adapter", 60.0),
        ("minilm-padded", "padded-batches", 40.0),
        ("minilm-eager-fp32", "eager-attention", 40.0),
        ("minilm-fp32", "fp32-weights", 40.0),
    ],
)
def test_a_planted_fault_is_found_first(name: str, rule: str, budget_s: float) -> None:
    audit = diagnosed(build(name), budget_s)
    assert fixes_found(audit)[:1] == [rule], (audit.advice, audit.checked)


@pytest.mark.parametrize(
    ("name", "budget_s"),
    [("smollm2-healthy", 60.0), ("smollm2-merged-config-only", 60.0), ("minilm-healthy", 40.0)],
)
def test_nothing_is_found_on_a_healthy_model(name: str, budget_s: float) -> None:
    audit = diagnosed(build(name), budget_s)
    found = [entry for entry in audit.advice if entry.safety in ("exact", "rounding") and entry.fixable]
    assert not found, found
    assert audit.checked, "what was looked at is said"
