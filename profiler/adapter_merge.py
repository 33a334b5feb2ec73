"""The adapter folded into the weights: rounded once, and with shared weights told apart where it changes only one use."""

from __future__ import annotations

from typing import Any


def merge(model: Any) -> Any:
    """The base with the adapter folded in; each layer is merged in fp32 and cast back once.

    Raises ValueError where the adapter holds numbers that are not finite. The model that was given is used up.
    """
    import warnings

    import torch
    from peft.tuners.tuners_utils import BaseTunerLayer

    parted = _part_embeddings(model.get_base_model())
    layers: list[Any] = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    for layer in layers:
        kept = next((parameter.dtype for parameter in layer.get_base_layer().parameters()), None)
        if kept in (torch.bfloat16, torch.float16):
            layer.float()
            layer.merge(safe_merge=True)
            layer.to(kept)
    with warnings.catch_warnings():
        # Merged above on purpose; and what is tied is looked after here.
        warnings.filterwarnings("ignore", message="All adapters are already merged|.*tie", category=UserWarning)
        merged = model.merge_and_unload(safe_merge=True)
    if parted:
        _join_embeddings(merged)
    for parameter in merged.parameters():
        # As a merged directory is loaded; frozen, as PEFT leaves it, a 16-bit head is copied for every prompt.
        if parameter.is_floating_point():
            parameter.requires_grad_(True)
    return merged


def _part_embeddings(base: Any) -> bool:
    """Gives embedding and head a weight each where they share one that a LoRA changes; whether it did.

    Merged into the shared weight, the update of either would change both, and one of each would change it twice.
    Trainable tokens are left alone: PEFT changes the same rows in both.
    """
    import torch
    from peft.tuners.lora import LoraLayer

    try:
        embedding, head = base.get_input_embeddings(), base.get_output_embeddings()
    except NotImplementedError:  # a model without a table of tokens has none to share
        return False
    if not isinstance(embedding, LoraLayer) and not isinstance(head, LoraLayer):
        return False
    first, second = (getattr(layer, "base_layer", layer) for layer in (embedding, head))
    if getattr(first, "weight", None) is None or first.weight is not getattr(second, "weight", None):
        return False
    second.weight = torch.nn.Parameter(second.weight.detach().clone(), requires_grad=False)
    return True


def _join_embeddings(merged: Any) -> None:
    """One weight again where the merge changed embedding and head alike; the config says which it is."""
    import torch

    embedding, head = merged.get_input_embeddings(), merged.get_output_embeddings()
    alike = torch.equal(embedding.weight, head.weight)
    if alike:
        head.weight = embedding.weight
    merged.config.get_text_config().tie_word_embeddings = alike
