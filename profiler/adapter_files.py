"""A PEFT adapter as it lies on disk: its settings, its saved head, its added rows, and whether it fits a base."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ftprof.profiler import adapter_kinds
from ftprof.profiler.config_file import ConfigFile
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.weights import TensorInfo, main_dtype, parameters

_HEAD = re.compile(
    r"(?:^|\.)(?:classifier|score|classification_head|logits_proj)"
    r"(?:\.modules_to_save(?:\.[\w-]+)?)?(?:\.out_proj)?\.weight\Z"
)
"""The last layer of a classifier under transformers' names, as PEFT saves it (with or without its own infix)."""
_VOCABULARY = re.compile(
    r"(?:^|\.)(?:embed_tokens|word_embeddings|wte|embed_in|tok_embeddings|lm_head|embed_out)"
    r"(?:\.modules_to_save(?:\.[\w-]+)?|\.base_layer|\.token_adapter\.base_layer)?\.weight\Z"
)
"""The tables with one row a token: input embeddings and language-model heads."""
_LORA = re.compile(r"(?P<module>.+)\.lora_(?P<embedding>embedding_)?(?P<side>[AB])(?:\.[\w-]+)?(?:\.weight)?")
_PREFIX = "base_model.model."


class AdapterOnDisk(msgspec.Struct, frozen=True, kw_only=True):
    """Quick facts of an adapter, from its config and its file's header.

    `targets` are the last parts of the adapted modules' names; `modules` counts them all. `scaling` names what differs
    from plain LoRA (rslora, dora). `dropout` only ever acts in training. `virtual_tokens` is how many tokens the
    adapter adds to every request, None for kinds that act in the weights.
    """

    kind: str
    rank: int | None
    alpha: float | None
    targets: tuple[str, ...]
    modules: int
    modules_to_save: tuple[str, ...]
    parameters: int
    file_bytes: int
    dtype: str
    dropout: float
    inference_mode: bool | None
    scaling: tuple[str, ...] = ()
    virtual_tokens: int | None = None


def adapter_facts(settings: ConfigFile, tensors: Mapping[str, TensorInfo], file_bytes: int) -> AdapterOnDisk:
    """The facts of the adapter whose settings and tensors these are; `file_bytes` is the size of its weight file."""
    kind = settings.text("peft_type") or "unknown"
    adapted = adapted_modules(kind, tensors)
    return AdapterOnDisk(
        kind=kind,
        rank=adapter_kinds.rank(settings),
        alpha=settings.number("lora_alpha", "alpha"),
        targets=tuple(sorted({name.rpartition(".")[2] for name in adapted} or set(settings.strings("target_modules")))),
        modules=len(adapted),
        # PEFT lists every usual name of a classifier's head there; only what the model has is in the file.
        modules_to_save=tuple(
            name for name in settings.strings("modules_to_save") if any(f".{name}." in key for key in tensors)
        ),
        parameters=parameters(tensors.values()),
        file_bytes=file_bytes,
        dtype=main_dtype(tensors.values()) or "unknown",
        dropout=settings.number("lora_dropout", "dropout") or 0.0,
        inference_mode=settings.flag("inference_mode"),
        scaling=adapter_kinds.variants(settings),
        virtual_tokens=adapter_kinds.virtual_tokens(settings),
    )


def adapted_modules(kind: str, tensors: Mapping[str, TensorInfo]) -> set[str]:
    """Names of the base's modules that an adapter of this kind changes, as its file has them."""
    own = re.compile(rf"{re.escape(_PREFIX)}(?P<module>.+?)\.{adapter_kinds.tensor_mark(kind)}\w+(?:\..+)?")
    found = {match["module"] for name in tensors if (match := own.fullmatch(name))}
    return {name.removesuffix(".base_layer") for name in found}


def head_size(tensors: Mapping[str, TensorInfo]) -> int | None:
    """How many labels the classifier head among `tensors` has; None where there is no head."""
    return _rows(tensors, _HEAD)


def vocabulary_rows(tensors: Mapping[str, TensorInfo]) -> int | None:
    """Rows of the embedding or language-model head among `tensors`, whole or as the LoRA of one; None without one."""
    embedded = (shape[1] for (_, side), shape in _lora_shapes(tensors).items() if side == "embedding_A")
    return _rows(tensors, _VOCABULARY) or next(embedded, None)


def _rows(tensors: Mapping[str, TensorInfo], name: re.Pattern[str]) -> int | None:
    matrices = (info.shape for key, info in tensors.items() if len(info.shape) == 2 and name.search(key))
    return next((shape[0] for shape in matrices), None)


