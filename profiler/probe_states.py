"""Settings of a loaded model that probes turn over and back: its attention, the type of its weights or of its adapter.

Both ways then run in one process on the same rows, which tells their difference to a few per cent.

Method: Predictions (docs/method.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ftprof.profiler.model_facts import adapter_marks, base_of, is_adapter_weight, output_head_weight

if TYPE_CHECKING:
    import torch

AS_LOADED = ""
SPARE = 2
"""A second copy of the weights is made where this many times its size is free."""


class States:
    """Turns one model over. A state is "attention:<implementation>", "weights:<dtype>" (all but the adapter's own),
    "adapter:<dtype>", "head:thawed" (its weight takes a gradient), or `AS_LOADED`; words without a colon name none and change nothing."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._now = AS_LOADED
        self._back: Callable[[], None] = lambda: None
        self._held: dict[str, list[tuple[torch.nn.Parameter, torch.Tensor]]] = {}
        self._casts: dict[str, list[torch.Tensor]] = {}

    def refused(self, state: str) -> str | None:
        """Why the model cannot be had in this state, or None."""
        what, _, dtype = state.partition(":")
        if what != "weights":
            return None
        import psutil

        needed = sum(data.numel() for _, data in self._parameters(what)) * (4 if dtype == "float32" else 2)
        if SPARE * needed <= psutil.virtual_memory().available:
            return None
        return f"a second copy of the weights ({needed / 2**30:.1f} GiB) does not fit beside the first"

    def enter(self, state: str) -> None:
        """Have the model in this state; asking twice costs nothing. ValueError for one that there is not."""
        state = state if ":" in state else AS_LOADED
        if state == self._now:
            return
        self._back()
        self._now, self._back = AS_LOADED, lambda: None
        if state:
            self._back = self._enter(*state.split(":", 1))
            self._now = state

    def restore(self) -> None:
        """As it was loaded; copies are let go."""
        self.enter(AS_LOADED)
        self._casts.clear()

    def _enter(self, what: str, value: str) -> Callable[[], None]:
        """Turns the model over, and returns what turns it back."""
        if what == "attention":
            base = self._model.get_base_model() if hasattr(self._model, "get_base_model") else self._model
            before = base.config._attn_implementation
            base.set_attn_implementation(value)
            return lambda: base.set_attn_implementation(before)
        if (what, value) == ("head", "thawed"):
            weight = output_head_weight(base_of(self._model))
            was = weight.requires_grad
            weight.requires_grad_(True)
            return lambda: weight.requires_grad_(was)
        if what in ("weights", "adapter"):
            held = self._parameters(what)
            _put(held, self._cast(what, value))
            return lambda: _put(held, [data for _, data in held])
        raise ValueError(f"no state of a model: {what}:{value}")

    def _parameters(self, what: str) -> list[tuple[torch.nn.Parameter, torch.Tensor]]:
        """The parameters that a cast changes, with their data as loaded."""
        if what not in self._held:
            # PEFT leaves a saved head in the type of the base: only the adapter's own matrices are apart.
            own = adapter_marks(self._model)[:1]
            self._held[what] = [
                (parameter, parameter.data)
                for name, parameter in self._model.named_parameters()
                if is_adapter_weight(name, own) == (what == "adapter") and parameter.is_floating_point()
            ]
        return self._held[what]

    def _cast(self, what: str, dtype: str) -> list[torch.Tensor]:
        import torch

        key = f"{what}:{dtype}"
        if key not in self._casts:
            # Tensors made in inference mode take other paths than loaded ones do: the head of a decoder became a batched
            # product that copies its matrix, four times as slow.
            with torch.inference_mode(mode=False), torch.no_grad():
                self._casts[key] = [data.to(getattr(torch, dtype)) for _, data in self._parameters(what)]
        return self._casts[key]


def _put(held: list[tuple[torch.nn.Parameter, torch.Tensor]], values: list[torch.Tensor]) -> None:
    for (parameter, _), value in zip(held, values, strict=True):
        parameter.data = value
