"""Base models of the samples that are in the cache already, by hub id."""

from __future__ import annotations

from pathlib import Path

from ftprof.samples.prepare import base_directory
from ftprof.samples.sources import SOURCES


def prepared_bases() -> dict[str, Path]:
    """Hub id -> directory, of those that were prepared; nothing is fetched."""
    known = {source.hub_id: base_directory(name) for name, source in SOURCES.items()}
    return {hub_id: directory for hub_id, directory in known.items() if directory.is_dir()}
