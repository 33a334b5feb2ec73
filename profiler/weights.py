"""Finding a directory's weights as `from_pretrained` does, and what safetensors files hold, from their headers alone."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable
from pathlib import Path

import msgspec
from safetensors import SafetensorError, safe_open

from ftprof.profiler.config_file import read_config
from ftprof.profiler.errors import FtprofError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_model.safetensors"
PICKLES = frozenset({".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib"})

DTYPES: dict[str, tuple[str, int]] = {
    "BOOL": ("bool", 8),
    "F4": ("float4_e2m1fn_x2", 4),
    "F6_E2M3": ("float6_e2m3", 6),
    "F6_E3M2": ("float6_e3m2", 6),
    "F8_E4M3": ("float8_e4m3fn", 8),
    "F8_E5M2": ("float8_e5m2", 8),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8),
    "F8_E8M0": ("float8_e8m0fnu", 8),
    "I8": ("int8", 8),
    "U8": ("uint8", 8),
    "F16": ("float16", 16),
    "BF16": ("bfloat16", 16),
    "I16": ("int16", 16),
    "U16": ("uint16", 16),
    "F32": ("float32", 32),
    "I32": ("int32", 32),
    "U32": ("uint32", 32),
    "F64": ("float64", 64),
    "I64": ("int64", 64),
    "U64": ("uint64", 64),
    "C64": ("complex64", 64),
}
"""The format's names for dtypes: PyTorch's name for each, and the bits of one element."""

GIT_LFS_POINTER = b"version https://git-lfs"


class TensorInfo(msgspec.Struct, frozen=True):
    """One stored tensor: PyTorch's name of its dtype, its shape, and its size in bytes."""

    dtype: str
    shape: tuple[int, ...]
    size_bytes: int

    @property
    def parameters(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)


