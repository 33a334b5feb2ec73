"""Kernel names as people can read them: the template arguments of a C++ name cut down to what tells kernels apart."""

from __future__ import annotations

import re
from functools import lru_cache

from ftprof.reports import clean

_INNER = re.compile(r"(?:cutlass::Kernel2?|cutlass::device_kernel)<(?P<name>[\w:]+)")
_PARTS = re.compile(r"\b(\w*(?:Functor|_kernel_cuda|_kernel_impl|Ops|traits)\w*|\w+_kernel_cuda)\b")
_SPACES = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\b(?:at::native|at::cuda|c10|std)::")
_LENGTH = re.compile(r"[1-9]\d{0,3}")
# Wrappers that every element-wise kernel of PyTorch shares say nothing.
_PLAIN = frozenset({"gpu_kernel_impl", "gpu_kernel_impl_nocast"})
LIMIT = 64


@lru_cache(maxsize=4096)
def kernel(name: str, limit: int = LIMIT) -> str:
    """A short form on one line, at most `limit` characters: "vectorized_elementwise_kernel<AddFunctor>".

    >>> kernel("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int)")
    'vectorized_elementwise_kernel<AddFunctor>'
    """
    mangled = _mangled(name)
    if mangled:
        return clean.name(mangled, limit)
    inner = _INNER.search(name)
    if inner:
        return clean.name(inner["name"], limit)
    if not name.startswith("void ") and "::" not in name:
        return clean.name(name, limit)
    head, bracket, arguments = _SPACES.sub("", name.removeprefix("void ")).partition("<")
    head = head.partition("(")[0].rpartition("::")[2] or head
    parts = [part for part in dict.fromkeys(_PARTS.findall(arguments)) if part not in _PLAIN and part != head]
    short = f"{head}<{', '.join(parts[:2])}>" if bracket and parts else head
    return clean.name(short or name, limit)


def _mangled(name: str) -> str | None:
    """The innermost plain name of a mangled C++ name: "add_rmsnorm_kernel" of "_ZN5aiter18add_rmsnorm_kernelI..."."""
    rest, found = name.removeprefix("_ZN"), None
    while rest != name and (length := _LENGTH.match(rest)):
        start, end = length.end(), length.end() + int(length[0])
        found, rest = rest[start:end], rest[end:]
    return found or None


def place(text: str | None, limit: int = 2 * LIMIT) -> str:
    """An op, a module or a line of code in one piece; "" where the trace does not tell."""
    if not text:
        return ""
    # Build logs obey a line that wrapping begins with two colons; torch.ops spells the same op with a point.
    return clean.name(text.replace("::", "."), limit)


def line(text: str | None) -> str:
    """A Python line without the folders of its file: "modeling_bert.py(364): forward"."""
    folders, bracket, rest = (text or "").partition("(")
    return place(folders.rpartition("/")[2] + bracket + rest)
