"""Classes of the kernels of a trace, worked out once for each distinct name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from ftprof.profiler.traces import kernel_names as table
from ftprof.profiler.traces.columns import Trace
from ftprof.profiler.traces.intervals import Marks, distinct

TensorCore = Literal["yes", "no", "unknown"]
# Only these can run on matrix units; for all others the answer is no.
_ELIGIBLE = frozenset({"gemm", "attention", "convolution", "lora"})
_TABLE = tuple((name, re.compile(pattern)) for name, pattern in table.CLASSES)
_NO, _YES = re.compile(table.TENSOR_CORE_NO), re.compile(table.TENSOR_CORE_YES)
_MISALIGNED, _EFFICIENT = re.compile(table.MISALIGNED), re.compile(table.MEMORY_EFFICIENT)


@lru_cache(maxsize=8192)
def kernel_class(name: str) -> str:
    """gemm, attention, norm, softmax, elementwise, copy, cast, collective, quantise, sampling, ... or other.

    >>> kernel_class("void pytorch_flash::flash_fwd_kernel<...>"), kernel_class("Memcpy HtoD (Pinned -> Device)")
    ('attention', 'memcpy')
    """
    if name.startswith(("Memcpy ", "Memset ")):
        return name[:6].lower()
    if name.startswith("graph "):
        return "graph"
    return next((kind for kind, pattern in _TABLE if pattern.search(name)), "other")


@lru_cache(maxsize=8192)
def tensor_core(name: str) -> TensorCore:
    """Whether a kernel runs on matrix units, as far as its name tells."""
    if kernel_class(name) not in _ELIGIBLE or _NO.search(name):
        return "no"
    return "yes" if _YES.search(name) else "unknown"


def is_misaligned(name: str) -> bool:
    """Whether a product reads operands by one or two elements at a time, because their rows are not aligned."""
    return _MISALIGNED.search(name) is not None


def attention_form(name: str) -> Literal["flash", "memory-efficient"] | None:
    """The form of a fused attention kernel; None for other kernels."""
    if kernel_class(name) != "attention":
        return None
    return "memory-efficient" if _EFFICIENT.search(name) else "flash"


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """Class and matrix-unit use by name number; "" for names that no device work bears."""

    classes: tuple[str, ...]
    tensor: tuple[str, ...]

    def is_class(self, *kinds: str) -> Marks:
        """By name number: whether it is one of these classes."""
        return np.array([kind in kinds for kind in self.classes] or [False], dtype=np.bool_)


def classify(trace: Trace) -> Taxonomy:
    """Classifies the names of device work."""
    used = set(distinct(trace.device.name).tolist())
    classes = tuple(kernel_class(name) if number in used else "" for number, name in enumerate(trace.names))
    tensor = tuple(tensor_core(name) if number in used else "" for number, name in enumerate(trace.names))
    return Taxonomy(classes, tensor)
