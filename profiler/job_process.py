"""Jobs in processes of their own whose slow imports were done once: a zygote imports, and forks for every job.

Exporters take five seconds to import and a second for a small model. A job's process dies with its memory, its output
and whatever it broke; the zygote has run nothing that could not be forked. Where nothing can fork, each job is started
afresh.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

_zygotes: dict[tuple[str, ...], subprocess.Popen[str]] = {}


def run_job(module: str, job: Path, log: Path, environment: Mapping[str, str], imports: Sequence[str] = ()) -> int:
    """Run `module`'s `main(job)` with its output in `log`; its exit code, or minus the signal that ended it.

    `imports` are what its process should find imported. The job ends with the calling process, however that ends.
    """
    if not hasattr(os, "fork"):
        return _afresh(module, job, log, environment)
    zygote = _zygote(tuple(imports), environment)
    assert zygote.stdin is not None and zygote.stdout is not None, "both are pipes"
    request = {"module": module, "job": str(job), "log": str(log), "environment": dict(environment)}
    try:
        zygote.stdin.write(json.dumps(request) + "\n")
        zygote.stdin.flush()
        answer = zygote.stdout.readline()
        return int(answer) if answer else _end(zygote)
    except BaseException:
        # Interrupted in the middle: the job goes with its zygote, and the next one starts another.
        _end(zygote)
        raise


def _zygote(imports: tuple[str, ...], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    found = _zygotes.get(imports)
    if found is None or found.poll() is not None:
        # -P: nothing in the current directory is imported by accident.
        command = [sys.executable, "-P", "-m", "ftprof.profiler.job_process", *imports]
        found = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=dict(environment),
        )
        _zygotes[imports] = found
    return found


def _end(zygote: subprocess.Popen[str]) -> int:
    zygote.kill()
    return zygote.wait()


def _afresh(module: str, job: Path, log: Path, environment: Mapping[str, str]) -> int:
    with log.open("wb") as out:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(job)],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=dict(environment),
        )
        try:
            return child.wait()
        finally:
            child.kill()
            child.wait()
            if child.stdin is not None:
                child.stdin.close()


def _serve(imports: Sequence[str], requests: IO[str], answers: IO[str]) -> None:
    """The zygote: import, then fork for each line."""
    for name in imports:
        with suppress(ImportError):  # the job that needs it says so
            importlib.import_module(name)
    for line in requests:
        answers.write(f"{_forked(json.loads(line))}\n")
        answers.flush()


def _forked(request: Mapping[str, str]) -> int:
    # The job's standard input ends when we do: that is how it notices.
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(writing)
        _job(request, reading)
    os.close(reading)
    _, status = os.waitpid(process, 0)
    os.close(writing)
    return os.waitstatus_to_exitcode(status)


def _job(request: Mapping[str, str], reading: int) -> None:
    """In the forked process: its own input, output and environment, then `main`; never returns."""
    code = 1
    try:
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for source, target in ((reading, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.environ.clear()
        os.environ.update(request["environment"])  # type: ignore[arg-type]
        code = importlib.import_module(request["module"]).main(request["job"]) or 0
    except BaseException:  # noqa: BLE001 - whatever it is, it belongs to the job's output
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    own = os.fdopen(os.dup(1), "w")
    # What imports print must not be read as an answer.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    _serve(sys.argv[1:], sys.stdin, own)
