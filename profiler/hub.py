"""Hub ids: telling them from paths, finding them on this machine, and fetching them where that is allowed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ftprof.profiler.errors import FtprofError
from ftprof.profiler.weights import ADAPTER, weight_files

_NAME = r"[A-Za-z0-9][\w.-]*"
_HUB_ID = re.compile(rf"{_NAME}(/{_NAME})?", re.ASCII)
WANTED = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "*.py")
"""What a model needs to run from safetensors; leaves out pickles and other frameworks' weights."""


def is_hub_id(text: str) -> bool:
    """Whether `text` may be a hub id: `org/name`, or a plain `name` as of the oldest models."""
    return _HUB_ID.fullmatch(text) is not None


def find(hub_id: str, *, revision: str | None, known: Mapping[str, Path]) -> Path | None:
    """A complete local copy: from `known`, else from the Hugging Face cache; no network. None where there is none."""
    prepared = known.get(hub_id)
    if prepared is not None and prepared.is_dir():
        return prepared
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        hits = [
            try_to_load_from_cache(hub_id, name, revision=revision) for name in ("config.json", "adapter_config.json")
        ]
    except HFValidationError:
        return None
    return next((Path(hit).parent for hit in hits if isinstance(hit, str) and _complete(Path(hit).parent)), None)


def _complete(directory: Path) -> bool:
    if (directory / ADAPTER).is_file():
        return True
    try:
        return bool(weight_files(directory))
    except FtprofError:
        return False  # fetched in part, or in another format: the caller fetches it, or says that it is not here


def network_allowed(*, offline: bool) -> bool:
    """Whether the hub may be asked: not with `offline`, nor with HF_HUB_OFFLINE set."""
    from huggingface_hub import constants

    return not offline and not constants.HF_HUB_OFFLINE


def fetch(hub_id: str, *, revision: str | None) -> Path:
    """Downloads a repository into the Hugging Face cache and gives its directory.

    Raises FtprofError (without knowing what the person typed: callers give a better hint) where that fails.
    """
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(hub_id, revision=revision, allow_patterns=list(WANTED)))
    except (OSError, ValueError) as error:  # no connection, no such repository, no right to it, no valid id
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise FtprofError(
            f"cannot fetch {hub_id} from the hub: {reason}", "check the name and the connection, or give a directory"
        ) from error
