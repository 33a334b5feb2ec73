"""The last touches that make a saved adapter fit to be given to others."""

from __future__ import annotations

import json
from pathlib import Path


def publish_adapter(directory: Path, hub_id: str, *, as_bf16: bool) -> None:
    """Names the base by its hub id, makes the files readable by all and, for a large adapter, stores it in bf16.

    PEFT records the base as it was loaded, here a path on the machine of whoever trained, and saves private files. It
    loads a bf16 adapter into fp32 by default, so storing bf16 costs 8 bits of precision and nothing else.
    """
    if as_bf16:
        _to_bf16(directory / "adapter_model.safetensors")
    config = directory / "adapter_config.json"
    settings = json.loads(config.read_text(encoding="utf-8"))
    settings["base_model_name_or_path"] = hub_id
    # A set in memory, so its order differs between runs.
    settings["target_modules"] = sorted(settings["target_modules"])
    config.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    for path in directory.iterdir():
        path.chmod(0o644)


def _to_bf16(weights: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    tensors = {name: tensor.to(torch.bfloat16) for name, tensor in load_file(weights).items()}
    save_file(tensors, weights, metadata={"format": "pt"})
