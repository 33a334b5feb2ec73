"""Directories that are built once, are either whole or absent, and are shared by every later run."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from ftprof.profiler.errors import FtprofError


def cache_root() -> Path:
    """`$XDG_CACHE_HOME/ftprof`, or `~/.cache/ftprof`; a relative path there is ignored, as that standard asks."""
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (configured if configured.is_absolute() else Path.home() / ".cache") / "ftprof"


def build_once(target: Path, build: Callable[[Path], None]) -> Path:
    """Returns `target`, having `build` fill it first if it does not exist.

    `build` gets an empty directory beside `target`, which takes that name in one step when everything in it is on the
    disk. A build that raises or is killed at any moment therefore leaves no `target`. Concurrent callers wait for the
    first. Raises FtprofError where the cache cannot be written.
    """
    if target.is_dir():
        return target
    with _writable(target), _lock(target):
        if not target.is_dir():
            _build(target, build)
    return target


def _build(target: Path, build: Callable[[Path], None]) -> None:
    # Only the holder of the lock gets here, so whatever unfinished build lies about belongs to a dead process.
    for stale in target.parent.glob(f".{target.name}.part-*"):
        shutil.rmtree(stale, ignore_errors=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{target.name}.part-", dir=target.parent))
    try:
        build(unfinished)
        _publish(unfinished, target)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _publish(unfinished: Path, target: Path) -> None:
    for path in unfinished.rglob("*"):
        # Some savers write private files; a cache is read by whoever may read the directory.
        path.chmod(0o755 if path.is_dir() else 0o644)
        if path.is_file():
            _flush(path)
    unfinished.chmod(0o755)
    unfinished.replace(target)
    if sys.platform != "win32":  # directories cannot be opened there
        _flush(target.parent)


def _flush(path: Path) -> None:
    # Windows flushes only what is open for writing, the others refuse to open a directory for that.
    descriptor = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _writable(target: Path) -> Iterator[None]:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise FtprofError(
            f"cannot write {target}: {error.strerror or error}",
            "free some disk space, or set XDG_CACHE_HOME to a folder that you can write",
        ) from error


@contextlib.contextmanager
def _lock(target: Path) -> Iterator[None]:
    """Held by one process at a time; the system drops it when the process ends, however it ends."""
    with (target.parent / f".{target.name}.lock").open("a+b") as file:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
