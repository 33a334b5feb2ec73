"""What looking costs: seconds that the profiler adds to an op, and that a wrapped `forward` adds to a call.

Method: Time (docs/method.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_ROUNDS = 7
_CALLS = 250


def trace_cost() -> tuple[float, float]:
    """Seconds that recording one op adds inside its own event, and outside it, where the enclosing op or gap pays.

    Inside: the length of an empty event, since the profiler takes its first stamp last and its last stamp first.
    Together: the same loop of small ops with and without the profiler. The loop is what one linear layer and its
    residual call, so that events have the usual numbers of inputs. Noise only adds, so the quietest rounds count.
    """
    import torch

    layer = torch.nn.Linear(8, 8)
    x = torch.randn(1, 1, 8)

    def loop() -> None:
        for _ in range(_CALLS):
            torch.add(torch.mul(layer(x), x), x)

    _profiled(loop)
    plain = min(_seconds(loop) for _ in range(_ROUNDS))
    seen = [_profiled(loop) for _ in range(_ROUNDS)]
    both = (min(wall for wall, _, _ in seen) - plain) / max(seen[0][1], 1)
    inside = min(empty for _, _, empty in seen)
    return inside, max(0.0, both - inside)


def _profiled(action: Callable[[], None]) -> tuple[float, int, float]:
    """Wall seconds of `action` under the profiler, its number of events, and the median length of an empty event."""
    from torch.profiler import ProfilerActivity, profile

    empty = "ftprof empty"
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        seconds = _seconds(action)
        for _ in range(_CALLS):
            _empty_range(empty)
    results = profiler.profiler.kineto_results if profiler.profiler else None
    events = results.events() if results else []
    lengths = [event.duration_ns() for event in events if event.name() == empty]
    return seconds, len(events) - len(lengths), median(lengths) / 1e9 if lengths else 0.0


def _empty_range(name: str) -> None:
    """An event with nothing inside, opened and closed by the cheapest means there is."""
    import torch

    with torch._C._profiler._RecordFunctionFast(name):
        pass


def _seconds(action: Callable[[], None]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def wrapper_cost() -> float:
    """Seconds that a timed `forward` adds to one call of a module."""
    import torch

    from ftprof.profiler.forward_timer import timed_forwards

    module, x = torch.nn.Identity(), torch.zeros(1)
    plain = min(_seconds(lambda: _call(module, x)) for _ in range(_ROUNDS))
    with timed_forwards([module]) as log:
        wrapped = []
        for _ in range(_ROUNDS):
            log.clear()
            wrapped.append(_seconds(lambda: _call(module, x)))
    return max(0.0, (min(wrapped) - plain) / _CALLS)


def _call(module: torch.nn.Module, x: torch.Tensor) -> None:
    for _ in range(_CALLS):
        module(x)
