"""The digest of a saved model: what was proven is what is deployed."""

from __future__ import annotations

import hashlib
from pathlib import Path

WEIGHTS = frozenset({".safetensors", ".onnx", ".data", ".gguf"})
"""Files that hold weights, and graphs: of plain directories, adapters, and models built for another runtime."""


def artefact_digest(directory: Path) -> str:
    """SHA-256 (hex) over names and contents of all weights in `directory`, in order of name; "" where it holds none.

    OSError where one cannot be read.
    """
    paths = [path for path in directory.rglob("*") if path.suffix in WEIGHTS and path.is_file()]
    digest = hashlib.sha256()
    for path in sorted(paths, key=lambda path: path.relative_to(directory).as_posix()):
        digest.update(path.relative_to(directory).as_posix().encode(errors="surrogateescape"))
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest() if paths else ""
