"""Versions and settings that move the figures, without importing what they belong to."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

from ftprof.advisors.audit import Environment
from ftprof.advisors.commit import commit
from ftprof.profiler.processes import start_method

PACKAGES = (
    "torch",
    "transformers",
    "peft",
    "safetensors",
    "numpy",
    "tokenizers",
    "accelerate",
    "onnxruntime-gpu",
    "onnxruntime",
    "onnxruntime-genai-cuda",
    "onnxruntime-genai",
)
# Prefixes of variables that change how fast things run; values of others are nobody's business.
PREFIXES = (
    *("OMP_", "MKL_", "ONEDNN_", "DNNL_", "KMP_", "GOMP_", "PYTORCH_", "TORCH_", "CUDA_VISIBLE", "HF_HUB_OFFLINE"),
    *("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD"),
)


def environment(device: str, fingerprint: str = "") -> Environment:
    """This process's environment; `fingerprint` is the machine's."""
    packages = {}
    for name in PACKAGES:
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return Environment(
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        packages=packages,
        variables={name: value for name, value in sorted(os.environ.items()) if name.startswith(PREFIXES)},
        start_method=start_method(device),
        fingerprint=fingerprint,
        commit=commit(Path.cwd()),
    )
