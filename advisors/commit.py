"""Which commit a run belongs to: what the build says, else what is checked out where the command runs. Runs no git."""

from __future__ import annotations

import os
import re
from pathlib import Path

VARIABLES = ("GITHUB_SHA", "CI_COMMIT_SHA", "BUILD_SOURCEVERSION", "GIT_COMMIT", "BUILDKITE_COMMIT", "CIRCLE_SHA1")
"""GitHub, GitLab, Azure, Jenkins, Buildkite and CircleCI."""
_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def commit(folder: Path) -> str:
    """The full hash, or "" where there is none."""
    given = next((value for name in VARIABLES if _HASH.fullmatch(value := os.environ.get(name, ""))), "")
    return given or _checked_out(folder)


def _checked_out(folder: Path) -> str:
    try:
        place = next((path / ".git" for path in (folder, *folder.parents) if (path / ".git").exists()), None)
        if place is not None and place.is_file():  # a work tree, or a submodule
            place = (place.parent / place.read_text("utf-8").removeprefix("gitdir:").strip()).resolve()
        return _head(place) if place is not None else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _head(git: Path) -> str:
    head = (git / "HEAD").read_text("utf-8").strip()
    if _HASH.fullmatch(head):
        return head
    name = head.removeprefix("ref:").strip()
    shared = git / "commondir"
    places = [git, (git / shared.read_text("utf-8").strip()).resolve()] if shared.is_file() else [git]
    for place in places:
        if (place / name).is_file() and _HASH.fullmatch(found := (place / name).read_text("utf-8").strip()):
            return found
        if (packed := place / "packed-refs").is_file():
            for line in packed.read_text("utf-8").splitlines():
                found, _, ref = line.partition(" ")
                if ref == name and _HASH.fullmatch(found):
                    return found
    return ""
