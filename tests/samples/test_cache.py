"""Directories that are whole or absent, whatever happens while they are built."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ftprof.profiler.errors import FtprofError
from ftprof.samples.cache import build_once, cache_root


def _fill(out: Path) -> None:
    (out / "inner").mkdir()
    (out / "inner" / "file").write_text("whole")


def test_cache_root_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "ftprof"


@pytest.mark.parametrize("value", ["", "relative/folder"])
def test_cache_root_ignores_what_is_not_absolute(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert cache_root() == Path.home() / ".cache" / "ftprof"


def test_a_whole_directory_is_not_built_again(tmp_path: Path) -> None:
    target = build_once(tmp_path / "deep" / "model", _fill)
    assert build_once(target, lambda out: pytest.fail("built again")) == target
    assert (target / "inner" / "file").read_text() == "whole"


@pytest.mark.parametrize("error", [KeyboardInterrupt, FtprofError("message", "hint")])
def test_a_build_that_raises_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    def fail_midway(out: Path) -> None:
        _fill(out)
        raise error

    with pytest.raises((KeyboardInterrupt, FtprofError)):
        build_once(tmp_path / "model", fail_midway)
    assert [path.name for path in tmp_path.iterdir()] == [".model.lock"]
    assert (build_once(tmp_path / "model", _fill) / "inner").is_dir()


KILLED_MIDWAY = """
import sys, time
from pathlib import Path
from ftprof.samples.cache import build_once

def build(out: Path) -> None:
    (out / "config.json").write_text("{}")
    print("midway", flush=True)
    time.sleep(60)

build_once(Path(sys.argv[1]), build)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_build_that_is_killed_is_swept_by_the_next(tmp_path: Path) -> None:
    target = tmp_path / "model"
    with subprocess.Popen([sys.executable, "-c", KILLED_MIDWAY, str(target)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"midway\n"
        os.kill(child.pid, signal.SIGKILL)
    assert not target.exists()
    build_once(target, _fill)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".model.lock", "model"]


def test_concurrent_callers_build_once(tmp_path: Path) -> None:
    built: list[Path] = []

    def slowly(out: Path) -> None:
        built.append(out)
        time.sleep(0.1)
        _fill(out)

    callers = [threading.Thread(target=build_once, args=(tmp_path / "model", slowly)) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(built) == 1


def test_an_unwritable_cache_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FtprofError, match="cannot write") as caught:
        build_once(tmp_path / "file" / "model", _fill)
    assert "XDG_CACHE_HOME" in caught.value.hint
