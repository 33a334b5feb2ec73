"""Costs of ops against closed forms, torch's own counter, and what they must never do."""

from __future__ import annotations

import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from ftprof.profiler.op_tables import COMPOSITES, KINDS
from ftprof.profiler.op_totals import PhaseTotal, add_window
from ftprof.profiler.opcost import Cost, cost, dtype_name, kind
from ftprof.profiler.trace import traced_pass
from ftprof.profiler.windows import windows
from tests.profiler.tiny_models import HEADS, HIDDEN, INNER, KV_HEADS, LAYERS, VOCABULARY, forward_pass, llama

SIZE = st.integers(1, 64)


@pytest.mark.parametrize(
    ("name", "shapes", "flops", "moved"),
    [
        ("aten::mm", [(3, 5), (5, 7)], 2 * 3 * 5 * 7, 4 * (15 + 35 + 21)),
        ("aten::addmm", [(7,), (3, 5), (5, 7)], 2 * 3 * 5 * 7, 4 * (7 + 15 + 35 + 21)),
        ("aten::bmm", [(2, 3, 5), (2, 5, 7)], 2 * 2 * 3 * 5 * 7, 4 * 2 * (15 + 35 + 21)),
        ("aten::baddbmm", [(2, 3, 7), (2, 3, 5), (2, 5, 7)], 2 * 2 * 3 * 5 * 7, 4 * 2 * (21 + 15 + 35 + 21)),
        ("aten::linear", [(2, 3, 5), (7, 5), (7,)], 2 * 6 * 5 * 7, 4 * (30 + 35 + 42 + 7)),
        ("aten::mv", [(3, 5), (5,)], 2 * 15, 4 * (15 + 5 + 3)),
        ("aten::addmv_", [(3,), (3, 5), (5,)], 2 * 15, 4 * (15 + 5 + 3)),
        ("aten::mul", [(3, 5), (5,)], 15, 4 * (15 + 5 + 15)),
        ("aten::silu", [(3, 5)], 15, 4 * 30),
        ("aten::_softmax", [(3, 5)], 5 * 15, 4 * 30),
        ("aten::native_layer_norm", [(3, 5), (5,), (5,)], 8 * 15, 4 * (15 + 5 + 5 + 15)),
        ("aten::sum", [(3, 5)], 15, 4 * 15),
        ("aten::copy_", [(3, 5), (3, 5)], 0, 4 * 30),
        ("aten::cat", [(3, 5), (3, 2)], 0, 4 * 2 * 21),
    ],
)
def test_closed_forms(name: str, shapes: list[tuple[int, ...]], flops: float, moved: float) -> None:
    assert cost(name, shapes, ["float"] * len(shapes)) == Cost(flops, moved, "exact")


def test_fused_attention_reads_fewer_key_heads_than_query_heads() -> None:
    q, kv = (1, 8, 16, 32), (1, 2, 16, 32)
    full = cost("aten::_scaled_dot_product_flash_attention_for_cpu", [q, kv, kv], ["c10::BFloat16"] * 3)
    assert full == Cost(4 * 8 * 16 * 16 * 32, 2 * 16 * 32 * (2 * 8 + 2 * 2), "exact")
    half = cost("aten::_scaled_dot_product_flash_attention_for_cpu", [q, kv, kv], ["c10::BFloat16"] * 3, causal=True)
    assert half.flops == full.flops / 2 if full.flops else False


def test_a_lookup_reads_the_rows_and_not_the_table() -> None:
    found = cost("aten::index_select", [(1000, 16), (), (3,)], ["float", "Scalar", "long int"])
    assert found == Cost(0, 2 * 3 * 16 * 4 + 3 * 8, "exact")


@pytest.mark.parametrize("name", ["aten::view", "aten::transpose", "aten::empty", "aten::to", "aten::contiguous"])
def test_views_and_allocations_are_free(name: str) -> None:
    assert cost(name, [(64, 64)], ["float"]) == Cost(0, 0, "exact")


