"""Delays planted before the layers of a model, each stamped as it happens, so that the truth is measured, not hoped for."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["host", "io", "sync"]

# Answers a byte with a block after the seconds that it was started with: a slow disk with a known rate.
_SLOW_DISK = """
import os, sys, time
while os.read(0, 1):
    time.sleep(float(sys.argv[1]))
    os.write(1, b"x" * 4096)
"""


@dataclass(slots=True)
class Planted:
    """What was planted since `clear`: calls and seconds."""

    seconds: float = 0.0
    calls: int = 0

    def clear(self) -> None:
        self.seconds, self.calls = 0.0, 0


def busy(seconds: float) -> None:
    """Python at work."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def asleep(seconds: float) -> None:
    """Waiting for nothing: rate limits and polling do this."""
    time.sleep(seconds)


@contextmanager
def delays(kind: Kind, seconds: float, way: int = 0) -> Iterator[Callable[[], None]]:
    """A function that spends about `seconds` in the way of its kind; `way` chooses among several ways."""
    if kind == "host":
        yield lambda: busy(seconds)
    elif kind == "io":
        with _slow_disk(seconds) as read:
            yield read
    elif way % 2 == 0:
        yield lambda: asleep(seconds)
    else:
        with _other_thread(seconds) as wait:
            yield wait


@contextmanager
def _slow_disk(seconds: float) -> Iterator[Callable[[], None]]:
    """Reads 4 KiB from a process that takes `seconds` for it."""
    disk = subprocess.Popen(
        [sys.executable, "-S", "-c", _SLOW_DISK, str(seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert disk.stdin and disk.stdout
    ask, answer = disk.stdin.fileno(), disk.stdout.fileno()

    def read() -> None:
        os.write(ask, b"?")
        missing = 4096
        while missing:
            got = len(os.read(answer, missing))
            if not got:
                raise EOFError("the slow disk ended")
            missing -= got

    try:
        yield read
    finally:
        disk.stdin.close()
        disk.wait()
        disk.stdout.close()


@contextmanager
def _other_thread(seconds: float) -> Iterator[Callable[[], None]]:
    """Waits for a thread that holds what is needed for `seconds`."""
    asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
    done: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def serve() -> None:
        while asked.get():
            time.sleep(seconds)
            done.put(True)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()

    def wait() -> None:
        asked.put(True)
        done.get()

    try:
        yield wait
    finally:
        asked.put(False)
        thread.join()


@contextmanager
def planted(modules: Sequence[Any], delay: Callable[[], object]) -> Iterator[Planted]:
    """`delay` before every forward of these modules; what it took is added up."""
    seen = Planted()

    def hook(*_: Any) -> None:
        begin = time.perf_counter()
        delay()
        took = time.perf_counter() - begin
        seen.seconds += took
        seen.calls += 1

    handles = [module.register_forward_pre_hook(hook) for module in modules]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
