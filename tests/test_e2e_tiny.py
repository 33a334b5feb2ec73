"""Whole runs on tiny models: the document, the reports, the user's files, and faults in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ftprof import __version__
from ftprof.advisors.audit import Audit, Trial
from ftprof.advisors.context import Options
from ftprof.advisors.progress import Silent
from ftprof.advisors.run import Request, run
from ftprof.profiler.digest import digest_directory
from ftprof.profiler.directory import inspect
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.rows import load_rows
from ftprof.profiler.workload import Call
from ftprof.reports.write import load_audit
from tests import tiny_directory

TORCH = Options(runtime="torch")
"""Conversions have tests of their own."""
HOUSE_RULES = Path(__file__).parent / "house_rules"


def trial_of(audit: Audit, rule: str) -> Trial:
    """The trial of `rule`. Skips where this machine was too noisy or too slow just now for any verdict."""
    trial = next((trial for trial in audit.trials if trial.rule == rule), None)
    if trial is None:
        share = audit.lora.disabled or audit.lora.attributed if audit.lora else None
        if rule == "unmerged-adapter" and share is not None and share.low < 0.05:
            pytest.skip("too noisy a machine: the adapter's share is not known")
        pytest.fail(f"{rule} was not found: {audit.checked}")
    if trial.status == "not_tried":
        pytest.skip(f"{rule} was not tried: {trial.why}")
    if trial.status == "failed" and "did not answer" in trial.why:
        pytest.skip(f"too slow a machine: {trial.why}")
    undecided = trial.objective is not None and trial.objective.verdict == "inconclusive"
    if trial.status == "reverted" and undecided:
        pytest.skip(f"too noisy a machine: {trial.why}")
    return trial


def audit_of(
    model: Path,
    base: Path | None,
    rows: Path | None,
    *,
    options: Options | None = None,
    budget_s: float = 60.0,
    call: Call | None = None,
    previous: Audit | None = None,
) -> tuple[Audit, list[Audit]]:
    """A run in this process's workers; the finished audit and every published state."""
    located = inspect(str(model), base=str(base) if base else None, offline=True)
    request = Request(
        located=located,
        rows=load_rows(str(rows) if rows else None, task=located.task, labels=located.labels),
        call=call or Call(),
        options=options or TORCH,
        budget_s=budget_s,
        offline=True,
        command="test",
        version=__version__,
        previous=previous,
    )
    published: list[Audit] = []
    return run(request, Silent(), published.append), published


@pytest.fixture(scope="module")
def adapter_run(
    tmp_path_factory: pytest.TempPathFactory, tiny_base: Path, tiny_adapter: Path, tiny_rows: Path
) -> tuple[Audit, list[Audit], tuple[str, str]]:
    before = digest_directory(tiny_base), digest_directory(tiny_adapter)
    save = tmp_path_factory.mktemp("saved") / "model"
    audit, published = audit_of(
        tiny_adapter, tiny_base, tiny_rows, options=Options(save=save, runtime="torch"), budget_s=32.0
    )
    assert before == (digest_directory(tiny_base), digest_directory(tiny_adapter)), "the user's files were touched"
    return audit, published, before


def test_every_phase_is_there_and_its_ledger_sums_to_its_time(adapter_run: tuple[Audit, Any, Any]) -> None:
    audit = adapter_run[0]
    names = {(phase.scenario, phase.name) for phase in audit.phases}
    assert {("single", phase) for phase in ("load", "tokenise", "prefill", "decode", "e2e")} <= names
    assert {("batch", phase) for phase in ("prefill", "decode", "e2e")} <= names
    for phase in audit.phases:
        assert phase.ledger is not None, phase
        assert phase.ledger.total_s == pytest.approx(phase.time_s.median, rel=1e-6), phase.name
        assert phase.time_s.low <= phase.time_s.median <= phase.time_s.high


def test_lora_is_measured_two_ways_with_intervals(adapter_run: tuple[Audit, Any, Any]) -> None:
    lora = adapter_run[0].lora
    assert lora is not None
    for share in (lora.attributed, lora.ablation):
        assert share is not None
        assert share.low <= share.share <= share.high
    assert isinstance(lora.agree, bool)
    assert {target.target for target in lora.targets} >= {"q_proj", "down_proj"}


