"""Which decoder layers suffer from 4-bit weights: each is quantised alone, and what that does to the logits is measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import torch

from ftprof.profiler.workload import Row

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 32
"""Weights that share a scale, as in the builder's MatMulNBits."""
# Enough for a ranking of layers; the gate judges the result on far more.
MAX_ROWS, MAX_POSITIONS, MAX_TOKENS = 4, 256, 512


class LayerDivergence(msgspec.Struct, frozen=True, kw_only=True):
    """Mean KL in nats of the model's next-token distribution from the one with this layer in 4 bit."""

    layer: int
    kl: float


class Sensitivity(msgspec.Struct, frozen=True, kw_only=True):
    """Layers by sensitivity, worst first; `positions` were scored, `left_out` were not reached within the budget."""

    layers: tuple[LayerDivergence, ...]
    positions: int
    left_out: tuple[int, ...] = ()


class Sample(NamedTuple):
    """(rows, length) ids, right-padded, and a mask of the positions whose prediction is scored."""

    ids: Tensor
    scored: Tensor


def fake_quantised(weight: Tensor, block: int = BLOCK) -> Tensor:
    """A (rows, columns) weight through 4 bits and back: symmetric, with a scale for each `block` columns of a row.

    As ONNX Runtime's quantiser does it: the largest value of a block, with its sign, becomes -8, so that all 16 levels
    are used.
    """
    rows, columns = weight.shape
    padded = torch.nn.functional.pad(weight.float(), (0, -columns % block)).view(rows, -1, block)
    largest = padded.gather(-1, padded.abs().argmax(-1, keepdim=True))
    scale = largest / -8.0
    levels = torch.where(scale == 0, torch.zeros_like(padded), (padded / scale).round().clamp(-8, 7))
    return (levels * scale).view(rows, -1)[:, :columns].to(weight.dtype)


def decoder_layers(model: Any) -> list[Any]:
    """The decoder's layers in order; ValueError where the model has no such list."""
    wanted = model.config.get_text_config().num_hidden_layers
    for module in model.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == wanted:
            return list(module)
    raise ValueError(f"no list of {wanted} decoder layers in {type(model).__name__}")


def sample(tokenizer: Any, rows: Sequence[Row], eos_id: int | None = None) -> Sample:
    """The first rows as ids; completion positions are scored where rows have completions, else all of them."""
    texts, starts = [], []
    for row in rows[:MAX_ROWS]:
        prompt = tokenizer(row.prompt)["input_ids"]
        whole = tokenizer(row.prompt + row.completion)["input_ids"] if row.completion else prompt
        closed = [*whole, eos_id] if row.completion and eos_id is not None else whole
        texts.append(closed[:MAX_TOKENS])
        starts.append(min(len(prompt), len(closed) - 1) if row.completion else 1)
    length = max((len(ids) for ids in texts), default=0)
    ids = torch.zeros(len(texts), length, dtype=torch.long)
    scored = torch.zeros(len(texts), length, dtype=torch.bool)
    for place, (found, start) in enumerate(zip(texts, starts, strict=True)):
        ids[place, : len(found)] = torch.tensor(found)
        # A position predicts the token after it.
        scored[place, max(start - 1, 0) : len(found) - 1] = True
    return Sample(ids, scored & (scored.flatten().cumsum(0).view_as(scored) <= MAX_POSITIONS))


@torch.inference_mode()
def measure(
    model: Any,
    taken: Sample,
    *,
    budget_s: float,
    clock: Callable[[], float] = time.perf_counter,
) -> Sensitivity:
    """Divergence of each layer, quantised alone; the model is left as it was.

    Both ends come first, then layers spread evenly; at least one is rated whatever the budget.
    ValueError where no position is scored.
    """
    if not bool(taken.scored.any()):
        raise ValueError("no position of the rows can be scored")
    begin = clock()
    layers = decoder_layers(model)
    outputs: list[Any] = []
    with _recorded(layers, outputs):
        reference = _log_probabilities(model, taken)
    found: list[LayerDivergence] = []
    left: list[int] = []
    for number in _spread(len(layers)):
        if found and clock() - begin > budget_s:
            left.append(number)
            continue
        with _replayed(layers[:number], outputs), _quantised(layers[number]):
            other = _log_probabilities(model, taken)
        kl = (reference.exp() * (reference - other)).sum(-1).mean()
        found.append(LayerDivergence(layer=number, kl=float(kl)))
    found.sort(key=lambda one: -one.kl)
    return Sensitivity(layers=tuple(found), positions=int(taken.scored.sum()), left_out=tuple(sorted(left)))


def _spread(count: int) -> list[int]:
    """Both ends, then every eighth layer, every fourth ...: whatever the budget reaches covers the model evenly."""
    order = [0, count - 1, *(layer for stride in (8, 4, 2, 1) for layer in range(0, count, stride))]
    return list(dict.fromkeys(order))


def _log_probabilities(model: Any, taken: Sample) -> Tensor:
    """(positions, vocabulary); right padding needs no mask, as causal positions look back only."""
    logits = model(input_ids=taken.ids, use_cache=False).logits[taken.scored]
    return torch.log_softmax(logits.float(), dim=-1)


@contextmanager
def _recorded(layers: Sequence[Any], outputs: list[Any]) -> Iterator[None]:
    """Append what each layer returns, inside the block."""
    hooks = [layer.register_forward_hook(lambda _, __, output: outputs.append(output)) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _replayed(layers: Sequence[Any], outputs: Sequence[Any]) -> Iterator[None]:
    """These layers return what they returned before: what lies below a changed layer need not be computed again."""
    try:
        for layer, output in zip(layers, outputs, strict=False):
            layer.forward = lambda *_, _output=output, **__: _output
        yield
    finally:
        for layer in layers:
            layer.__dict__.pop("forward", None)


@contextmanager
def _quantised(layer: Any) -> Iterator[None]:
    """All linears of the layer in 4 bit, inside the block only."""
    linears = [module for module in layer.modules() if isinstance(module, torch.nn.Linear)]
    kept = [module.weight.data for module in linears]
    try:
        for module in linears:
            module.weight.data = fake_quantised(module.weight.data)
        yield
    finally:
        for module, weight in zip(linears, kept, strict=True):
            module.weight.data = weight
