"""Workers: they start, answer, rest, die and are noticed; the fork server has run nothing."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pytest

from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.processes import Failure, Handle, WorkerDied, prepare, quiet_start


def serve(pipe: Connection, log: str) -> None:
    """A worker that answers a few requests, some of them badly."""
    quiet_start(log)
    while True:
        try:
            method, args, _ = pipe.recv()
        except EOFError:
            return
        if method == "add":
            pipe.send(sum(args))
        elif method == "multiply":
            import torch

            # Large enough to run in parallel: hangs for ever if the fork server ran anything parallel before.
            square = torch.ones(args[0], args[0])
            pipe.send((float((square @ square)[0, 0]), torch.get_num_threads()))
        elif method == "hang":
            time.sleep(600)
        elif method == "print":
            print("something loud")
            sys.stderr.write("louder still\n")
            sys.stdout.flush()
            pipe.send(None)
        elif method == "leave":
            print("the reason", flush=True)
            os._exit(3)
        elif method == "fail":
            pipe.send(Failure(FtprofError("what", "do this", Exit.USAGE), "the traceback"))


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Handle]:
    prepare("cpu", offline=True)
    with Handle(serve, "test", tmp_path / "worker.log", "cpu") as handle:
        yield handle


def test_a_forked_worker_can_run_parallel_operations(worker: Handle) -> None:
    value, _ = worker.call("multiply", 600, timeout_s=120)
    assert value == 600.0


def test_a_resting_worker_is_stopped_and_woken_by_its_next_call(worker: Handle) -> None:
    assert worker.call("add", 1, 2) == 3
    worker.rest()
    assert psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED
    assert worker.call("add", 2, 3) == 5
    assert psutil.Process(worker.pid).status() != psutil.STATUS_STOPPED


def test_a_killed_worker_is_named_with_its_signal(worker: Handle) -> None:
    assert worker.call("add", 1) == 1
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(WorkerDied, match="SIGKILL") as caught:
        worker.call("add", 1)
    assert "memory" in caught.value.hint
    assert not worker.alive


def test_a_worker_that_leaves_says_its_last_line(worker: Handle) -> None:
    with pytest.raises(WorkerDied, match="code 3") as caught:
        worker.call("leave")
    assert "the reason" in caught.value.hint


def test_a_hanging_worker_is_ended(worker: Handle) -> None:
    with pytest.raises(WorkerDied, match="did not answer hang") as caught:
        worker.call("hang", timeout_s=0.3)
    assert caught.value.exit_code == Exit.UNRELIABLE
    assert not worker.alive


def test_faults_cross_the_pipe_whole(worker: Handle) -> None:
    with pytest.raises(FtprofError) as caught:
        worker.call("fail")
    assert (caught.value.message, caught.value.hint, caught.value.exit_code) == ("what", "do this", 2)


def test_what_a_worker_prints_goes_to_its_log(
    worker: Handle, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    worker.call("print")
    assert "louder still" in (tmp_path / "worker.log").read_text()
    assert "loud" not in "".join(capfd.readouterr())


def test_the_preload_module_only_imports() -> None:
    """Besides imports: the clock, and quietening transformers. An operation here would hang every worker."""
    import ftprof.profiler as package

    tree = ast.parse((Path(package.__path__[0]) / "preload.py").read_text("utf-8"))
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert calls == {"time.perf_counter", "transformers.logging.set_verbosity_error"}


CONDUCTOR = """
import sys, time
from pathlib import Path
from ftprof.profiler.processes import Handle, prepare
from tests.profiler.test_processes import serve
if __name__ == "__main__":
    prepare("cpu", offline=True)
    handle = Handle(serve, "orphan", Path(sys.argv[1]), "cpu")
    handle.call("add", 1)
    handle.rest()
    print(handle.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="uses the parent-death signal")
def test_a_stopped_worker_does_not_outlive_a_killed_conductor(tmp_path: Path) -> None:
    script = tmp_path / "conductor.py"
    script.write_text(CONDUCTOR)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    conductor = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "log")], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert conductor.stdout is not None
    pid = int(conductor.stdout.readline())
    conductor.kill()
    conductor.wait()
    try:
        assert _gone(pid, 30.0)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _gone(pid: int, within_s: float) -> bool:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.1)
    return False