def test_trials_carry_predictions_made_before(adapter_run: tuple[Audit, Any, Any]) -> None:
    audit = adapter_run[0]
    assert audit.advice, "an adapter on a tiny model costs most of the time"
    for trial in audit.trials:
        if trial.measured is None:
            continue
        assert trial.predicted is not None
        assert audit.created <= trial.predicted.at
        assert trial.objective is not None
        assert trial.objective.aa_low is not None


def test_what_is_kept_passed_the_gate_and_is_saved(adapter_run: tuple[Audit, Any, Any]) -> None:
    audit = adapter_run[0]
    trial = trial_of(audit, "unmerged-adapter")
    assert trial.status == "kept", trial.why
    assert trial.quality is not None
    assert trial.quality.verdict == "pass"
    final = audit.final
    assert final is not None
    assert final.comparison is not None
    assert final.artefact is not None
    assert final.artefact.reload == "ok", final.artefact.reload_detail
    assert audit.settings.complete


def test_the_artefacts_own_lines_load_it_in_a_clean_process(adapter_run: tuple[Audit, Any, Any]) -> None:
    trial_of(adapter_run[0], "unmerged-adapter")
    final = adapter_run[0].final
    assert final is not None
    assert final.artefact is not None
    script = Path(final.artefact.path) / "load.py"
    check = script.read_text() + "\nprint(type(model).__name__, len(tokenizer))\n"
    out = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert "LlamaForCausalLM" in out.stdout


def test_the_document_is_published_as_it_grows(adapter_run: tuple[Audit, list[Audit], Any]) -> None:
    _, published, _ = adapter_run
    assert len(published) >= 6
    assert not any(audit.settings.complete for audit in published[:-1])
    assert published[-1].settings.complete
    spent = [audit.settings.spent_s for audit in published]
    assert spent == sorted(spent)


def test_a_resumed_run_keeps_what_was_decided(
    adapter_run: tuple[Audit, Any, Any], tiny_base: Path, tiny_adapter: Path, tiny_rows: Path
) -> None:
    first = adapter_run[0]
    trial_of(first, "unmerged-adapter")
    audit, _ = audit_of(tiny_adapter, tiny_base, tiny_rows, budget_s=26.0, previous=first)
    assert next(trial for trial in audit.trials if trial.status == "kept").objective == next(
        trial.objective for trial in first.trials if trial.status == "kept"
    )
    assert audit.final is not None
    assert [change.rule for change in audit.final.changes] == ["unmerged-adapter"]
    assert audit.final.comparison is not None


def test_another_models_audit_cannot_be_resumed(
    adapter_run: tuple[Audit, Any, Any], tiny_base: Path, tiny_rows: Path
) -> None:
    with pytest.raises(FtprofError, match="the model is not what the earlier run had"):
        audit_of(tiny_base, None, tiny_rows, budget_s=30.0, previous=adapter_run[0])


@pytest.mark.parametrize("kind", ["classifier", "embedder"])
def test_encoders(kind: str, request: pytest.FixtureRequest, tiny_rows: Path) -> None:
    model: Path = request.getfixturevalue(f"tiny_{kind}")
    audit, _ = audit_of(model, None, tiny_rows, call=Call(padding="max_length", pad_to=128), budget_s=20.0)
    assert audit.settings.objective_phase == "forward"
    assert audit.settings.objective_scenario == "batch"
    assert {phase.name for phase in audit.phases} >= {"load", "tokenise", "forward", "e2e"}
    assert "padded-batches" in [trial.rule for trial in audit.trials], "rows of 3 to 30 words are padded to 128"
    padded = trial_of(audit, "padded-batches")
    assert padded.status == "kept", padded.why
    assert padded.quality is not None
    assert audit.lora is None


def test_diagnosis_alone_tries_nothing(tiny_base: Path, tiny_adapter: Path, tiny_rows: Path) -> None:
    audit, _ = audit_of(
        tiny_adapter, tiny_base, tiny_rows, options=Options(fixes=False, runtime="torch"), budget_s=16.0
    )
    assert audit.trials == ()
    assert audit.final is None
    assert audit.lora is not None
    if audit.lora.ablation is None or audit.lora.ablation.low < 0.05:
        pytest.skip("too noisy a machine: the adapter's share is not known")
    left = [line for line in audit.checked if line.startswith("unmerged-adapter: predicted")]
    if left:
        pytest.skip(f"too noisy a machine: {left[0]}")
    assert [entry.rule for entry in audit.advice if entry.rule == "unmerged-adapter"]


