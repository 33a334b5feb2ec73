"""From what the user typed to a directory on this machine: paths, hub ids, prepared bases."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ftprof.profiler import hub
from ftprof.profiler.config_file import ConfigFile
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.gguf_files import SUFFIX, find_gguf
from ftprof.profiler.quantised import plain_name
from ftprof.profiler.weights import INDEX, SINGLE, pickles


class Place(msgspec.Struct, frozen=True):
    """A directory, what people call it, and whether it was fetched from the hub for this run.

    `gguf` is the file in it that is meant, where the model is one.
    """

    directory: Path
    name: str
    fetched: bool = False
    gguf: Path | None = None


def find_model(text: str, *, known: Mapping[str, Path], offline: bool) -> Place:
    """The directory that the user means by `text`: a path, or a hub id. Raises FtprofError (usage) if there is none."""
    path = Path(text).expanduser()
    if is_directory(path, text):
        return Place(path, _name(path))
    if path.suffix.lower() == SUFFIX and path.is_file():
        return Place(path.parent, path.stem, gguf=path)
    if path.is_file():
        raise FtprofError(
            f"{text} is a file, not a directory", f"give the directory that holds it: {path.parent}", Exit.USAGE
        )
    # A typo in `out/model` looks like a hub id too; nobody names a local folder like the account they download from.
    if hub.is_hub_id(text) and not (path.parent.name and path.parent.is_dir()):
        # A bare name is far more often a mistyped folder than one of the few models without an account: never fetched.
        place = _on_hub(text, None, known=known, offline=offline or "/" not in text)
        if place is not None:
            return place
        if "/" in text:
            raise FtprofError(
                f"{text} is neither a directory nor in the Hugging Face cache, and ftprof is offline",
                "download it first, or run without --offline (and without HF_HUB_OFFLINE)",
                Exit.USAGE,
            )
    raise FtprofError(f"{text or 'an empty path'}: no such directory", _suggestion(path), Exit.USAGE)


def find_base(settings: ConfigFile, given: str | None, adapter: str, known: Mapping[str, Path], offline: bool) -> Place:
    """The base of the adapter whose config is `settings`: as `given`, else as recorded.

    Raises FtprofError with the command that works once the base is here.
    """
    if given is not None:
        return find_model(given, known=known, offline=offline)
    recorded = settings.text("base_model_name_or_path")
    command = f"ftprof diagnose {shlex.quote(adapter)} --base DIR{_plain(recorded)}"
    if recorded is None:
        raise FtprofError(f"{settings.path} names no base model", f"name it: {command}")
    path = Path(recorded).expanduser()
    if is_directory(path, recorded):
        return Place(path, _name(path))
    if not hub.is_hub_id(recorded):
        raise FtprofError(
            f"the adapter's base {recorded} does not exist on this machine", f"say where it is: {command}"
        )
    try:
        place = _on_hub(recorded, settings.text("revision"), known=known, offline=offline)
    except FtprofError as error:
        raise FtprofError(f"the adapter's base is not here: {error.message}", f"say where it is: {command}") from error
    if place is None:
        raise FtprofError(
            f"the adapter's base {recorded} is not on this machine, and ftprof is offline",
            f"say where it is: {command}",
        )
    return place


def _plain(recorded: str | None) -> str:
    """Words for a base that was quantised: its 16-bit original serves as well, and only there can an adapter merge."""
    original = plain_name(recorded) if recorded else None
    return f" (best the 16-bit original, such as {original}: only there can the adapter be merged)" if original else ""


def with_gguf(place: Place) -> Place:
    """The place with its GGUF file, where that is all the weights there are."""
    if place.gguf is not None or any((place.directory / name).is_file() for name in (SINGLE, INDEX)):
        return place
    found = find_gguf(place.directory)
    return msgspec.structs.replace(place, gguf=found) if found else place


def _on_hub(hub_id: str, revision: str | None, *, known: Mapping[str, Path], offline: bool) -> Place | None:
    """A local copy, else a fetched one; None where there is none and nothing may be (or can sensibly be) fetched."""
    here = hub.find(hub_id, revision=revision, known=known)
    if here is not None:
        return Place(here, hub_id)
    if not hub.network_allowed(offline=offline):
        return None
    return Place(hub.fetch(hub_id, revision=revision), hub_id, fetched=True)


def is_directory(path: Path, text: str) -> bool:
    """Whether `path` is a directory, for a `text` that may be empty or no path at all."""
    try:
        return bool(text) and path.is_dir()
    except OSError as error:  # too long a name, or a folder above it that may not be entered
        raise FtprofError(
            f"cannot read {text[:200]}: {error.strerror}", "check the path and its permissions"
        ) from error


def entries(directory: Path) -> tuple[Path, ...]:
    """What lies directly in `directory`, by name. Raises FtprofError where it cannot be read or is empty."""
    try:
        found = tuple(sorted(directory.iterdir()))
    except OSError as error:
        raise FtprofError(f"cannot read {directory}: {error.strerror}", "check its permissions") from error
    if not found:
        raise FtprofError(f"{directory} is empty", "give a directory that save_pretrained() wrote")
    return found


def no_model(directory: Path) -> FtprofError:
    """Why a directory without config.json and adapter_config.json is no model, and what the user meant instead."""
    found = entries(directory)
    checkpoints = [path for path in found if re.fullmatch(r"checkpoint-\d+", path.name) and path.is_dir()]
    if checkpoints:
        latest = max(checkpoints, key=lambda path: int(path.name.partition("-")[2]))
        return FtprofError(
            f"{directory} holds no model, only {len(checkpoints)} training checkpoint{'s' * (len(checkpoints) > 1)}",
            f"diagnose the latest: ftprof diagnose {shlex.quote(str(latest))}",
        )
    inner = [path for path in found if (path / "config.json").is_file() or (path / "adapter_config.json").is_file()]
    if inner:
        return FtprofError(
            f"{directory} holds no model itself", f"did you mean: ftprof diagnose {shlex.quote(str(inner[0]))}"
        )
    names = [path.name for path in found]
    only = f" (it holds {', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
    hint = "give a directory that save_pretrained() wrote"
    if pickles(names):
        hint += "; pickle files such as " + pickles(names)[0] + " are never opened"
    return FtprofError(f"{directory} has neither config.json nor adapter_config.json{only}", hint)


def _suggestion(path: Path) -> str:
    try:
        siblings = [entry.name for entry in path.parent.iterdir() if entry.is_dir()]
    except OSError:
        siblings = []
    close = difflib.get_close_matches(path.name, siblings, n=1)
    if close:
        return f"did you mean {path.parent / close[0]}?"
    return "give a model or adapter directory, or a hub id such as org/name"


def _name(path: Path) -> str:
    """What people call a directory: its last part, with the one above for a checkpoint or a cached snapshot."""
    whole = path.resolve()
    cached = re.search(r"models--([^/\\]+?)--([^/\\]+)[/\\]snapshots", str(whole))
    if cached:
        return f"{cached[1]}/{cached[2]}"
    numbered = re.fullmatch(r"checkpoint-\d+", whole.name)
    return f"{whole.parent.name}/{whole.name}" if numbered else whole.name or str(whole)
