"""The user's own directories: nothing is ever made in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ftprof.profiler.errors import Exit, FtprofError


def refuse_inside(directory: Path, protected: Sequence[Path], option: str) -> None:
    """FtprofError, naming `option`, where `directory` is one of `protected` or lies in one."""
    resolved = directory.resolve()
    for path in protected:
        if resolved == path.resolve() or path.resolve() in resolved.parents:
            raise FtprofError(
                f"{directory} is in the model's own directory {path}",
                f"give {option} a directory elsewhere",
                Exit.USAGE,
            )
