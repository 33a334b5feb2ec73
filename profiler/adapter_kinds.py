"""PEFT's kinds of adapter: what each is called, where it acts, and whether it can become part of the weights. Pure.

What merges was tried with PEFT 0.21.2: a tiny model's logits before and after, in float32 and bfloat16.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Literal

from ftprof.profiler.config_file import ConfigFile
from ftprof.profiler.errors import FtprofError

Place = Literal["weights", "prompt", "cache"]

_TITLES = {
    "LORA": "LoRA",
    "ADALORA": "AdaLoRA",
    "IA3": "IA3",
    "LOHA": "LoHa",
    "LOKR": "LoKr",
    "VERA": "VeRA",
    "LN_TUNING": "layer-norm tuning",
    "TRAINABLE_TOKENS": "trainable tokens",
    "ADAPTION_PROMPT": "LLaMA-Adapter",
    "PROMPT_TUNING": "prompt tuning",
    "P_TUNING": "p-tuning",
    "CPT": "context-aware prompt tuning",
    "PREFIX_TUNING": "prefix tuning",
    "CARTRIDGE": "a cartridge",
}
_PROMPT = frozenset({"PROMPT_TUNING", "P_TUNING", "CPT"})
_CACHE = frozenset({"PREFIX_TUNING", "CARTRIDGE"})
_MERGEABLE = frozenset(
    {"LORA", "ADALORA", "IA3", "LOHA", "LOKR", "OFT", "BOFT", "VERA", "HRA", "LN_TUNING", "TRAINABLE_TOKENS", "C3A"}
    | {"FOURIERFT", "VBLORA", "UNILORA", "RANDLORA", "MISS", "SHIRA", "ROAD", "GRALORA", "HIRA", "DELORA", "TINYLORA"}
    | {"WAVEFT", "PSOFT", "PVERA", "DEFT", "GLORA", "FROD", "SUPERTUNING"}
)
_NEVER = {
    "ADAPTION_PROMPT": "LLaMA-Adapter adds attention of its own to each layer and cannot be merged into the weights",
    "LILY": "Lily mixes its factors anew for every token, so no fixed weight stands for it and it cannot be merged",
}
_REFUSED = {
    "XLORA": "mixes several LoRAs for each token, with a forward pass of its own to find the mixture",
    "POLY": "needs a task number with every call",
    "MULTITASK_PROMPT_TUNING": "needs a task number with every call",
}
_TENSORS = {"LORA": "lora_", "ADALORA": "lora_", "LOHA": "hada_", "ADAPTION_PROMPT": "adaption_"}
_NO_RANK = frozenset({"OFT", "BOFT"})  # their r counts blocks


def title(kind: str) -> str:
    """What people call a `peft_type`: "LORA" is LoRA; the type itself where it has no better name."""
    return _TITLES.get(kind, kind)


def described(settings: ConfigFile) -> str:
    """The kind with what differs from its plain form: "LoRA (DoRA, rsLoRA)"."""
    kind, found = title(settings.text("peft_type") or "unknown"), variants(settings)
    return f"{kind} ({', '.join(found)})" if found else kind


def variants(settings: ConfigFile) -> tuple[str, ...]:
    """Names of the variants of LoRA that its settings switch on."""
    named = (("use_rslora", "rslora"), ("use_dora", "dora"), ("use_bdlora", "bdlora"))
    tables = (("velora_config", "velora"), ("kasa_config", "kasa"), ("monteclora_config", "monteclora"))
    flags = tuple(name for key, name in named if settings.flag(key))
    activated = ("alora",) if settings.values.get("alora_invocation_tokens") else ()
    return (*flags, *(name for key, name in tables if settings.table(key)), *activated)


def place(kind: str) -> Place:
    """Where the adapter acts: in the weights, as tokens before the prompt, or in the key-value cache."""
    return "prompt" if kind in _PROMPT else "cache" if kind in _CACHE else "weights"


def tensor_mark(kind: str) -> str:
    """What the names of the adapter's own tensors and modules begin with."""
    return _TENSORS.get(kind, kind.lower() + "_")


def rank(settings: ConfigFile) -> int | None:
    """The rank that the settings ask for; None for kinds without one. AdaLoRA starts with more and keeps its own."""
    kind = settings.text("peft_type") or ""
    names = ("init_r", "r") if kind == "ADALORA" else ("r", "rank")
    return None if kind in _NO_RANK or place(kind) != "weights" else settings.integer(*names)


def virtual_tokens(settings: ConfigFile) -> int | None:
    """Tokens that every request has more because of the adapter; None for kinds that act in the weights."""
    if place(settings.text("peft_type") or "") == "weights":
        return None
    listed = settings.values.get("cpt_token_ids")
    return len(listed) if isinstance(listed, list) and listed else settings.integer("num_virtual_tokens")


def unmergeable(settings: ConfigFile) -> str | None:
    """Why an adapter with these settings cannot be merged, in words for people; None where it can."""
    kind = settings.text("peft_type") or "unknown"
    tokens = virtual_tokens(settings)
    if place(kind) == "cache":
        where = "lives in the key-value cache, not in the weights"
        return f"{title(kind)} {where}, and cannot be merged; it costs {tokens} virtual tokens a request"
    if place(kind) == "prompt":
        return f"{title(kind)} puts {tokens} virtual tokens before every prompt, and leaves no weights to merge"
    if kind in _NEVER:
        return _NEVER[kind]
    if kind not in _MERGEABLE:
        return f"that merging {title(kind)} adapters keeps their outputs is not known"
    return _odd_lora(settings)


def _odd_lora(settings: ConfigFile) -> str | None:
    if settings.values.get("layer_replication"):
        return "the adapter repeats layers of its base (layer_replication): one weight would get several updates"
    if settings.values.get("alora_invocation_tokens"):
        return "an activated LoRA acts only behind its invocation tokens, which merged weights cannot do"
    if settings.table("arrow_config"):
        return "Arrow picks among several LoRAs for each token, so no fixed weight stands for them"
    return None


def refuse_unknown(settings: ConfigFile) -> None:
    """Raises FtprofError for kinds that cannot be run from their own directory, and that the installed PEFT lacks."""
    kind = settings.text("peft_type")
    if kind is None:
        raise FtprofError(f"{settings.path} names no peft_type", "save the adapter again with PEFT's save_pretrained()")
    if kind in _REFUSED:
        raise FtprofError(
            f"{settings.path}: {kind} {_REFUSED[kind]}, which ftprof does not measure",
            "diagnose one of the LoRAs that it is made of, or the model after it was merged for one task",
        )
    if not _in_peft(kind):
        raise FtprofError(
            f"{settings.path}: the installed PEFT has no adapters of kind {kind[:60]}",
            "upgrade it (pip install -U peft), or merge the adapter where it was trained and give the merged model",
        )


def _in_peft(kind: str) -> bool:
    # PEFT keeps each kind in a folder of its name; importing PEFT to ask it would load torch, which takes seconds.
    found = importlib.util.find_spec("peft")
    if found is None or found.origin is None or not kind.replace("_", "").isalnum():
        return False
    return (Path(found.origin).parent / "tuners" / kind.lower()).is_dir()
