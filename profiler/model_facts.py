"""Facts of a model as it stands in memory, not as its files wish."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from ftprof.profiler.record import AdapterFacts, ModelFacts
from ftprof.profiler.workload import Call

# PEFT kinds whose weights can be folded into the base; the others change the prompt or the cache.
MERGEABLE = frozenset({"LORA", "ADALORA", "IA3", "LOHA", "LOKR", "OFT", "BOFT", "VERA", "HRA"})
QUANTISED_LINEARS = ("Linear4bit", "Linear8bitLt", "QuantLinear", "WQLinear", "HQQLinear")


def base_of(model: Any) -> Any:
    """The Hugging Face model inside a PEFT wrapper, or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _is_adapter_weight(name: str) -> bool:
    return ".lora_" in name or "modules_to_save" in name or ".ia3_" in name


def linear_shapes(model: Any) -> tuple[tuple[int, int, int], ...]:
    """(in, out, count) of the base's linear layers, largest bytes first; LoRA's own matrices are left out."""
    import torch

    found: Counter[tuple[int, int]] = Counter()
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and ".lora_" not in name and "original_module" not in name:
            found[(module.in_features, module.out_features)] += 1
        elif type(module).__name__ == "Conv1D":  # GPT-2 keeps its linears transposed
            found[(module.weight.shape[0], module.weight.shape[1])] += 1
    ordered = sorted(found.items(), key=lambda item: -item[0][0] * item[0][1] * item[1])
    return tuple((k, n, count) for (k, n), count in ordered)


def main_dtype(model: Any) -> str:
    """The dtype that most of the base's bytes are in."""
    sizes: Counter[str] = Counter()
    for name, parameter in model.named_parameters():
        if not _is_adapter_weight(name):
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
    kept = [p for name, p in model.named_parameters() if not _is_adapter_weight(name)]
    cached, source = use_cache(base, call)
    heads = getattr(config, "num_attention_heads", None)
    hidden = int(getattr(config, "hidden_size", 0) or 0)
    return ModelFacts(
        architecture=type(base).__name__,
        model_type=str(config.model_type),
        layers=int(getattr(config, "num_hidden_layers", 0) or 0),
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
        max_context=getattr(config, "max_position_embeddings", None),
        tied=bool(getattr(config, "tie_word_embeddings", False)),
        linears=linear_shapes(model),
    )


def _blockers(model: Any, config: dict[str, Any]) -> tuple[str, ...]:
    found = []
    if config.get("peft_type") not in MERGEABLE:
        found.append(f"{config.get('peft_type')} adapters cannot be merged into the weights")
    kinds = {type(module).__name__ for module in model.modules()}
    quantised = sorted(kinds.intersection(QUANTISED_LINEARS))
    if quantised or getattr(base_of(model), "is_quantized", False):
        found.append("the base is quantised; reload it in 16 bit, merge there, then quantise with task data")
    if len(getattr(model, "peft_config", {})) > 1:
        found.append("several adapters are attached and may be switched at run time")
    return tuple(found)


def adapter_facts(model: Any, directory: str) -> AdapterFacts:
    """Facts of the attached adapter; `file_dtype` as on disk, `loaded_dtype` as PEFT holds it now."""
    from ftprof.profiler.weights import tensors

    folder = Path(directory)
    config = json.loads((folder / "adapter_config.json").read_text("utf-8"))
    held = [p for name, p in model.named_parameters() if _is_adapter_weight(name)]
    loaded = Counter(str(p.dtype).removeprefix("torch.") for p in held)
    stored = Counter(info.dtype for info in tensors(folder).values())
    targets = config.get("target_modules") or ()
    return AdapterFacts(
        kind=str(config.get("peft_type", "unknown")),
        rank=config.get("r"),
        alpha=config.get("lora_alpha"),
        targets=tuple(sorted([targets] if isinstance(targets, str) else targets)),
        modules=sum(1 for module in model.modules() if hasattr(module, "lora_A")),
        parameters=sum(p.numel() for p in held),
        file_bytes=sum(path.stat().st_size for path in folder.glob("adapter_model*.safetensors")),
        file_dtype=stored.most_common(1)[0][0] if stored else "unknown",
        loaded_dtype=loaded.most_common(1)[0][0] if loaded else "unknown",
        blockers=_blockers(model, config),
    )
