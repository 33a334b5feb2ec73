"""Whole runs that move a tiny model to another runtime: built, judged, saved, reloaded, and loaded by its own lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from ftprof.advisors.audit import Audit
from ftprof.advisors.context import Options
from ftprof.profiler.digest import digest_directory
from tests.test_e2e_tiny import audit_of, trial_of

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def decoder(
    tmp_path_factory: pytest.TempPathFactory, tiny_base: Path, tiny_adapter: Path, tiny_rows: Path
) -> tuple[Audit, Path]:
    before = digest_directory(tiny_base), digest_directory(tiny_adapter)
    save = tmp_path_factory.mktemp("saved") / "model"
    options = Options(save=save, max_loss="rounding")
    audit, _ = audit_of(tiny_adapter, tiny_base, tiny_rows, options=options, budget_s=40.0)
    assert before == (digest_directory(tiny_base), digest_directory(tiny_adapter)), "the user's files were touched"
    return audit, save


def test_a_graph_is_predicted_tried_and_judged(decoder: tuple[Audit, Path]) -> None:
    trial = trial_of(decoder[0], "eager-runtime")
    assert trial.predicted is not None
    assert "layers on both runtimes" in trial.predicted.basis
    assert trial.status == "kept", trial.why
    assert trial.quality is not None
    assert trial.quality.verdict == "pass"


def test_the_saved_winner_reloads_and_the_plain_model_lies_beside_it(decoder: tuple[Audit, Path]) -> None:
    audit, save = decoder
    trial_of(audit, "eager-runtime")
    assert audit.final is not None
    assert audit.final.artefact is not None
    assert audit.final.artefact.reload == "ok", audit.final.artefact.reload_detail
    assert "onnxruntime_genai" in (save / "load.py").read_text()
    assert (save / "huggingface" / "model.safetensors").exists()
    assert "from_pretrained" in (save / "huggingface" / "load.py").read_text()


def test_what_was_kept_is_diagnosed_on_its_own_runtime(decoder: tuple[Audit, Path]) -> None:
    audit = decoder[0]
    trial_of(audit, "eager-runtime")
    assert audit.final is not None
    decode = next(p for p in audit.final.phases if (p.scenario, p.name) == ("single", "decode"))
    assert decode.ledger is not None
    assert decode.kinds.get("matmul", 0.0) > 0
    assert decode.ledger.total_s == pytest.approx(decode.time_s.median, rel=1e-6)
