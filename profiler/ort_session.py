"""Sessions of ONNX Runtime as ftprof opens them: the device that is really there, a set thread count, no spinning."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ftprof.profiler.errors import FtprofError
from ftprof.profiler.machine import usable_cores

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
_QUIET = 4  # fatal errors only; what matters comes as an exception


def thread_count(asked: int | None) -> int:
    """Threads of a session: as asked, else the processors that this process may use.

    Left alone, ONNX Runtime takes one per core of the whole machine, and onnxruntime-genai sometimes a single one.
    """
    return asked or usable_cores()


def providers(device: str) -> list[str | tuple[str, dict[str, int]]]:
    """Execution providers for `cpu` or `cuda[:N]`. FtprofError where there is no GPU.

    PyTorch says whether there is one: the GPU build of ONNX Runtime lists its CUDA provider on any machine.
    """
    kind, _, number = device.partition(":")
    if kind == "cpu":
        return [CPU]
    import torch

    if kind != "cuda" or not torch.cuda.is_available():
        raise FtprofError(f"no {device} for ONNX Runtime on this machine", "use --device cpu")
    return [(CUDA, {"device_id": int(number or 0)}), CPU]


def session_options(threads: int, profile: Path | None = None, weights: Path | None = None) -> Any:
    """Options of every session. `profile` is the prefix of the profile's file; `weights` is the directory of external
    weights, for a graph that is handed over as bytes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _QUIET
    # Threads that spin for their next task slow another process down two-fold for 50 ms; sleeping costs a run 5 %.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    if weights is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(weights))
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    return options


def open_session(graph: Path | bytes, options: Any, device: str) -> Any:
    """The session of a graph. FtprofError where ONNX Runtime does not take it, or not on that device."""
    import onnxruntime

    asked = providers(device)
    name = str(graph) if isinstance(graph, Path) else "the rewritten graph"
    try:
        session = onnxruntime.InferenceSession(
            str(graph) if isinstance(graph, Path) else graph, options, providers=asked
        )
    except Exception as error:
        raise FtprofError(
            f"ONNX Runtime {onnxruntime.__version__} could not open {name}: {first_line(error)}",
            "export the model again with the installed versions",
        ) from error
    if len(asked) > 1 and session.get_providers()[0] != CUDA:
        raise FtprofError(
            f"ONNX Runtime runs {name} on {session.get_providers()[0]}, not on {device}",
            "install the CUDA and cuDNN versions that this onnxruntime-gpu was built for",
        )
    return session


def first_line(error: BaseException) -> str:
    """The first line that says something; of a failed run the node, without ONNX Runtime's own source lines."""
    if failed := re.search(r"while running (\w+) node\. Name:'([^']*)'", str(error)):
        return f"{failed[1]} node {failed[2]}".strip()
    lines = (line.strip() for line in str(error).splitlines())
    text = next((line for line in lines if line), type(error).__name__)
    return text.rsplit(" : ", 1)[-1][:300]
