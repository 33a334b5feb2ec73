"""Quantised weights by their config: the method, its bits, what loads it, and whether it loads here. Pure.

What each method needs was read in transformers 5.24 (`validate_environment` of its quantizers).
"""

from __future__ import annotations

import importlib.util
import re

import msgspec

from ftprof.profiler.config_file import ConfigFile
from ftprof.profiler.errors import FtprofError

_KEYS = ("quantization_config", "compression_config")


class _Method(msgspec.Struct, frozen=True):
    """What people call it; the packages that load it, as (import name, pip name); whether only a GPU runs it."""

    title: str
    packages: tuple[tuple[str, str], ...] = ()
    gpu: bool = False
    bits: int | None = None


_GPTQMODEL = ("gptqmodel", "gptqmodel")
_METHODS = {
    "bitsandbytes": _Method("bitsandbytes", (("bitsandbytes", "bitsandbytes"),)),
    "gptq": _Method("GPTQ", (_GPTQMODEL, ("optimum", "optimum"))),
    "awq": _Method("AWQ", (_GPTQMODEL,)),
    "compressed-tensors": _Method("compressed-tensors", (("compressed_tensors", "compressed-tensors"),)),
    "torchao": _Method("torchao", (("torchao", "torchao"),)),
    "fp8": _Method("fp8", bits=8),
    "mxfp8": _Method("MXFP8", bits=8),
    "mxfp4": _Method("MXFP4", bits=4),
    "nvfp4": _Method("NVFP4", (("kernels", "kernels"),), gpu=True, bits=4),
    "fbgemm_fp8": _Method("FBGEMM fp8", (("fbgemm_gpu", "fbgemm-gpu-genai"),), gpu=True, bits=8),
    "hqq": _Method("HQQ", (("hqq", "hqq"),)),
    "quanto": _Method("quanto", (("optimum.quanto", "optimum-quanto"),)),
    "eetq": _Method("EETQ", (("kernels", "kernels"),), gpu=True, bits=8),
    "aqlm": _Method("AQLM", (("aqlm", "aqlm[gpu,cpu]"),), bits=2),
    "auto-round": _Method("AutoRound", (("auto_round", "auto-round"),)),
    "quark": _Method("Quark", (("quark", "amd-quark"),)),
    "higgs": _Method(
        "HIGGS", (("flute", "flute-kernel"), ("fast_hadamard_transform", "fast_hadamard_transform")), True
    ),
    "vptq": _Method("VPTQ", (("vptq", "vptq"),), gpu=True),
    "spqr": _Method("SpQR", (("spqr_quant", "spqr_quant[gpu]"),), gpu=True),
    "fp_quant": _Method("FP-Quant", (("fp_quant", "fp_quant"),), gpu=True, bits=4),
    "bitnet": _Method("BitNet", bits=2),
    "sinq": _Method("SINQ", (("sinq", "sinq"),)),
}


class QuantisedBase(msgspec.Struct, frozen=True, kw_only=True):
    """How weights are stored quantised. `missing` are the pip names of what is not installed here.

    `bits` is None where the config does not say, or says several.
    """

    method: str
    title: str
    bits: int | None
    missing: tuple[str, ...] = ()
    gpu: bool = False

    @property
    def words(self) -> str:
        """For people: "4-bit bitsandbytes"."""
        return f"{self.bits}-bit {self.title}" if self.bits and str(self.bits) not in self.title else self.title

    @property
    def unmergeable(self) -> str:
        """Why no adapter may be merged into these weights, and the recipe."""
        return (
            f"the base is held quantised ({self.words}), whose steps are coarser than the adapter's update: reload the "
            "base in 16 bit (--base DIR), merge there, then quantise the merged model with the task's own data"
        )


