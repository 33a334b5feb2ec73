"""Which limits of the quality gate a variant is held to."""

from __future__ import annotations

import pytest

from ftprof.advisors.laxest import laxest


@pytest.mark.parametrize(
    ("names", "dtype", "row"),
    [
        pytest.param(["unmerged-adapter"], "float32", "equivalent", id="a merge in fp32 may only round"),
        pytest.param(["unmerged-adapter"], "bfloat16", "half", id="a merge in bf16 rounds more"),
        pytest.param(["unmerged-adapter", "fp32-weights"], "bfloat16", "half", id="the laxest change decides"),
    ],
)
def test_the_row_follows_the_variants_dtype(names: list[str], dtype: str, row: str) -> None:
    assert laxest(names, dtype) == ("rounding", row)
