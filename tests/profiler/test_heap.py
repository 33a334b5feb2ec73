"""Workers start with the thresholds that glibc ends at, unless the user chose others."""

from __future__ import annotations

import pytest

from ftprof.profiler.heap import LARGEST, SETTLED, settle_heap


def test_new_processes_start_where_glibc_ends() -> None:
    environment = {"PATH": "/bin"}
    settle_heap(environment)
    assert environment == {"PATH": "/bin", **SETTLED}
    assert int(environment["MALLOC_TRIM_THRESHOLD_"]) == 2 * int(environment["MALLOC_MMAP_THRESHOLD_"]) == 2 * LARGEST


@pytest.mark.parametrize(
    "own",
    [
        {"MALLOC_ARENA_MAX": "2"},
        {"MALLOC_TRIM_THRESHOLD_": "1"},
        {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=1"},
        {"FTPROF_HEAP": "system"},
    ],
)
def test_a_choice_of_the_users_own_stays(own: dict[str, str]) -> None:
    environment = dict(own)
    settle_heap(environment)
    assert environment == own
