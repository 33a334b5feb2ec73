"""What builds of other runtimes share: a place beside the target, the child's environment, the files that go along."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from ftprof.profiler.built import Built, Recipe, Source
from ftprof.profiler.errors import FtprofError

# The tokenizer's files, as they lie beside Hugging Face models.
_TOKENIZER = (
    *("tokenizer*.json", "tokenizer.model", "vocab.*", "merges.txt", "special_tokens_map.json", "added_tokens.json"),
    *("spiece.model", "sentencepiece.bpe.model", "tekken.json", "chat_template*"),
)
_ROOM = "free some space, or let --out lie on another disk"


class Workplace:
    """A neighbour of the target that holds the child's scratch files and what is built; it always goes again.

    What builds of the same target left that were killed goes as well. FtprofError where the disk has less than
    `needed` bytes, before anything is written.
    """

    def __init__(self, target: Path, needed: int) -> None:
        self.target, self.needed = target, needed
        self.root = target.with_name(f".{target.name}.{os.getpid()}.part")
        self.folder = self.root / "built"

    def __enter__(self) -> Self:
        self.target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(self.target)
        free = self.free()
        if free < self.needed:
            raise FtprofError(
                f"building needs about {_mb(self.needed)} in {self.target.parent}, and {_mb(free)} are free", _ROOM
            )
        self.root.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def free(self) -> int:
        """Bytes that the disk has left."""
        return shutil.disk_usage(self.target.parent).free

    def filled_up(self, at: str = "") -> FtprofError:
        """The disk was full before the build was done; `at` says where in it."""
        sizes = f"building needs about {_mb(self.needed)}, and {_mb(self.free())} are free now"
        return FtprofError(f"the disk of {self.target.parent} filled up{at}: {sizes}", _ROOM)

    def unwritable(self, error: OSError) -> FtprofError:
        """The target cannot be written."""
        why = error.strerror or error
        return FtprofError(f"cannot write {self.target} ({_mb(self.needed)}): {why}", "choose another directory")


def _mb(count: int) -> str:
    return f"{count / 1e6:.0f} MB"


def _sweep(target: Path) -> None:
    for left in target.parent.glob(f".{target.name}.*.part"):
        process = left.name.split(".")[-2]
        if process.isdigit() and int(process) != os.getpid() and not _alive(int(process)):
            shutil.rmtree(left, ignore_errors=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def environment(scratch: Path, threads: int) -> dict[str, str]:
    """The child imports what we can import, makes its temporary files on the target's disk, and asks no network."""
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "TMPDIR": str(scratch),
        "HF_HUB_OFFLINE": "1",
        "ORT_DISABLE_TELEMETRY": "1",
        "OMP_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "false",
    }


def how_it_ended(code: int) -> str:
    """What the child's exit code means, after its name."""
    return f"was killed by signal {-code}, probably for want of memory" if code < 0 else f"ended with code {code}"


def tokenizer_files(source: Source, *more: str) -> list[Path]:
    """The tokenizer's files in the source, those that match `more`, and its own code where that may run."""
    folder = Path(source.directory)
    found = [path for pattern in (*_TOKENIZER, *more) for path in folder.glob(pattern) if path.is_file()]
    code = folder.glob("*.py") if found and source.trust_remote_code else ()
    return [*found, *code]


def copy_files(files: Sequence[Path], folder: Path) -> None:
    """The files as they are, over what a builder wrote, so that texts get the ids that they had."""
    for path in files:
        shutil.copyfile(path, folder / path.name)


def described(
    recipe: Recipe, source: Source, folder: Path, seconds: float, packages: Sequence[str], notes: Sequence[str]
) -> Built:
    """What was built in `folder`, with the versions of those of `packages` that are installed."""
    return Built(
        recipe=recipe,
        task=source.task,
        source=source.facts,
        seconds=seconds,
        size_bytes=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        eos_ids=source.eos_ids,
        versions={name: version for name in packages if (version := _version(name))},
        notes=tuple(notes),
    )


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