def quantised(config: ConfigFile) -> QuantisedBase | None:
    """How a model's config.json says that its weights are quantised; None where it does not."""
    table = next((found for key in _KEYS if (found := config.table(key))), None)
    if table is None:
        return None
    name = table.text("quant_method") or ("bitsandbytes" if _bitsandbytes(table) else "unknown")
    name = "bitsandbytes" if name.startswith("bitsandbytes") else name
    method = _METHODS.get(name, _Method(name))
    missing = tuple(pip for package, pip in method.packages if not _installed(package))
    return QuantisedBase(
        method=name, title=method.title, bits=_bits(table) or method.bits, missing=missing, gpu=method.gpu
    )


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # the package that would hold it is not there
        return False


def _bitsandbytes(table: ConfigFile) -> int | None:
    return 4 if table.flag("load_in_4bit") else 8 if table.flag("load_in_8bit") else None


def _bits(table: ConfigFile) -> int | None:
    """One figure for all weights, wherever the method writes it."""
    direct = _bitsandbytes(table) or table.integer("bits", "w_bit", "nbits", "num_bits")
    if direct is not None:
        return direct
    found = {bits for inner in _tables(table) if (bits := inner.integer("num_bits", "nbits", "bits"))}
    if len(found) == 1:
        return found.pop()
    named = table.text("weights", "quant_type", "format") or _torchao_type(table) or ""
    digits = re.search(r"int(\d)|(\d)bit|float(\d)", named, re.IGNORECASE)
    return int(next(group for group in digits.groups() if group)) if digits else None


def _torchao_type(table: ConfigFile) -> str | None:
    kinds = table.table("quant_type")
    default = kinds.table("default") if kinds else None
    return default.text("_type") if default else None


def _tables(table: ConfigFile) -> list[ConfigFile]:
    """The tables in which methods describe weights: groups of layers, and nested settings of one kind."""
    groups = [table.table("config_groups"), table.table("quant_config")]
    inner = [group.table(name) for group in groups if group for name in group.values]
    return [found.table("weights") or found for found in inner if found]


def refuse_missing(base: QuantisedBase, place: str, base_hint: str) -> None:
    """Raises FtprofError where a package that loads such weights is not installed; `base_hint` names the way out."""
    if base.missing:
        packages = " ".join(base.missing)
        raise FtprofError(
            f"{place} is quantised ({base.words}), and {' and '.join(base.missing)}, which loads it, is not installed",
            f"pip install {packages!r}, or {base_hint}"
            if "[" in packages
            else f"pip install {packages}, or {base_hint}",
        )


def refuse_device(base: QuantisedBase, place: str, device: str) -> None:
    """Raises FtprofError where such weights run on a GPU only and `device` is none."""
    if base.gpu and not device.startswith("cuda"):
        raise FtprofError(
            f"{place} is quantised ({base.words}), which runs on a GPU only, not on {device}",
            "add --device cuda:0 where there is one, or give the model in 16 bit",
        )


_SUFFIX = re.compile(
    r"[-_.](?:(?:unsloth[-_])?(?:bnb[-_])?[48][-_]?bits?|bnb|nf4|gptq|awq|aqlm|hqq|exl2|gguf|fp8|nvfp4|mxfp4|int[48]|"
    r"w[48]a(?:4|8|16)|g?\d{2,3}g|quantized|dynamic)\b.*\Z",
    re.IGNORECASE,
)
"""From where on a repository's name speaks of quantisation, under the usual habits of naming."""
_STEPS = re.compile(r"[48][-_]?bit|bnb|nf4|gptq|awq|aqlm|hqq|exl2|gguf|fp8|nvfp4|mxfp4|int[48]|w[48]a", re.IGNORECASE)


def plain_name(name: str) -> str | None:
    """The 16-bit original's name that a quantised repository's name suggests; None where it does not look like one."""
    account, slash, last = name.rpartition("/")
    cut = _SUFFIX.sub("", last)
    looks = bool(cut) and cut != last and _STEPS.search(last[len(cut) :])
    return f"{account}{slash}{cut}" if looks else None
