"""A directory opened by ONNX Runtime GenAI: the model, its tokenizer and its limits, shared by engines that call it alike."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ftprof.profiler.errors import FtprofError
from ftprof.profiler.ort_session import CPU, CUDA, first_line, thread_count

# Both packages collect usage data on Linux unless this is set before their libraries are loaded; their upload threads
# would also run beside what is timed.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


@dataclass(frozen=True, kw_only=True)
class Opened:
    """What one directory needs in memory. `context` is the longest row with its new tokens."""

    model: Any
    tokenizer: Any
    threads: int
    pad_id: int
    context: int

    @property
    def providers(self) -> tuple[str, ...]:
        """Execution providers of the device that the model really runs on, as GenAI names it."""
        return (CUDA, CPU) if str(self.model.device_type).upper() == "CUDA" else (CPU,)


def open_directory(directory: Path, threads: int | None) -> Opened:
    """Open model and tokenizer. FtprofError where either does not open."""
    asked = thread_count(threads)
    try:
        config = json.loads((directory / "genai_config.json").read_text("utf-8"))["model"]
        pad_id, context = int(config["pad_token_id"]), int(config["context_length"])
    except (OSError, ValueError, KeyError) as error:
        raise FtprofError(f"{directory} has no usable genai_config.json: {error}", "build it again") from error
    return Opened(
        model=open_model(directory, asked),
        tokenizer=open_tokenizer(directory),
        threads=asked,
        pad_id=pad_id,
        context=context,
    )


def open_model(directory: Path, threads: int, profile: Path | None = None) -> Any:
    """A model on this many threads. `profile` is the prefix of a profile's file, which is written when the model goes."""
    try:
        import onnxruntime_genai as og
    except ImportError as error:
        raise FtprofError(
            f"onnxruntime-genai does not load: {first_line(error)}", "pip install onnxruntime-genai"
        ) from error
    # Threads that spin for their next task slow another process down two-fold for 50 ms.
    options: dict[str, object] = {"intra_op_num_threads": threads, "session.intra_op.allow_spinning": "0"}
    if profile is not None:
        options["enable_profiling"] = str(profile)
    try:
        config = og.Config(str(directory))
        config.overlay(json.dumps({"model": {"decoder": {"session_options": options}}}))
        return og.Model(config)
    except Exception as error:
        raise FtprofError(
            f"ONNX Runtime GenAI cannot open {directory}: {first_line(error)}",
            "build it again with the installed version",
        ) from error


def open_tokenizer(directory: Path) -> Any:
    """The Hugging Face tokenizer that lies in the directory, so that texts get the ids that PyTorch saw."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(directory)
    except (OSError, ValueError, KeyError) as error:
        raise FtprofError(
            f"no usable tokenizer in {directory}: {first_line(error)}", "build it again from a directory that has one"
        ) from error