def header(path: Path) -> dict[str, TensorInfo]:
    """Every tensor of one safetensors file by name; no tensor is read.

    The library checks the header, and that the tensors cover the file exactly. Raises FtprofError where they do not,
    or where the file cannot be read.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: _info(file.get_slice(name)) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, KeyError, ValueError) as error:
        raise _broken(path, error) from error
    except OSError as error:
        raise FtprofError(
            f"cannot read {path}: {error.strerror or error}", "check the file and its permissions"
        ) from error


def _info(tensor: object) -> TensorInfo:
    dtype, bits = DTYPES[tensor.get_dtype()]  # type: ignore[attr-defined] # the library does not export the class
    shape = tuple(tensor.get_shape())  # type: ignore[attr-defined]
    return TensorInfo(dtype=dtype, shape=shape, size_bytes=math.prod(shape) * bits // 8)


def _broken(path: Path, error: Exception) -> FtprofError:
    with path.open("rb") as file:
        if file.read(len(GIT_LFS_POINTER)) == GIT_LFS_POINTER:
            return FtprofError(f"{path} is a Git LFS pointer, not the weights", "run `git lfs pull` in its repository")
    size = path.stat().st_size
    return FtprofError(
        f"{path} ({size:,} bytes) is truncated or corrupt: {str(error).replace(chr(10), ' ')}",
        "copy or download the file again, and compare its size with the original's",
    )


def parameters(tensors: Iterable[TensorInfo]) -> int:
    """Elements of all tensors together."""
    return sum(tensor.parameters for tensor in tensors)


def total_bytes(tensors: Iterable[TensorInfo]) -> int:
    """Bytes of all tensors together."""
    return sum(tensor.size_bytes for tensor in tensors)


def bytes_by_dtype(tensors: Iterable[TensorInfo]) -> dict[str, int]:
    """Bytes of each dtype, the largest first."""
    totals: dict[str, int] = {}
    for tensor in tensors:
        totals[tensor.dtype] = totals.get(tensor.dtype, 0) + tensor.size_bytes
    return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))


def main_dtype(tensors: Iterable[TensorInfo]) -> str | None:
    """The dtype that takes most of the bytes; None where there is no tensor."""
    return next(iter(bytes_by_dtype(tensors)), None)


def weight_files(directory: Path) -> tuple[Path, ...]:
    """The safetensors files of a full model, in the order of their names.

    A GGUF file, given in place of a directory, is its own only file. Raises FtprofError where there are none, where an
    index is broken, or where it names files that are missing.
    """
    if directory.is_file():
        return (directory,)
    if (directory / SINGLE).is_file():
        return (directory / SINGLE,)
    if (directory / INDEX).is_file():
        return _shards(directory, set(_weight_map(directory).values()))
    raise _no_weights(directory)


def tensors(directory: Path) -> dict[str, TensorInfo]:
    """Every tensor of a full model by name, across all shards; of the adapter where a directory holds only that.

    Of a GGUF file, given in place of a directory, too. Raises as `weight_files` and `header` do.
    """
    if directory.is_file():
        from ftprof.profiler.gguf_files import read_gguf

        return dict(read_gguf(directory).tensors)
    if (directory / ADAPTER).is_file() and not any((directory / name).is_file() for name in (SINGLE, INDEX)):
        return adapter_tensors(directory)
    found: dict[str, TensorInfo] = {}
    files = weight_files(directory)
    for path in files:
        found |= header(path)
    lost = [] if files[0].name == SINGLE else [name for name in _weight_map(directory) if name not in found]
    if lost:
        raise FtprofError(
            f"{directory / INDEX} names {len(lost)} tensors that its files lack, the first is {lost[0]}",
            "copy or download the directory again; its index and its weights are not of the same model",
        )
    return found


def adapter_tensors(directory: Path) -> dict[str, TensorInfo]:
    """Every tensor of a PEFT adapter by name. Raises FtprofError where it has no whole safetensors file."""
    path = directory / ADAPTER
    if path.is_file():
        return header(path)
    if (directory / "adapter_model.bin").is_file():
        code = (
            "import torch, safetensors.torch as s; "
            "s.save_file(torch.load('adapter_model.bin', weights_only=True), 'adapter_model.safetensors')"
        )
        raise FtprofError(
            f"{directory} holds the adapter only as a pickle (adapter_model.bin), which is never opened",
            f'convert it, if you trust it: cd {shlex.quote(str(directory))} && python -c "{code}"',
        )
    raise FtprofError(
        f"{directory} has adapter_config.json but no {ADAPTER}", "copy the whole directory that save_pretrained() wrote"
    )


def pickles(names: list[str]) -> list[str]:
    """Those of `names` that are pickle files."""
    return [name for name in names if Path(name).suffix in PICKLES]


def _weight_map(directory: Path) -> dict[str, str]:
    index = read_config(directory / INDEX)
    found = index.table("weight_map")
    names = {name: file for name, file in (found.values.items() if found else ()) if isinstance(file, str)}
    if not names:
        raise FtprofError(f"{index.path} has no weight_map", "copy or download the file again")
    outside = next((file for file in names.values() if Path(file).name != file), None)
    if outside is not None:
        raise FtprofError(f"{index.path} names a file outside the directory: {outside}", "use an index as saved")
    return names


def _shards(directory: Path, names: set[str]) -> tuple[Path, ...]:
    missing = sorted(name for name in names if not (directory / name).is_file())
    if missing:
        raise FtprofError(
            f"{directory} lacks {len(missing)} of its {len(names)} weight files, the first is {missing[0]}",
            "copy or download the missing files; the index names them all",
        )
    return tuple(directory / name for name in sorted(names))


def _no_weights(directory: Path) -> FtprofError:
    names = sorted(path.name for path in directory.iterdir())
    found = [name for name in pickles(names) if "model" in name or name.startswith("consolidated")]
    if found:
        quoted = repr(str(directory))
        code = f"from transformers import AutoModel as M; M.from_pretrained({quoted}).save_pretrained('converted')"
        return FtprofError(
            f"{directory} holds its weights only as pickles ({found[0]}), which are never opened",
            f'convert them, if you trust them: python -c "{code}" (with the Auto class of your task)',
        )
    other = next((name for name in names if name.endswith(".safetensors")), None)
    if other is not None:
        return FtprofError(
            f"{directory} has no {SINGLE} and no {INDEX}, only {other}",
            f"save it with save_pretrained(), or rename a single file to {SINGLE}",
        )
    return FtprofError(f"{directory} has a config.json but no weights", "copy the .safetensors files into it")
