"""Self times of nested intervals, and taking the cost of recording off them."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ftprof.profiler.nesting import corrected, nest
from ftprof.profiler.windows import no_collection, of_phase, per_occurrence, quieter_half, windows

Tree = list["Tree"]
TREES: st.SearchStrategy[Tree] = st.recursive(st.just([]), lambda inner: st.lists(inner, max_size=4), max_leaves=30)


def lay_out(tree: Tree, start: int, work: int, inside: int, outside: int) -> tuple[list[tuple[int, int]], int]:
    """Intervals of a tree of ops, each doing `work`, as a recorder sees them: (intervals, end of all of it)."""
    spans, now = [], start + inside // 2 + work
    for child in tree:
        below, end = lay_out(child, now + outside // 2, work, inside, outside)
        spans += below
        now = end + outside - outside // 2
    end = now + inside - inside // 2
    return [(start, end), *spans], end


@given(TREES, st.integers(1, 1000), st.integers(0, 50), st.integers(0, 50))
def test_correction_recovers_the_work_of_every_op(tree: Tree, work: int, inside: int, outside: int) -> None:
    spans, _ = lay_out(tree, 0, work, inside, outside)
    for node in nest(spans):
        assert corrected(node.self_ns, 1, node.children, inside, outside) == work


@given(TREES, st.integers(1, 1000))
def test_self_times_sum_to_the_whole(tree: Tree, work: int) -> None:
    spans, end = lay_out(tree, 0, work, 3, 5)
    nodes = nest(spans)
    assert sum(node.self_ns for node in nodes) == end
    assert [node.parent for node in nodes].count(-1) == 1


def test_neighbours_are_not_nested_and_a_ragged_end_is_cut() -> None:
    nodes = nest([(0, 10), (10, 20), (12, 25)])
    assert [node.parent for node in nodes] == [-1, -1, 1]
    assert nodes[2].end == 20


def test_a_correction_larger_than_what_was_seen_leaves_nothing() -> None:
    assert corrected(1e-6, 10, 0, 1e-6, 0.0) == 0.0


def test_decode_is_normalised_by_its_tokens() -> None:
    prefill, decode = windows((0, 10, 14, 18, 22), ("prefill", "decode"))
    assert (prefill.seconds, decode.seconds) == (10e-9, 4e-9)
    assert decode.occurrences == 3


def test_one_generated_token_has_no_decode() -> None:
    assert [window.phase for window in windows((0, 10), ("prefill", "decode"))] == ["prefill"]
    assert per_occurrence([(0, 10), (0, 30), (0, 20)], ("prefill", "decode")) == {"prefill": 20e-9}


def test_a_run_without_stamps_is_refused() -> None:
    with pytest.raises(ValueError, match="1 stamps"):
        windows((0,), ("forward",))


def test_the_quieter_half_counts() -> None:
    seen = of_phase([(0, 30), (0, 10), (0, 20)], ("forward",), "forward")
    assert quieter_half(seen) == [1, 2]
    assert quieter_half(seen[:1]) == [0]


def test_garbage_collection_is_held_off_and_given_back() -> None:
    with no_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
