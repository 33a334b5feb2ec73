"""The adapter on and off in one process, for the share of time that it takes."""

from __future__ import annotations

from typing import Any

from ftprof.profiler.errors import FtprofError

_ADDING_TOKENS = ("forward", "prepare_inputs_for_generation")


def set_adapter(model: Any, on: bool) -> None:
    """Switch the attached adapter's part of the work on or off; asking twice for the same changes nothing.

    Layers keep their wrappers, virtual tokens are left out, replaced heads and embeddings give way to the base's own.
    FtprofError where the model has no adapter, or one that PEFT cannot switch.
    """
    if not hasattr(model, "active_peft_config"):
        raise FtprofError(f"{type(model).__name__} has no adapter to switch", "attach a PEFT adapter first")
    if model.active_peft_config.is_prompt_learning:
        _set_tokens(model, on)
        return
    tuner = model.base_model
    try:
        tuner.enable_adapter_layers() if on else tuner.disable_adapter_layers()
    except (NotImplementedError, AttributeError, ValueError) as error:
        kind = model.active_peft_config.peft_type.value
        raise FtprofError(
            f"PEFT cannot switch {kind} adapters: {(str(error).splitlines() or [type(error).__name__])[0]}",
            "the adapter's share of the time cannot be had by leaving it out",
        ) from error


def _set_tokens(model: Any, on: bool) -> None:
    """Puts the base's own calls in place of the ones that add virtual tokens, or takes them away again.

    PEFT's `disable_adapter` does the same, but raises for models that do not generate (seen in 0.21.2).
    """
    for name in _ADDING_TOKENS:
        if on:
            model.__dict__.pop(name, None)
        elif hasattr(model.base_model, name):
            setattr(model, name, getattr(model.base_model, name))
