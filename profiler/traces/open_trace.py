"""Opens a trace of any supported format."""

from __future__ import annotations

from pathlib import Path

from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.traces.columns import Trace
from ftprof.profiler.traces.read_kineto import Progress, read_kineto
from ftprof.profiler.traces.read_nsys import read_nsys

_SQLITE = b"SQLite format 3\x00"


def open_trace(path: Path, progress: Progress | None = None) -> Trace:
    """The trace in the file, as columns.

    Raises FtprofError where the file is missing, unreadable or no trace. `progress` gets the bytes read so far.
    """
    if path.is_dir():
        raise FtprofError(f"{path} is a directory", "name the trace file in it", Exit.USAGE)
    try:
        with path.open("rb") as file:
            beginning = file.read(16)
    except OSError as fault:
        raise FtprofError(f"{path}: {fault.strerror}", "check the path", Exit.USAGE) from fault
    if beginning.startswith(_SQLITE):
        return read_nsys(path)
    if path.suffix in (".nsys-rep", ".qdrep"):
        hint = f"export it first: nsys export --type sqlite {path.name}"
        raise FtprofError(f"{path}: an Nsight Systems report is not readable as it is", hint, Exit.USAGE)
    return read_kineto(path, progress)
