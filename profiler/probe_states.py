"""Settings of a loaded model that probes turn over and back: the attention that it uses, the type of its adapter.

Both ways then run in one process on the same weights, which tells their difference to a few per cent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ftprof.profiler.model_facts import adapter_marks, is_adapter_weight

if TYPE_CHECKING:
    import torch


class States:
    """Turns one model over; `restore` puts it back as it was.

    A state is "attention:<implementation>" or "adapter:<dtype>"; other words name none and change nothing.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._now: dict[str, str] = {}
        self._as_loaded: dict[str, Callable[[], None]] = {}
        self._adapters: dict[str, list[tuple[torch.nn.Parameter, torch.Tensor]]] = {}

    def enter(self, state: str) -> None:
        """Have the model in this state; asking twice costs nothing."""
        what, named, value = state.partition(":")
        if not named or self._now.get(what) == value:
            return
        self._now[what] = value
        if what == "attention":
            self._attend(value)
        elif what == "adapter":
            self._cast(value)
        else:
            raise ValueError(f"no state of a model: {state}")

    def restore(self) -> None:
        """As it was before the first `enter`."""
        for undo in self._as_loaded.values():
            undo()
        self._now.clear()
        self._as_loaded.clear()

    def _attend(self, implementation: str) -> None:
        base = self._model.get_base_model() if hasattr(self._model, "get_base_model") else self._model
        before = base.config._attn_implementation
        self._as_loaded.setdefault("attention", lambda: base.set_attn_implementation(before))
        base.set_attn_implementation(implementation)

    def _cast(self, dtype: str) -> None:
        import torch

        if not self._adapters:
            # The adapter's own matrices alone: PEFT leaves a saved head in the type of the base.
            own = adapter_marks(self._model)[:1]
            held = [p for name, p in self._model.named_parameters() if is_adapter_weight(name, own)]
            self._adapters["as loaded"] = [(parameter, parameter.data) for parameter in held]
            self._as_loaded["adapter"] = lambda: self._put("as loaded")
        if dtype not in self._adapters:
            target = getattr(torch, dtype)
            self._adapters[dtype] = [(p, data.to(target)) for p, data in self._adapters["as loaded"]]
        self._put(dtype)

    def _put(self, dtype: str) -> None:
        for parameter, data in self._adapters[dtype]:
            parameter.data = data
