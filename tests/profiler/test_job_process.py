"""Jobs in forked processes: their output, their end, and that one's harm is nobody else's."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from ftprof.profiler import job_process
from ftprof.profiler.job_process import run_job

JOB = """
import os, sys
print("imported in", os.getpid())

def main(job):
    print("doing", job, os.environ["SETTING"], "decimal" in sys.modules)
    if job.endswith("raise"):
        raise ValueError("as asked")
    if job.endswith("die"):
        os.kill(os.getpid(), 9)
    return 3 if job.endswith("three") else None
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "some_job.py").write_text(JOB)
    paths = os.pathsep.join([str(tmp_path), *(path for path in sys.path if path)])
    return {**os.environ, "PYTHONPATH": paths, "SETTING": "one"}


def run(environment: dict[str, str], tmp_path: Path, job: str, imports: tuple[str, ...] = ("decimal",)) -> int:
    return run_job("some_job", Path(job), tmp_path / "log", environment, imports)


def test_a_job_runs_with_its_imports_its_environment_and_its_own_output(
    environment: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(environment, tmp_path, "this") == 0
    assert "doing this one True" in (tmp_path / "log").read_text()
    assert run({**environment, "SETTING": "two"}, tmp_path, "that") == 0
    assert "doing that two True" in (tmp_path / "log").read_text()
    assert capfd.readouterr() == ("", "")


def test_one_zygote_serves_many_jobs_each_in_a_process_of_its_own(environment: dict[str, str], tmp_path: Path) -> None:
    processes = set()
    for number in range(3):
        run(environment, tmp_path, f"job-{number}")
        processes.add((tmp_path / "log").read_text().splitlines()[0])
    assert len(processes) == 3
    assert job_process._zygotes[("decimal",)].poll() is None


def test_codes_faults_and_signals_come_back_and_the_next_job_runs(environment: dict[str, str], tmp_path: Path) -> None:
    assert run(environment, tmp_path, "three") == 3
    assert run(environment, tmp_path, "raise") == 1
    assert "ValueError: as asked" in (tmp_path / "log").read_text()
    assert run(environment, tmp_path, "die") == -signal.SIGKILL
    assert run(environment, tmp_path, "again") == 0


def test_a_killed_zygote_is_replaced(environment: dict[str, str], tmp_path: Path) -> None:
    run(environment, tmp_path, "first")
    zygote = job_process._zygotes[("decimal",)]
    zygote.kill()
    zygote.wait()
    assert run(environment, tmp_path, "second") == 0


def test_an_import_that_is_not_there_is_the_jobs_affair(environment: dict[str, str], tmp_path: Path) -> None:
    assert run(environment, tmp_path, "this", ("no_such_module_here",)) == 0


def test_where_nothing_can_fork_a_job_starts_afresh(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "fork")
    (tmp_path / "some_job.py").write_text(JOB + "\nif __name__ == '__main__':\n    sys.exit(main(sys.argv[1]))\n")
    assert run(environment, tmp_path, "three") == 3
    assert "doing three one" in (tmp_path / "log").read_text()