def test_an_unknown_op_is_estimated_from_its_tensors_and_unknown_without_any() -> None:
    assert cost("aten::brand_new", [(4, 4)], ["float"]).accuracy == "estimated"
    assert cost("aten::brand_new", [()], ["Scalar"]) == Cost(None, None, "unknown")


def test_shapes_that_do_not_fit_the_formula_are_only_estimated() -> None:
    assert cost("aten::mm", [(3, 5), (6, 7)], ["float", "float"]).accuracy == "estimated"


@given(SIZE, SIZE, SIZE)
def test_half_the_width_halves_the_bytes_and_leaves_the_flops(m: int, k: int, n: int) -> None:
    wide, narrow = (cost("aten::mm", [(m, k), (k, n)], [t, t]) for t in ("float", "c10::BFloat16"))
    assert wide.flops == narrow.flops
    assert wide.bytes == 2 * (narrow.bytes or 0)


@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(st.lists(SIZE, max_size=4), max_size=4),
    st.sampled_from(["float", "long int"]),
)
def test_no_shape_breaks_it_and_no_cost_is_negative(name: str, shapes: list[list[int]], dtype: str) -> None:
    found = cost(f"aten::{name}", shapes, [dtype] * len(shapes))
    assert (found.flops or 0) >= 0
    assert (found.bytes or 0) >= 0


def test_kinds() -> None:
    assert kind("aten::addmm") == "matmul"
    assert kind("aten::copy_", ["c10::BFloat16", "float"]) == "cast"
    assert kind("aten::copy_", ["float", "float"]) == "copy"
    assert kind("aten::never_heard_of") == "other"
    assert set(COMPOSITES) - set(KINDS) == set()


def test_the_element_type_of_an_op_is_its_floating_one() -> None:
    assert dtype_name(["long int", "c10::BFloat16", "Scalar"]) == "bfloat16"
    assert dtype_name(["long int"]) == "int64"
    assert dtype_name(["Scalar", ""], "float32") == "float32"


def traced_flops(model: torch.nn.Module, length: int) -> float:
    """FLOPs of products and attention in one forward, from a trace."""
    one = traced_pass(forward_pass(model, rows=1, length=length))
    total = PhaseTotal()
    add_window(total, one.events, windows(one.stamps, ("forward",))[0])
    return sum(row.flops or 0.0 for key, row in total.rows.items() if key[1] in ("matmul", "attention"))


def projections(length: int) -> int:
    """FLOPs of all weight products of the tiny Llama, head included."""
    kv = HIDDEN * KV_HEADS // HEADS
    layer = 2 * HIDDEN * (2 * HIDDEN + 2 * kv) + 3 * 2 * HIDDEN * INNER
    return length * (LAYERS * layer + 2 * HIDDEN * VOCABULARY)


def test_a_traced_llama_adds_up_to_the_closed_form() -> None:
    length = 16
    attention = LAYERS * 4 * length * length * HIDDEN / 2
    assert traced_flops(llama(attn_implementation="sdpa"), length) == projections(length) + attention


def test_a_traced_llama_adds_up_to_torchs_own_counter() -> None:
    model, length = llama(attn_implementation="eager"), 16
    with FlopCounterMode(display=False) as counter:
        forward_pass(model, rows=1, length=length)()
    assert traced_flops(model, length) == counter.get_total_flops()


def test_a_matrix_times_a_vector_is_counted_once() -> None:
    """`mv` hands its work to `addmv_`; both once carried the weights' bytes."""
    weight, x = torch.randn(64, 32), torch.randn(32)

    def run() -> tuple[int, ...]:
        begin = time.perf_counter_ns()
        torch.mv(weight, x)
        return begin, time.perf_counter_ns()

    one, total = traced_pass(run), PhaseTotal()
    add_window(total, one.events, windows(one.stamps, ("forward",))[0])
    assert sum(row.bytes or 0.0 for row in total.rows.values()) == 4 * (64 * 32 + 64 + 32)
    assert {row.accuracy for row in total.rows.values()} == {"exact"}
