"""Facts of a model as it stands in memory, not as its files wish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from ftprof.profiler import adapter_kinds
from ftprof.profiler.config_file import ConfigFile, read_config
from ftprof.profiler.quantised import QuantisedBase, quantised
from ftprof.profiler.record import AdapterFacts, ModelFacts
from ftprof.profiler.workload import Call


def base_of(model: Any) -> Any:
    """The Hugging Face model inside a PEFT wrapper, or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def adapter_settings(model: Any) -> ConfigFile | None:
    """The settings of the active adapter as PEFT holds them; None for a model without one."""
    held = getattr(model, "peft_config", None)
    active = getattr(model, "active_adapter", None)
    if not held or not hasattr(model, "get_base_model"):
        return None
    name = active if isinstance(active, str) and active in held else next(iter(held))
    # PEFT's names of kinds are enumerations, which print otherwise than the strings that they equal.
    plain = {key: value.value if isinstance(value, Enum) else value for key, value in held[name].to_dict().items()}
    return ConfigFile("the adapter's settings", plain)


def adapter_marks(model: Any) -> tuple[str, ...]:
    """What the names of the attached adapter's tensors contain; empty without an adapter."""
    settings = adapter_settings(model)
    if settings is None:
        return ()
    own = adapter_kinds.tensor_mark(settings.text("peft_type") or "")
    return f".{own}", ".modules_to_save.", ".token_adapter.trainable_tokens_", ".prompt_encoder."


def is_adapter_weight(name: str, marks: tuple[str, ...]) -> bool:
    """Whether a parameter of this name belongs to the adapter with these marks."""
    return any(mark in f".{name}" for mark in marks)


def linear_shapes(model: Any) -> tuple[tuple[int, int, int], ...]:
    """(in, out, count) of the base's linear layers, largest bytes first; the adapter's own matrices are left out.

    A head that the adapter replaced counts, the one that it stands in for does not: a forward runs only the first.
    """
    import torch

    found: Counter[tuple[int, int]] = Counter()
    left_out = (*(mark for mark in adapter_marks(model) if mark != ".modules_to_save."), ".original_module")
    for name, module in model.named_modules():
        if is_adapter_weight(name, left_out):
            continue
        if isinstance(module, torch.nn.Linear):
            found[(module.in_features, module.out_features)] += 1
        elif type(module).__name__ == "Conv1D":  # GPT-2 keeps its linears transposed
            found[(module.weight.shape[0], module.weight.shape[1])] += 1
    ordered = sorted(found.items(), key=lambda item: -item[0][0] * item[0][1] * item[1])
    return tuple((k, n, count) for (k, n), count in ordered)


def main_dtype(model: Any) -> str:
    """The dtype that most of the base's bytes are in."""
    sizes: Counter[str] = Counter()
    marks = adapter_marks(model)
    for name, parameter in model.named_parameters():
        if not is_adapter_weight(name, marks):
            sizes[str(parameter.dtype).removeprefix("torch.")] += parameter.numel() * parameter.element_size()
    return sizes.most_common(1)[0][0] if sizes else "unknown"


def use_cache(model: Any, call: Call) -> tuple[bool | None, str | None]:
    """Whether generate() really uses a cache, and what decided it.

    In transformers 5 only the generation config acts on generate(); `use_cache` in config.json alone does nothing.
    """
    if call.use_cache is not None:
        return call.use_cache, "call"
    config = getattr(model, "generation_config", None)
    if config is None:
        return None, None
    value = config.use_cache
    return (True, None) if value is None else (bool(value), "generation_config")


