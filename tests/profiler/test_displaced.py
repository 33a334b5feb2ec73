"""What falls to other layers when an adapter is off, on calls made by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ftprof.profiler.displaced import Seen, without_lora
from ftprof.profiler.forward_timer import Span

GROUPS = ("layers.#.q", "layers.#.q.base_layer", "layers.#.norm")
LAYERS = 5
WARM = 3


def part(lora: int, base: int, norm: int, outside: int = 10, disturbed: int = 0) -> Seen:
    """Five layers of a LoRA layer around its base and a norm after it; one norm call is `disturbed`."""
    calls, now = [], 0
    for layer in range(LAYERS):
        whole = lora + base
        calls.append(Span(1, now, now + base, base, 0, False))
        calls.append(Span(0, now, now + whole, lora, 1, True))
        now += whole
        late = norm + (disturbed if layer == 0 else 0)
        calls.append(Span(2, now, now + late, late, 0, True))
        now += late
    return Seen(now + outside, calls)


def found(on: Seen, off: Seen) -> tuple[float, float]:
    shares = without_lora([on], [off], GROUPS, {GROUPS[0]: WARM}, base=GROUPS[1:2])
    assert shares is not None
    return shares.displaced, shares.wrapper


def test_what_takes_longer_without_lora() -> None:
    whole = LAYERS * (40 + 100 + 10) + 10
    displaced, wrapper = found(part(40, 100, 10), part(5, 100, 16))
    assert displaced == pytest.approx(LAYERS * (6 + 5 - WARM) / whole), (
        "the wrapper's cold start is another's without it"
    )
    assert wrapper == pytest.approx(LAYERS * WARM / whole)


def test_one_disturbed_call_moves_nothing() -> None:
    assert found(part(40, 100, 10), part(4, 100, 16, disturbed=10_000)) == found(part(40, 100, 10), part(4, 100, 16))


@given(st.integers(2, 50))
def test_a_machine_that_slowed_down_between_the_runs_is_no_displacement(times: int) -> None:
    off = part(WARM * times, 100 * times, 10 * times, outside=10 * times)
    assert found(part(40, 100, 10), off) == pytest.approx((0.0, LAYERS * WARM / (LAYERS * 150 + 10)))


def test_without_a_base_layer_or_a_run_there_is_no_clock() -> None:
    on = [part(40, 100, 10)]
    assert without_lora(on, [], GROUPS, {GROUPS[0]: WARM}, base=GROUPS[1:2]) is None
    assert without_lora(on, on, GROUPS, {GROUPS[0]: WARM}, base=()) is None
