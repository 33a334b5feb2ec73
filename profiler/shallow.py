"""A copy of a model's first layers: real weights, real head, fewer layers between. What a layer costs shows in two of them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.weights import weight_files

# The depth in the configs of the families that name it otherwise than most.
DEPTH_KEYS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
LAYER = re.compile(r"(?:^|\.)(?:layers|layer|h|blocks|block)\.(\d+)\.")


def shallow_copy(source: Path, target: Path, layers: int) -> None:
    """Write the first `layers` layers of a plain directory to `target`, with everything that is no layer.

    FtprofError where the config does not say how many layers there are, or the weights' names do not number them.
    """
    target.mkdir(parents=True)
    config = json.loads((source / "config.json").read_text("utf-8"))
    (target / "config.json").write_text(json.dumps(_shortened(config, layers)), "utf-8")
    _write_weights(source, target, layers)
    written = {"config.json", "model.safetensors.index.json"}
    for path in source.iterdir():
        if path.is_file() and path.suffix != ".safetensors" and path.name not in written:
            shutil.copyfile(path, target / path.name)


def _shortened(config: Mapping[str, object], layers: int) -> dict[str, object]:
    key = next((key for key in DEPTH_KEYS if isinstance(config.get(key), int)), None)
    if key is None:
        raise FtprofError("the config does not say how many layers there are", "nothing can be probed", Exit.UNUSABLE)
    whole = config[key]
    # Lists with one entry a layer (layer_types and the like) are cut with it.
    return {
        name: layers if name == key else value[:layers] if isinstance(value, list) and len(value) == whole else value
        for name, value in config.items()
    }


def _write_weights(source: Path, target: Path, layers: int) -> None:
    from safetensors import safe_open
    from safetensors.torch import save_file

    kept, numbered = {}, False
    for path in weight_files(source):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - not a mapping
                found = LAYER.search(name)
                numbered |= found is not None
                if found is None or int(found[1]) < layers:
                    kept[name] = file.get_tensor(name)
    if not numbered:
        raise FtprofError("the weights' names do not number the layers", "nothing can be probed", Exit.UNUSABLE)
    save_file(kept, target / "model.safetensors", metadata={"format": "pt"})