def check_fit(kind: str, adapter: Mapping[str, TensorInfo], base: Mapping[str, TensorInfo], hint: str) -> None:
    """Raises FtprofError with `hint`, naming the first module of the adapter whose base weight has another shape.

    Only LoRA's shapes tell the base's; of other kinds the names are compared.

    Weights are found by name whatever wrapper they were saved with. A module that the base lacks is a fault only where
    the base has the same module in other layers, or has none of the adapter's modules: files may use older names than
    the classes do. Shapes count in either order, because some families store a linear layer transposed.
    """
    shapes = _lora_shapes(adapter)
    weights = _by_module(base)
    kinds = {_kind(module) for module in weights}
    modules = sorted({module for module, side in shapes if side == "A"} or _named(kind, adapter), key=_natural)
    found = {module: weight for module in modules if (weight := _weight(weights, module)) is not None}
    for module in modules:
        inputs, outputs = shapes.get((module, "A")), shapes.get((module, "B"))
        weight = found.get(module)
        if weight is None:
            if _VOCABULARY.search(f"{module}.weight"):
                continue  # a head that is tied to the embedding is in no file
            if not found or _kind(_tail(module)) in kinds:
                raise FtprofError(f"the adapter changes {module}, which the base does not have", hint)
        elif inputs and outputs and not _same(inputs, outputs, weight):
            expected = f"{outputs[0]} x {inputs[1]}"
            actual = " x ".join(map(str, weight))
            raise FtprofError(f"the adapter expects {module} to be {expected}, but the base's is {actual}", hint)


def check_width(adapter: Mapping[str, TensorInfo], base: Mapping[str, TensorInfo], hint: str) -> None:
    """Raises FtprofError with `hint` where virtual tokens are not as wide as the base's embeddings."""
    tokens = adapter.get("prompt_embeddings")
    table = next((info.shape for key, info in base.items() if _VOCABULARY.search(key)), None)
    if tokens is not None and table is not None and tokens.shape[-1] != table[-1]:
        raise FtprofError(
            f"the adapter's virtual tokens are {tokens.shape[-1]} wide, but the base's embeddings are {table[-1]}", hint
        )


def _named(kind: str, adapter: Mapping[str, TensorInfo]) -> set[str]:
    # Embeddings are left out: rows that were added, and tables tied to a head, have no weight of their own there.
    return set() if kind in ("LORA", "TRAINABLE_TOKENS") else adapted_modules(kind, adapter)


def _same(inputs: tuple[int, ...], outputs: tuple[int, ...], weight: tuple[int, ...]) -> bool:
    # Convolutions and fused experts have other ranks; only plain matrices are compared.
    if not len(inputs) == len(outputs) == len(weight) == 2:
        return True
    return sorted((outputs[0], inputs[1])) == sorted(weight)


def _lora_shapes(tensors: Mapping[str, TensorInfo]) -> dict[tuple[str, str], tuple[int, ...]]:
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    for name, info in tensors.items():
        match = _LORA.fullmatch(name)
        if match is not None:
            module = match["module"].removeprefix(_PREFIX).removesuffix(".base_layer")
            found[module, (match["embedding"] or "") + match["side"]] = info.shape
    return found


def _by_module(base: Mapping[str, TensorInfo]) -> dict[str, tuple[int, ...]]:
    """Shapes of the base's weights under their full name, without their first part, and from their layer list on."""
    weights = {name.removesuffix(".weight"): info.shape for name, info in base.items() if name.endswith(".weight")}
    shorter = {name.partition(".")[2]: shape for name, shape in weights.items()}
    tails: dict[str, tuple[int, ...]] = {}
    twice: set[str] = set()
    for name, shape in weights.items():
        tail = _tail(name)
        twice |= {tail} & tails.keys()
        tails[tail] = shape
    return {tail: shape for tail, shape in tails.items() if tail not in twice} | shorter | weights


def _weight(weights: Mapping[str, tuple[int, ...]], module: str) -> tuple[int, ...] | None:
    return next((weights[key] for key in (module, module.partition(".")[2], _tail(module)) if key in weights), None)


def _tail(module: str) -> str:
    """From the list of layers on: `layers.0.mlp.up_proj`; the whole name where there is no number."""
    match = re.search(r"(?:^|\.)([\w-]+\.\d+\..+)", module)
    return match[1] if match else module


def _kind(module: str) -> str:
    return re.sub(r"\.\d+\.", ".*.", module)


def _natural(module: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part) if part.isdigit() else -1, part) for part in module.split("."))


class _AddedToken(msgspec.Struct, frozen=True):
    id: int


class _Tokenizer(msgspec.Struct, frozen=True):
    added_tokens: tuple[_AddedToken, ...] = ()


def tokens_end(tokenizer: Path) -> int | None:
    """One more than the highest id among a tokenizer's added tokens; None where tokenizer.json does not tell."""
    path = tokenizer / "tokenizer.json"
    if not path.is_file():
        return None
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Tokenizer)
    except (OSError, msgspec.DecodeError) as error:
        raise FtprofError(f"{path} is not a tokenizer: {error}", "copy the tokenizer files again") from error
    return max((token.id for token in found.added_tokens), default=-1) + 1 or None
