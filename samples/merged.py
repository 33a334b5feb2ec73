"""Model directories that variants are made of. Weights that two of them share are one file on the disk."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from ftprof.samples import load
from ftprof.samples.demo import BASES, demo_sample


def save_merged(sample: str, out: Path, *, dtype: str) -> None:
    """Writes the sample with its adapter merged, tokenizer included, in "float32" or "bfloat16"."""
    import torch

    parts = demo_sample(sample)
    model = load.with_adapter(_base(sample, parts.base), parts.model).merge_and_unload(safe_merge=True)
    # Merged first and rounded after: adding the adapter in bf16 would round every weight twice.
    _save(model.to(getattr(torch, dtype)), load.tokenizer_of(parts.base), out)


def save_base_bf16(sample: str, out: Path) -> None:
    """Writes the sample's base alone, in bf16; a classifier's head comes with the adapter."""
    import torch

    base = demo_sample(sample).base
    _save(_base(sample, base).to(torch.bfloat16), load.tokenizer_of(base), out)


def _base(sample: str, base: Path) -> Any:
    return load.causal_base(base) if BASES[sample] == "smollm2" else load.classifier_base(base)


def _save(model: Any, tokenizer: Any, out: Path) -> None:
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def link_files(source: Path, out: Path) -> None:
    """Fills `out` with the files of `source`; large ones as hard links where the file system can."""
    for path in source.iterdir():
        if path.suffix == ".safetensors":
            _link(path, out / path.name)
        else:
            shutil.copy(path, out / path.name)


def _link(path: Path, new: Path) -> None:
    try:
        os.link(path, new)
    except OSError:
        shutil.copy(path, new)


def set_in_json(path: Path, key: str, value: object) -> None:
    """Changes one key of a JSON object in a file."""
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings[key] = value
    path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
