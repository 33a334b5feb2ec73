"""Small traces as kineto writes them, built event by event. Times are microseconds."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]
MAIN = 100


def event(cat: str, name: str, ts: float, dur: float, tid: object = MAIN, **args: object) -> Json:
    """A complete event."""
    return {"ph": "X", "cat": cat, "name": name, "pid": MAIN, "tid": tid, "ts": ts, "dur": dur, "args": args}


def launch(ts: float, dur: float, correlation: int, name: str = "cudaLaunchKernel", tid: object = MAIN) -> Json:
    """A runtime call."""
    return event("cuda_runtime", name, ts, dur, tid, correlation=correlation)


def kernel(
    ts: float, dur: float, correlation: int, name: str = "gemm_kernel", stream: int = 7, device: int = 0
) -> Json:
    """A kernel on a stream."""
    made = event("kernel", name, ts, dur, stream, device=device, stream=stream, correlation=correlation)
    return {**made, "pid": device}


def copy(
    ts: float, dur: float, correlation: int, name: str = "Memcpy HtoD (Pageable -> Device)", **args: object
) -> Json:
    """A copy by the copy engine."""
    return event("gpu_memcpy", name, ts, dur, 7, device=0, stream=7, correlation=correlation, **args)


def op(name: str, ts: float, dur: float, dims: object = None, tid: object = MAIN, types: object = None) -> Json:
    """An op on the host, with shapes where given."""
    shapes = {} if dims is None else {"Input Dims": dims, "Input type": types or []}
    return event("cpu_op", name, ts, dur, tid, **shapes)


def note(name: str, ts: float, dur: float, tid: object = MAIN) -> Json:
    """An annotation."""
    return event("user_annotation", name, ts, dur, tid)


def python(name: str, ts: float, dur: float, tid: object = MAIN) -> Json:
    """A Python call."""
    return event("python_function", name, ts, dur, tid)


def document(events: list[Json], **header: object) -> str:
    """The JSON text, header first, as kineto lays it out."""
    return json.dumps({"schemaVersion": 1, **header, "traceEvents": events, "traceName": "t.json"}, indent=1)


def write(path: Path, events: list[Json], **header: object) -> Path:
    """Writes a trace; a name that ends in .gz is compressed."""
    text = document(events, **header).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return path