def model_facts(model: Any, call: Call) -> ModelFacts:
    """Facts of the model under this call; sizes in bytes, parameters without the adapter's."""
    base = base_of(model)
    config = base.config.get_text_config() if hasattr(base.config, "get_text_config") else base.config
    marks = adapter_marks(model)
    kept = [p for name, p in model.named_parameters() if not is_adapter_weight(name, marks)]
    cached, source = use_cache(base, call)
    heads = getattr(config, "num_attention_heads", None)
    hidden = int(getattr(config, "hidden_size", 0) or 0)
    return ModelFacts(
        architecture=type(base).__name__,
        model_type=str(config.model_type),
        layers=_layers_of(config),
        hidden_size=hidden,
        intermediate_size=getattr(config, "intermediate_size", None),
        heads=heads,
        kv_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_dim=getattr(config, "head_dim", None) or (hidden // heads if heads else None),
        vocabulary=int(getattr(config, "vocab_size", 0) or 0),
        parameters=sum(p.numel() for p in kept),
        weight_bytes=sum(p.numel() * p.element_size() for p in kept),
        dtype=main_dtype(model),
        attention=str(getattr(config, "_attn_implementation", None) or "unknown"),
        use_cache=cached,
        use_cache_source=source,
        max_context=_max_context(model, config),
        tied=bool(getattr(config, "tie_word_embeddings", False)),
        linears=linear_shapes(model),
        frozen_head=_frozen_head(base),
        quantisation=quantisation.words if (quantisation := quantised_model(base)) else None,
    )


def _layers_of(config: Any) -> int:
    """Layers that a token passes; of an encoder and a decoder in one config, both."""
    found = int(getattr(config, "num_hidden_layers", 0) or 0)
    if getattr(config, "is_encoder_decoder", False):
        # T5 says how many layers its decoder has in one name, BART in another.
        found += int(getattr(config, "num_decoder_layers", None) or getattr(config, "decoder_layers", 0) or 0)
    return found


def output_head_weight(base: Any) -> Any:
    """The parameter that the output head multiplies with, or None."""
    try:
        head = base.get_output_embeddings()
    except (AttributeError, NotImplementedError):
        return None
    return getattr(getattr(head, "base_layer", head), "weight", None)


def _frozen_head(base: Any) -> bool | None:
    weight = output_head_weight(base)
    return None if weight is None else not weight.requires_grad


def quantised_model(base: Any) -> QuantisedBase | None:
    """How the weights of a loaded model are quantised; None where they are not."""
    if not getattr(base, "is_quantized", False):
        return None
    held: Any = getattr(base.config, "quantization_config", None) or {}
    settings = held if isinstance(held, dict) else held.to_dict()
    return quantised(ConfigFile("config.json", {"quantization_config": settings}))


def _max_context(model: Any, config: Any) -> int | None:
    """Positions that prompts and answers have; virtual tokens take theirs first."""
    limit, settings = getattr(config, "max_position_embeddings", None), adapter_settings(model)
    taken = adapter_kinds.virtual_tokens(settings) if settings else None
    return limit - (taken or 0) if isinstance(limit, int) else None


def _blockers(model: Any, settings: ConfigFile) -> tuple[str, ...]:
    why = (
        adapter_kinds.unmergeable(settings),
        held.unmergeable if (held := quantised_model(base_of(model))) else None,
        _biases(model, settings),
        "several adapters are attached and may be switched at run time"
        if len(getattr(model, "peft_config", ())) > 1
        else None,
    )
    return tuple(reason for reason in why if reason)


def _biases(model: Any, settings: ConfigFile) -> str | None:
    if not settings.flag("lora_bias"):
        return None
    bare = [layer for layer in _layers(model).values() if getattr(layer.get_base_layer(), "bias", None) is None]
    return f"the adapter adds a bias (lora_bias) to {len(bare)} layers that have none" if bare else None


def _layers(model: Any) -> dict[str, Any]:
    """PEFT's layers by name."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    return {name: module for name, module in model.named_modules() if isinstance(module, BaseTunerLayer)}


def _targets(layers: Iterable[str]) -> tuple[str, ...]:
    # A layer inside another (several parameters of one module) ends in the wrapper's name, not in its own.
    ends = {name.removesuffix(".token_adapter").replace(".base_layer", "").rpartition(".")[2] for name in layers}
    return tuple(sorted(ends))


def adapter_facts(model: Any, directory: str) -> AdapterFacts:
    """Facts of the attached adapter; `file_dtype` as on disk, `loaded_dtype` as PEFT holds it now."""
    from ftprof.profiler.weights import adapter_tensors

    folder = Path(directory)
    settings = adapter_settings(model) or read_config(folder / "adapter_config.json")
    marks, layers = adapter_marks(model), _layers(model)
    held = [p for name, p in model.named_parameters() if is_adapter_weight(name, marks)]
    loaded = Counter(str(p.dtype).removeprefix("torch.") for p in held)
    stored = Counter(info.dtype for info in adapter_tensors(folder).values())
    return AdapterFacts(
        kind=settings.text("peft_type") or "unknown",
        rank=adapter_kinds.rank(settings),
        alpha=settings.number("lora_alpha", "alpha"),
        targets=_targets(layers),
        modules=len(layers),
        parameters=sum(p.numel() for p in held),
        file_bytes=sum(path.stat().st_size for path in folder.glob("adapter_model*.safetensors")),
        file_dtype=stored.most_common(1)[0][0] if stored else "unknown",
        loaded_dtype=loaded.most_common(1)[0][0] if loaded else "unknown",
        blockers=_blockers(model, settings),
        title=adapter_kinds.described(settings),
        virtual_tokens=adapter_kinds.virtual_tokens(settings),
    )
