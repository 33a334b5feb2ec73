"""Directories that hold several adapters: which there are, which one is meant, and which lie beside it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from ftprof.profiler.config_file import ConfigFile, read_config_if_there
from ftprof.profiler.errors import Exit, FtprofError

ADAPTER_CONFIG = "adapter_config.json"
DEFAULT = "default"
"""PEFT's name of an adapter that nobody named: it lies in the directory itself, the others in folders of their names."""
_SHOWN = 4


def adapters_in(directory: Path) -> dict[str, Path]:
    """The adapters of a directory by name, `default` first; earlier checkpoints of a training run are none."""
    own = {DEFAULT: directory} if (directory / ADAPTER_CONFIG).is_file() else {}
    try:
        inner = sorted(path for path in directory.iterdir() if (path / ADAPTER_CONFIG).is_file())
    except OSError:  # nothing may be listed there, so nothing can be offered
        inner = []
    return own | {path.name: path for path in inner if not re.fullmatch(r"checkpoint-\d+", path.name)}


def pick(held: Mapping[str, Path], directory: Path, typed: str, name: str | None, option: str = "") -> Path:
    """The adapter called `name`, or the one that can be meant without a name.

    FtprofError (usage) with the exact command where the name is not there, or where there is a choice. `typed` is what
    the user called `directory`; `option` comes before it in the command.
    """
    if name is None and (DEFAULT in held or len(held) == 1):
        return held.get(DEFAULT) or next(iter(held.values()))
    if name is not None and name in held:
        return held[name]
    example = next((each for each in held if each != DEFAULT), DEFAULT)
    command = f"ftprof diagnose {shlex.quote(typed)} --adapter {shlex.quote(example)}"
    if option:
        command = f"ftprof diagnose {option} --adapter {shlex.quote(str(held[example]))}"
    wrong = f", and none is called {name}" if name is not None else ""
    raise FtprofError(f"{directory} holds {listed(held)}{wrong}", f"name one of them: {command}", Exit.USAGE)


def listed(names: Mapping[str, Path]) -> str:
    """ "3 adapters (a, b, c)"."""
    shown = ", ".join([*names][:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return f"{len(names)} adapter{'s' * (len(names) != 1)} ({shown})"


def beside(chosen: Path, settings: ConfigFile) -> tuple[str, ...]:
    """Names of other adapters on the same base, in the chosen one's directory and in the one that holds it."""
    base = settings.text("base_model_name_or_path")
    # A checkpoint's neighbours are the same adapter at other times, and a cached snapshot's are its other revisions.
    alone = re.fullmatch(r"checkpoint-\d+", chosen.name) or chosen.parent.name == "snapshots"
    near = [adapters_in(chosen), {} if alone else adapters_in(chosen.resolve().parent)]
    found = {path.resolve(): path.name for held in near for path in held.values()}
    found.pop(chosen.resolve(), None)
    return tuple(name for path, name in found.items() if base is not None and _base(path) == base)


def _base(directory: Path) -> str | None:
    try:
        found = read_config_if_there(directory / ADAPTER_CONFIG)
    except FtprofError:  # a neighbour that cannot be read is not what the user asked about
        return None
    return found.text("base_model_name_or_path") if found else None


def note(names: tuple[str, ...]) -> str | None:
    """What it means that other adapters share the base; None where there are none."""
    if not names:
        return None
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    count = f"{len(names)} more adapter{'s' * (len(names) != 1)}"
    return (
        f"{count} on the same base lie{'s' * (len(names) == 1)} beside this one ({shown}): where they are served "
        "together, merging would freeze one, so set keep_adapter = true in the call file"
    )
