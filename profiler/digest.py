"""A digest of a directory, which proves that the user's files were left alone."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from ftprof.profiler.errors import FtprofError

WHOLE_CONTENT_BYTES = 2 * 2**30
"""Above this much of weights a digest takes longer than a person waits (about 1 s per GiB, plus a cold disk)."""
SAMPLED_BYTES = 2**20
"""What is hashed of each end of a weight file above that limit: the header is there, and the last tensors."""


def digest_directory(path: Path, *, whole_content_bytes: int = WHOLE_CONTENT_BYTES) -> str:
    """SHA-256 (hex) of a directory tree: names of all folders, and names, sizes and contents of all files.

    A file, given in place of a directory, counts alone. Where the weight files exceed `whole_content_bytes` together,
    each of them counts with its size, its time of modification and the first and last MiB instead of its whole content.
    Times and permissions count for nothing else.
    Links to files are followed; links to folders, and dead ones, count with their target's name. Raises FtprofError
    where something cannot be read.
    """
    alone = [path] if path.is_file() else None
    path = path.parent if alone else path
    try:
        found = alone or sorted(_walk(path), key=lambda entry: entry.relative_to(path).as_posix())
        weights = sum(entry.stat().st_size for entry in found if _is_weights(entry))
        total = hashlib.sha256()
        for entry in found:
            total.update(_line(entry, path, sample=weights > whole_content_bytes and _is_weights(entry)))
        return total.hexdigest()
    except OSError as error:
        raise FtprofError(f"cannot read {error.filename or path}: {error.strerror}", "check its permissions") from error


def _walk(path: Path) -> Iterable[Path]:
    def fail(error: OSError) -> None:
        raise error  # os.walk would skip the folder, and its changes would go unseen

    for folder, folders, files in os.walk(path, onerror=fail):
        yield from (Path(folder, name) for name in (*folders, *files))


def _is_weights(path: Path) -> bool:
    return path.suffix in (".safetensors", ".gguf") and path.is_file()


def _line(path: Path, root: Path, *, sample: bool) -> bytes:
    name = os.fsencode(path.relative_to(root).as_posix())
    if not path.is_file():
        return b"%s\0%s\n" % (name, os.fsencode(path.readlink()) if path.is_symlink() else b"folder")
    status = path.stat()
    changed = status.st_mtime_ns if sample else 0
    return b"%s\0%d\0%d\0%s\n" % (name, status.st_size, changed, _content(path, sample=sample))


def _content(path: Path, *, sample: bool) -> bytes:
    with path.open("rb") as file:
        if not sample:
            return hashlib.file_digest(file, "sha256").digest()
        ends = hashlib.sha256(file.read(SAMPLED_BYTES))
        file.seek(max(path.stat().st_size - SAMPLED_BYTES, 0))
        ends.update(file.read())
        return ends.digest()
