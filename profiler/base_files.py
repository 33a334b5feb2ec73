"""A whole model by its files: settings, tensors, and how they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ftprof.profiler.config_file import ConfigFile, read_config
from ftprof.profiler.gguf_files import GgufFile, as_config, read_gguf
from ftprof.profiler.model_config import refuse_custom_code
from ftprof.profiler.places import Place, with_gguf
from ftprof.profiler.quantised import QuantisedBase, quantised
from ftprof.profiler.weights import TensorInfo, tensors

CONFIG = "config.json"


class BaseFiles(msgspec.Struct, frozen=True, kw_only=True):
    """`model` is what a workload loads: the directory with config.json and weights, or the GGUF file.

    `notes` are sentences for people. The config of a GGUF file is made from its header.
    """

    model: str
    config: ConfigFile
    tensors: Mapping[str, TensorInfo]
    quantised: QuantisedBase | None = None
    gguf: GgufFile | None = None
    notes: tuple[str, ...] = ()


def network(directory: Path) -> Path:
    """Where config.json and the weights lie: sentence-transformers of old put them into a folder of their own."""
    inner = directory / "0_Transformer"
    return inner if (inner / CONFIG).is_file() and not (directory / CONFIG).is_file() else directory


def base_files(place: Place, *, trusted: bool) -> BaseFiles:
    """The model at a place. FtprofError where its files are no whole model, or ask to run code that is not trusted."""
    place = with_gguf(place) if network(place.directory) == place.directory else place
    if place.gguf is not None:
        found = read_gguf(place.gguf)
        return BaseFiles(
            model=str(place.gguf),
            config=as_config(found),
            tensors=found.tensors,
            gguf=found,
            notes=(found.sentence(),),
        )
    directory = network(place.directory)
    config = read_config(directory / CONFIG)
    held = quantised(config)
    stored = f"the weights are stored quantised ({held.words}), so shapes were not compared" if held else None
    notes = (refuse_custom_code(config, trusted=trusted), stored)
    return BaseFiles(
        model=str(directory),
        config=config,
        tensors=tensors(directory),
        quantised=held,
        notes=tuple(note for note in notes if note),
    )