def test_sabotage_and_a_killed_worker_cost_one_trial_each(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_base: Path, tiny_adapter: Path, tiny_rows: Path
) -> None:
    """In a process of its own, since rules are read once and the fork server hands its environment on."""
    out = tmp_path / "out"
    environment = {**os.environ, "FTPROF_RULES": str(HOUSE_RULES)}
    arguments = ["diagnose", str(tiny_adapter), "--base", str(tiny_base), "--data", str(tiny_rows)]
    done = subprocess.run(
        [sys.executable, "-m", "ftprof", *arguments, "--runtime", "torch", "--budget", "36s", "--out", str(out)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    audit = load_audit(out)
    killed = trial_of(audit, "killed-worker")
    assert killed.status == "failed"
    assert "SIGKILL" in killed.why
    sabotaged = trial_of(audit, "sabotaged-merge")
    assert sabotaged.status == "reverted"
    assert "quality gate" in sabotaged.why
    merged = trial_of(audit, "unmerged-adapter")
    assert merged.status == "kept", "the trials before cost themselves only"
    page = (out / "report.html").read_text()
    assert "sabotaged-merge" in page


def test_two_variants_that_do_not_fit_are_compared_in_blocks(
    tiny_base: Path, tiny_adapter: Path, tiny_rows: Path
) -> None:
    audit, _ = audit_of(
        tiny_adapter,
        tiny_base,
        tiny_rows,
        options=Options(memory_limit_bytes=600 * 2**20, runtime="torch"),
        budget_s=40.0,
    )
    merged = trial_of(audit, "unmerged-adapter")
    assert merged.objective is not None
    assert merged.objective.pairs >= 6
    assert merged.objective.speedup > 1.0
    assert merged.status in ("kept", "reverted"), "whether six pairs of blocks prove it is up to the machine"
    if merged.status == "kept":
        assert audit.final is not None
        if audit.final.comparison is None:
            pytest.skip("too slow a machine: no time was left for the final comparison")
        assert audit.final.comparison.processes >= 2, "three where there is time"


HEEDING = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from ftprof.cli import main; sys.exit(main())"
)
"""Jobs in the background of a shell ignore interrupts, and hand that on."""


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
@pytest.mark.parametrize("moment", ["timing, against", "trying unmerged-adapter"])
def test_ctrl_c_keeps_what_was_measured(
    moment: str, tmp_path: Path, tiny_base: Path, tiny_adapter: Path, tiny_rows: Path
) -> None:
    out = tmp_path / "out"
    arguments = ["diagnose", str(tiny_adapter), "--base", str(tiny_base), "--data", str(tiny_rows), "--out", str(out)]
    arguments += ["--budget", "45s", "--runtime", "torch"]
    process = subprocess.Popen(
        [sys.executable, "-c", HEEDING, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if moment in line:
            break
    else:
        assert process.wait(60) == 0
        pytest.skip(f"too noisy a machine: it never came to {moment}")
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait(60) == 130
    assert "Traceback" not in rest
    assert "interrupted" in rest
    audit = json.loads((out / "audit.json").read_text())
    assert audit["settings"]["complete"] is False
    assert audit["phases"], "the provisional diagnosis is kept"
    assert any("Interrupted" in warning for warning in audit["warnings"])
    assert "Interrupted" in (out / "report.html").read_text()


def test_a_sequence_to_sequence_adapter(tmp_path: Path, tiny_rows: Path) -> None:
    base = tiny_directory.seq2seq(tmp_path / "base")
    adapter = tiny_directory.adapter(tmp_path / "adapter", base, task_type="SEQ_2_SEQ_LM")
    audit, _ = audit_of(adapter, base, tiny_rows, call=Call(new_tokens=8, batch_size=4), budget_s=20.0)
    assert audit.model.task == "seq2seq-lm"
    assert audit.settings.objective_phase == "e2e"
    assert {phase.name for phase in audit.phases} >= {"load", "tokenise", "prefill", "decode", "e2e"}
    assert audit.lora is not None
    assert not {"unquantised-weights", "eager-runtime"} & {entry.rule for entry in audit.advice}
    merged = trial_of(audit, "unmerged-adapter")
    assert merged.status == "kept", merged.why
    assert merged.quality is not None
    assert merged.quality.tokens
