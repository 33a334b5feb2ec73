"""What a LoRA layer costs by itself when its adapter is off: its own calls replayed, with its base layer's result at hand.

In a model the wrapper runs with cold caches, since a large matrix came before it; replayed it runs with warm ones. The
difference does not vanish with the wrapper: it falls to whoever comes next (see `displaced`).

Method: Verdicts (docs/method.md).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

REPLAYS = 21

Inputs = dict[str, tuple[tuple[Any, ...], dict[str, Any]]]


@contextmanager
def inputs_of(layers: Mapping[str, torch.nn.Module]) -> Iterator[Inputs]:
    """The arguments of each layer's last call inside the block, by the name that it has in `layers`."""
    seen: Inputs = {}

    def kept(name: str) -> Any:
        return lambda _, args, kwargs: seen.__setitem__(name, (args, kwargs))

    handles = [layer.register_forward_pre_hook(kept(name), with_kwargs=True) for name, layer in layers.items()]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def warm_ns(layers: Mapping[str, Any], inputs: Inputs) -> dict[str, float]:
    """Nanoseconds of one call of each LoRA layer without its base layer; a layer that cannot be replayed is left out."""
    found: dict[str, float] = {}
    for name, (args, kwargs) in inputs.items():
        with suppress(Exception):
            found[name] = _replayed(layers[name], args, kwargs)
    return found


def _replayed(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
    import torch

    base, times = layer.base_layer, []
    with torch.inference_mode():
        result = base(*args, **kwargs)
        own = base.__dict__.get("forward")
        base.__dict__["forward"] = lambda *_args, **_kwargs: result
        try:
            for _ in range(REPLAYS):
                begin = time.perf_counter_ns()
                layer.forward(*args, **kwargs)
                times.append(time.perf_counter_ns() - begin)
        finally:
            base.__dict__.pop("forward")
            if own is not None:
                base.__dict__["forward"] = own
    return median(times)
