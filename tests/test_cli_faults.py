"""What a person sees when something is wrong: one line of what happened, one of what to do, the right exit code."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ftprof import cli
from ftprof.profiler.errors import Exit

Prepare = Callable[[Path], list[str]]


def ftprof(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the command line in this process; its exit code."""
    monkeypatch.setattr(sys, "argv", ["ftprof", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return int(caught.value.code or 0)


@pytest.fixture
def copies(tmp_path: Path, tiny_base: Path, tiny_adapter: Path) -> Path:
    """A folder with a base and an adapter that may be broken."""
    shutil.copytree(tiny_base, tmp_path / "base")
    shutil.copytree(tiny_adapter, tmp_path / "adapter")
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = str(tmp_path / "base")
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps(config))
    return tmp_path


def _edit(path: Path, **changes: object) -> None:
    config = json.loads(path.read_text())
    config.update(changes)
    path.write_text(json.dumps(config))


def no_such_path(root: Path) -> list[str]:
    return [str(root / "nowhere")]


def a_file(root: Path) -> list[str]:
    return [str(root / "base" / "config.json")]


def no_config(root: Path) -> list[str]:
    (root / "base" / "config.json").unlink()
    return [str(root / "base")]


def no_base(root: Path) -> list[str]:
    shutil.rmtree(root / "base")
    return [str(root / "adapter"), "--offline"]


def other_shapes(root: Path) -> list[str]:
    from tests import tiny_directory

    tiny_directory.causal(root / "other", hidden=32)
    return [str(root / "adapter"), "--base", str(root / "other")]


def truncated(root: Path) -> list[str]:
    path = root / "base" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    return [str(root / "base")]


def corrupt(root: Path) -> list[str]:
    (root / "adapter" / "adapter_model.safetensors").write_bytes(b"\xff" * 64)
    return [str(root / "adapter")]


def pickle_only(root: Path) -> list[str]:
    (root / "base" / "model.safetensors").rename(root / "base" / "pytorch_model.bin")
    return [str(root / "base")]


def custom_code(root: Path) -> list[str]:
    auto = {"AutoModelForCausalLM": "modeling_mine.Mine"}
    _edit(root / "base" / "config.json", model_type="mine", architectures=["MineForCausalLM"], auto_map=auto)
    return [str(root / "base")]


def vision(root: Path) -> list[str]:
    _edit(root / "base" / "config.json", model_type="vit", architectures=["ViTForImageClassification"])
    return [str(root / "base")]


def no_tokenizer(root: Path) -> list[str]:
    for path in (root / "base").glob("tokenizer*"):
        path.unlink()
    return [str(root / "base")]


def empty_data(root: Path) -> list[str]:
    (root / "rows.jsonl").write_text("\n\n")
    return [str(root / "base"), "--data", str(root / "rows.jsonl")]


def bad_data(root: Path) -> list[str]:
    (root / "rows.jsonl").write_text('{"prompt": "a"}\n{"prompt": \n')
    return [str(root / "base"), "--data", str(root / "rows.jsonl")]


def unknown_call_key(root: Path) -> list[str]:
    (root / "call.toml").write_text('atention = "eager"\n')
    return [str(root / "base"), "--call", str(root / "call.toml")]


def full_output(root: Path) -> list[str]:
    (root / "out").mkdir()
    (root / "out" / "precious.txt").write_text("mine")
    return [str(root / "base"), "--out", str(root / "out")]


def output_is_a_file(root: Path) -> list[str]:
    (root / "out").write_text("mine")
    return [str(root / "base"), "--out", str(root / "out")]


def save_into_the_model(root: Path) -> list[str]:
    return [str(root / "base"), "--out", str(root / "out"), "--save", str(root / "base" / "better")]


def save_into_a_full_directory(root: Path) -> list[str]:
    return [str(root / "base"), "--out", str(root / "out"), "--save", str(root / "adapter")]


def output_in_the_model(root: Path) -> list[str]:
    return [str(root / "base"), "--out", str(root / "base" / "report")]


def bad_budget(root: Path) -> list[str]:
    return [str(root / "base"), "--budget", "soon"]


def bad_objective(root: Path) -> list[str]:
    return [str(root / "base"), "--objective", "ttfft"]


def bad_guard(root: Path) -> list[str]:
    return [str(root / "base"), "--guard", "ttft=fast"]


def bad_device(root: Path) -> list[str]:
    return [str(root / "base"), "--device", "tpu"]


def no_gpu(root: Path) -> list[str]:
    return [str(root / "base"), "--device", "cuda:0"]


def checkpoints_only(root: Path) -> list[str]:
    for step in (50, 100):
        shutil.copytree(root / "adapter", root / "run" / f"checkpoint-{step}")
    return [str(root / "run")]


@pytest.mark.parametrize(
    ("prepare", "code", "said", "advice"),
    [
        (no_such_path, Exit.USAGE, "nowhere", ""),
        (a_file, Exit.USAGE, "config.json", ""),
        (no_config, Exit.UNUSABLE, "config.json", ""),
        (no_base, Exit.UNUSABLE, "base", "--base"),
        (other_shapes, Exit.UNUSABLE, "", "--base"),
        (truncated, Exit.UNUSABLE, "model.safetensors", ""),
        (corrupt, Exit.UNUSABLE, "adapter_model.safetensors", ""),
        (pickle_only, Exit.UNUSABLE, "pytorch_model.bin", "convert"),
        (custom_code, Exit.UNUSABLE, "", "--trust-remote-code"),
        (vision, Exit.UNUSABLE, "ViTForImageClassification", ""),
        (no_tokenizer, Exit.UNUSABLE, "tokenizer", "tokenizer"),
        (empty_data, Exit.USAGE, "rows.jsonl", ""),
        (bad_data, Exit.USAGE, "line 2", ""),
        (unknown_call_key, Exit.USAGE, "atention", "attention"),
        (full_output, Exit.USAGE, "not empty", "--force"),
        (output_is_a_file, Exit.USAGE, "out", "--out"),
        (save_into_the_model, Exit.USAGE, "better", "--save"),
        (save_into_a_full_directory, Exit.USAGE, "adapter", "--save"),
        (output_in_the_model, Exit.USAGE, "own directory", "--out"),
        (bad_budget, Exit.USAGE, "soon", "300s"),
        (bad_objective, Exit.USAGE, "ttfft", "ttft"),
        (bad_guard, Exit.USAGE, "ttft=fast", "ttft=1.1"),
        (bad_device, Exit.USAGE, "tpu", "cpu"),
        (no_gpu, Exit.UNUSABLE, "GPU", "--device cpu"),
        (checkpoints_only, Exit.UNUSABLE, "checkpoint", "checkpoint-100"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_fault_is_two_lines_and_a_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    copies: Path,
    prepare: Prepare,
    code: Exit,
    said: str,
    advice: str,
) -> None:
    if prepare is no_gpu and shutil.which("nvidia-smi"):
        pytest.skip("there is a GPU here")
    arguments = prepare(copies)
    monkeypatch.chdir(copies)
    assert ftprof(monkeypatch, "diagnose", *arguments) == code
    captured = capsys.readouterr()
    what, todo = captured.err.splitlines()[-2:]
    assert what.startswith("ftprof: ")
    assert said.lower() in what.lower()
    assert todo.startswith("  ")
    assert advice in todo
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_an_unreadable_output_directory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], copies: Path
) -> None:
    monkeypatch.setattr("ftprof.reports.output.os.access", lambda path, mode: False)
    assert ftprof(monkeypatch, "diagnose", str(copies / "base"), "--out", str(copies / "out")) == Exit.USAGE
    assert "cannot write" in capsys.readouterr().err


def test_a_prompt_longer_than_the_context(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], copies: Path
) -> None:
    (copies / "rows.jsonl").write_text(json.dumps({"prompt": "the " * 400}) + "\n")
    code = ftprof(
        monkeypatch,
        *("diagnose", str(copies / "base"), "--data", str(copies / "rows.jsonl")),
        *("--out", str(copies / "out"), "--budget", "60s"),
    )
    assert code == Exit.USAGE
    error = capsys.readouterr().err
    assert "prompt 1 has 400 tokens" in error
    assert (copies / "out" / "audit.json").exists(), "what was measured is kept"


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["ftprof", "diagnose", str(tmp_path / "nowhere"), "--debug"])
    with pytest.raises(Exception, match="nowhere"):
        cli.main()


def test_a_bug_is_one_line_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(cli, "app", broken)
    assert ftprof(monkeypatch, "rules") == Exit.BUG
    assert "ZeroDivisionError: oops" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("report", "nowhere.json"), ("explain", "unmerged-adaptor")])
def test_other_commands_complain_alike(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert ftprof(monkeypatch, *arguments) == Exit.USAGE
    assert len(capsys.readouterr().err.splitlines()) == 2
