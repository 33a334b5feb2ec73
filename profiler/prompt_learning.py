"""Adapters that are tokens before the prompt, or entries of the key-value cache: what this stack does to their generate()."""

from __future__ import annotations

from functools import wraps
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from typing import Any

_NEW_NAME, _OLD_NAME = "cache", "past_key_values"
_RENAMED = "5.24"  # transformers 5.24.0 hands the cache on under the new name
_UNDERSTOOD = "0.22"  # the least PEFT that transformers 5.24 itself asks for; 0.21.2 looks for the old name only


def stack_note() -> str | None:
    """What the installed versions do to these adapters; None where they fit each other."""
    if not _mismatched():
        return None
    peft, transformers = version("peft"), version("transformers")
    return (
        f"PEFT {peft} does not find the cache of transformers {transformers} for this kind of adapter: its generate() "
        "sends the virtual tokens again with every token and gives other text than the model's forward; ftprof measures "
        "the call with that corrected, so upgrade PEFT or pin an older transformers where you serve it"
    )


def _mismatched() -> bool:
    from packaging.version import Version

    try:
        peft, transformers = Version(version("peft")), Version(version("transformers"))
    except PackageNotFoundError:
        return False
    return peft < Version(_UNDERSTOOD) and transformers >= Version(_RENAMED)


def hand_on_cache(model: Any) -> None:
    """Makes `generate()` of a PEFT model with virtual tokens find its cache where PEFT and transformers disagree.

    Nothing is changed where they agree. Without a cache (`use_cache=False`) PEFT puts its entries in anew each step, as
    its forward does.
    """
    prepare = getattr(model, "base_model_prepare_inputs_for_generation", None)
    if (
        not model.active_peft_config.is_prompt_learning
        or prepare is None
        or not _mismatched()
        or _NEW_NAME not in signature(prepare).parameters
    ):
        return

    @wraps(prepare)  # generate() looks at the parameters to tell a wrong argument
    def renamed(*args: Any, **kwargs: Any) -> Any:
        inputs = prepare(*args, **kwargs)
        cache = inputs.pop(_NEW_NAME, None)
        if cache is not None and inputs.get("use_cache", True) is not False:
            inputs[_OLD_NAME] = cache
        return inputs

    model.base_model_prepare_inputs_for_generation = renamed
