"""Worker processes as seen by the conductor: start, call, stop while idle, and notice when one dies.

The conductor never runs a model. Workers come from a fork server that has imported the slow packages and has run
nothing; with CUDA each is executed afresh.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import msgspec

from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.heap import settle_heap

PRELOAD = ["ftprof.profiler.preload"]
QUIET = {
    "KINETO_LOG_LEVEL": "99",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # ONNX Runtime uploads usage data from threads of its own unless told not to before it is loaded.
    "ORT_DISABLE_TELEMETRY": "1",
}


class Failure(msgspec.Struct, frozen=True):
    """What a worker sends back when a request failed: the exception and its traceback as text."""

    error: Exception
    traceback: str


class RequestFailed(FtprofError):
    """A request ended in an exception of a library; the worker goes on."""


class WorkerDied(FtprofError):
    """A worker ended, hung or was killed by the system; the trial that it served is lost, the audit is not."""


def start_method(device: str) -> str:
    """`forkserver` for the CPU (a ready worker in a second), `spawn` for CUDA and where nothing can fork."""
    if device.startswith("cuda") or "forkserver" not in multiprocessing.get_all_start_methods():
        return "spawn"
    return "forkserver"


def prepare(device: str, *, offline: bool) -> None:
    """Set the environment of all workers and name what the fork server imports. Before the first worker."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    settle_heap()
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    if start_method(device) == "forkserver":
        multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOAD)


def quiet_start(log: str) -> None:
    """First thing in a worker: leave Ctrl-C to the conductor, print to a file, and die with the fork server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    if sys.platform == "linux":
        _die_with_the_fork_server()
    # A progress bar's lock between processes is a semaphore, and nobody takes it down when a worker is ended.
    from tqdm import tqdm

    tqdm.set_lock(threading.RLock())


def _die_with_the_fork_server() -> None:
    """A worker stopped with SIGSTOP reads no end-of-file; without this it would outlive a killed conductor.

    The server ends when nobody holds its alive pipe any more, and each worker is handed a copy of that; then the
    parent-death signal (1 is PR_SET_PDEATHSIG) ends the workers.
    """
    from multiprocessing import forkserver

    server = getattr(forkserver, "_forkserver", None)
    alive: int | None = getattr(server, "_forkserver_alive_fd", None)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if server is not None and alive is not None:
            os.close(alive)
            server._forkserver_alive_fd = None


class Handle:
    """One worker. `call` sends a request and waits for its answer; a stopped worker is woken for it."""

    def __init__(self, serve: Callable[[Connection, str], None], name: str, log: Path, device: str) -> None:
        context: Any = multiprocessing.get_context(start_method(device))
        self.name = name
        self._log = log
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, str(log)), name=name, daemon=True)
        self._process.start()
        # Our copy of the child's end must go, or a dead worker would never read as end-of-file.
        theirs.close()
        self._stopped = False

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return int(self._process.pid)

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return bool(self._process.is_alive())

    def call(self, method: str, *args: Any, timeout_s: float = 600.0, **named: Any) -> Any:
        """The answer of `method`. WorkerDied if the worker ends or stays silent for `timeout_s`; its own errors as they are."""
        self.wake()
        try:
            self._pipe.send((method, args, named))
            if not self._pipe.poll(timeout_s):
                self.kill()
                raise WorkerDied(
                    f"the {self.name} worker did not answer {method} within {timeout_s:.0f} s and was ended",
                    "raise --budget, or use fewer or shorter prompts",
                    Exit.UNRELIABLE,
                )
            answer = self._pipe.recv()
        except (EOFError, OSError) as error:  # a closed handle included: a worker that was ended answers no more
            raise self._died(method) from error
        if isinstance(answer, Failure):
            answer.error.__notes__ = [f"in the {self.name} worker:\n{answer.traceback}"]
            raise answer.error
        return answer

    def _died(self, method: str) -> WorkerDied:
        self._process.join(5)
        code = self._process.exitcode
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        else:
            how = f"ended with code {code}"
        out_of_memory = code == -signal.SIGKILL
        hint = (
            "the system was probably out of memory: use a smaller batch or --no-fix"
            if out_of_memory
            else (f"its output: {self._tail()}")
        )
        return WorkerDied(f"the {self.name} worker {how} during {method}", hint, Exit.UNUSABLE)

    def _tail(self) -> str:
        try:
            lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        except OSError:
            lines = []
        return lines[-1][:200] if lines else "nothing"

    def rest(self) -> None:
        """Stop the worker's threads until its next call, so that spinning pools cannot slow another's sample."""
        if not self._stopped and self._process.is_alive() and hasattr(signal, "SIGSTOP"):
            os.kill(self.pid, signal.SIGSTOP)
            self._stopped = True

    def wake(self) -> None:
        """Let a resting worker run again."""
        if self._stopped:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGCONT)
            self._stopped = False

    def close(self) -> None:
        """End the worker in order; after two seconds by force."""
        self.wake()
        with suppress(OSError):
            self._pipe.close()
        self._process.join(2)
        self.kill()

    def kill(self) -> None:
        """End the worker now, stopped or not."""
        if self._process.is_alive():
            self._process.kill()
            self._process.join(5)
        with suppress(OSError):
            self._pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def settle(seconds: float = 0.03) -> None:
    """A rest between samples of different workers: the stopped one's last instructions and the scheduler's."""
    time.sleep(seconds)
