"""GGUF files by their headers: what the model is, how its tensors are stored, and whether the file is whole."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import msgspec

from ftprof.profiler.config_file import ConfigFile
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.gguf_header import BadHeaderError, Header, read_header
from ftprof.profiler.weights import TensorInfo, bytes_by_dtype

SUFFIX = ".gguf"
_MAGIC = b"GGUF"
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.gguf\Z", re.IGNORECASE)
_NO_MODEL = {"adapter": "an adapter", "mmproj": "the picture part of a model", "imatrix": "calibration data"}
_NO_DECODER = frozenset({"bert", "nomic-bert", "jina-bert-v2", "t5", "t5encoder", "umt5", "clip", "whisper"})
_WHOLE = "download it again, and compare its size with the original's"


class GgufFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a header says. `tensors` are by llama.cpp's names, with GGML's name of the type they are stored in."""

    path: str
    architecture: str
    name: str | None
    max_context: int | None
    vocabulary: int | None
    tensors: Mapping[str, TensorInfo]

    @property
    def parameters(self) -> int:
        """Elements of all tensors together."""
        return sum(tensor.parameters for tensor in self.tensors.values())

    def types(self) -> dict[str, int]:
        """How many tensors are stored in each type, the types with most bytes first."""
        kinds = [tensor.dtype for tensor in self.tensors.values()]
        return {kind: kinds.count(kind) for kind in bytes_by_dtype(self.tensors.values())}

    def sentence(self) -> str:
        """What people must know of a model that comes from here."""
        stored = ", ".join(f"{count} in {kind}" for kind, count in self.types().items())
        return (
            f"the weights are a GGUF file ({len(self.tensors)} tensors: {stored}); transformers unpacks them to full "
            "precision when it loads them, so this is not the speed of llama.cpp on the same file"
        )


def find_gguf(directory: Path) -> Path | None:
    """The model's GGUF file in a directory; None where there is none. FtprofError where several could be meant."""
    found = sorted(path for path in directory.iterdir() if path.suffix.lower() == SUFFIX and path.is_file())
    models = [path for path in found if not path.name.lower().startswith("mmproj")] or found
    if len(models) > 1 and not all(_SHARD.search(path.name) for path in models):
        names = ", ".join(path.name for path in models[:4]) + (", ..." if len(models) > 4 else "")
        raise FtprofError(
            f"{directory} holds {len(models)} GGUF files ({names})",
            f"name one: ftprof diagnose {shlex.quote(str(models[0]))}",
            Exit.USAGE,
        )
    return models[0] if models else None


def read_gguf(path: Path) -> GgufFile:
    """The header of a whole, single GGUF file with a decoder in it. FtprofError for anything else."""
    try:
        status = path.stat()
    except OSError as error:
        raise FtprofError(f"cannot read {path}: {error.strerror}", "check the file and its permissions") from error
    return _read(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4)
def _read(path: Path, size: int, changed: int) -> GgufFile:
    del changed  # a key of the cache only
    _check_start(path, size)
    try:
        found = _facts(path, read_header(path))
    except ImportError as error:
        raise FtprofError("the package gguf, which knows GGUF's types, is not installed", "pip install gguf") from error
    except BadHeaderError as error:
        raise FtprofError(f"{path} ({size:,} bytes) is truncated or corrupt: {error}", _WHOLE) from error
    _check_model(path, found)
    return found


def _check_start(path: Path, size: int) -> None:
    shard = _SHARD.search(path.name)
    if shard is not None:
        raise FtprofError(
            f"{path} is part {int(shard[1])} of {int(shard[2])} of a split GGUF, which transformers does not read",
            f"join the parts: llama-gguf-split --merge {shlex.quote(str(path))} whole.gguf",
        )
    with path.open("rb") as file:
        start = file.read(32)
    if start.startswith(b"version https://git-lfs"):
        raise FtprofError(f"{path} is a Git LFS pointer, not the weights", "run `git lfs pull` in its repository")
    if not start.startswith(_MAGIC):
        raise FtprofError(f"{path} ({size:,} bytes) is not a GGUF file", _WHOLE)


def _facts(path: Path, header: Header) -> GgufFile:
    values = header.values
    kind = values.get("general.type")
    if kind in _NO_MODEL:
        raise FtprofError(f"{path} is {_NO_MODEL[str(kind)]}, not a model", "give the GGUF file of the whole model")
    architecture = str(values.get("general.architecture", ""))
    own = ConfigFile(str(path), dict(values))
    return GgufFile(
        path=str(path),
        architecture=architecture,
        name=own.text("general.name"),
        max_context=own.integer(f"{architecture}.context_length"),
        vocabulary=own.integer(f"{architecture}.vocab_size") or header.lengths.get("tokenizer.ggml.tokens"),
        tensors=header.tensors,
    )


def _check_model(path: Path, found: GgufFile) -> None:
    if not found.architecture or not found.tensors:
        raise FtprofError(f"{path} names no architecture, or holds no tensors", "give the GGUF file of a whole model")
    if found.architecture in _NO_DECODER:
        raise FtprofError(
            f"{path} holds {found.architecture}, which is not a causal language model",
            "give the Hugging Face directory that it was made from",
        )


def as_config(found: GgufFile) -> ConfigFile:
    """The part of a config.json that the header stands for."""
    values: dict[str, object] = {
        "architectures": [f"{found.architecture}ForCausalLM"],
        "model_type": found.architecture,
        "max_position_embeddings": found.max_context,
        "vocab_size": found.vocabulary,
    }
    return ConfigFile(found.path, {key: value for key, value in values.items() if value is not None})


def pretrained(model: str) -> tuple[str, str | None]:
    """What `from_pretrained` takes for a model: its directory, and the name of the GGUF file in it if it is one."""
    path = Path(model)
    return (str(path.parent), path.name) if path.suffix.lower() == SUFFIX else (model, None)
