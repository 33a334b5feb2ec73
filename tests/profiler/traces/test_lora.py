"""LoRA's share by each of the four ways, and silence where there is no adapter."""

from __future__ import annotations

from pathlib import Path

import pytest

from ftprof.profiler.traces.analyse import analyse
from ftprof.profiler.traces.tables import Lora
from tests.profiler.traces.chrome import Json, kernel, launch, note, op, python, write


def found(tmp_path: Path, events: list[Json]) -> Lora | None:
    """LoRA in these events."""
    return analyse(write(tmp_path / "t.json", events)).files[0].lora


def work(
    at: int, number: int, dur: int, name: str = "gemm", dims: object = None, op_name: str = "aten::linear"
) -> list[Json]:
    """An op that launches one kernel, which runs later."""
    return [op(op_name, at, 8, dims), launch(at + 2, 2, number), kernel(1000 + 100 * number, dur, number, name)]


def adapted(at: int, number: int, scale: int = 8, first: tuple[int, int] = (256, 512)) -> list[Json]:
    """One LoRA layer by its shapes: base, down to rank 8, up, scaling, sum."""
    inner, outer = first
    return [
        *work(at, number, 60, dims=[[2, 10, inner], [outer, inner], []]),
        *work(at + 10, number + 1, 10, dims=[[2, 10, inner], [scale, inner], []]),
        *work(at + 20, number + 2, 10, dims=[[2, 10, scale], [outer, scale], []]),
        *work(at + 30, number + 3, 5, "elementwise_kernel", [[2, 10, outer], []], "aten::mul"),
        *work(at + 40, number + 4, 5, "elementwise_kernel", [[2, 10, outer], [2, 10, outer], []], "aten::add"),
        *work(at + 50, number + 5, 10, "elementwise_kernel", [[2, 10, outer]], "aten::silu"),
    ]


def test_shapes_of_rank_r_round_a_base_product(tmp_path: Path) -> None:
    lora = found(tmp_path, adapted(0, 1) + adapted(100, 11))
    assert lora is not None and (lora.how, lora.ranks, lora.kernels) == ("shapes", (8,), 8)
    assert lora.device_share == pytest.approx(30 / 100)
    assert lora.host_s == pytest.approx(64e-6)


def test_mm_shapes_count_as_well(tmp_path: Path) -> None:
    events = [
        *work(0, 1, 60, dims=[[20, 256], [256, 512]], op_name="aten::mm"),
        *work(10, 2, 20, dims=[[20, 256], [256, 16]], op_name="aten::mm"),
        *work(20, 3, 20, dims=[[20, 16], [16, 512]], op_name="aten::mm"),
    ]
    lora = found(tmp_path, events)
    assert lora is not None and lora.ranks == (16,) and lora.device_share == pytest.approx(0.4)


@pytest.mark.parametrize(
    "sizes",
    [
        [(256, 32), (32, 256)],  # a bottleneck: no base product beside it
        [(256, 512), (256, 128), (128, 512)],  # too wide for a rank beside its base
        [(512, 512), (256, 8), (8, 512)],  # another input than the base has
    ],
)
def test_narrow_layers_alone_are_no_adapter(tmp_path: Path, sizes: list[tuple[int, int]]) -> None:
    events = [
        piece
        for number, (inner, outer) in enumerate(sizes, 1)
        for piece in work(number * 10, number, 20, dims=[[20, inner], [outer, inner], []])
    ]
    assert found(tmp_path, events) is None


def test_layers_of_peft_without_their_base(tmp_path: Path) -> None:
    layer = "/x/site-packages/peft/tuners/lora/layer.py(771): forward"
    events = [
        python("nn.Module: Linear_1", 0, 90),
        python(layer, 1, 88),
        python("nn.Module: Linear_2", 2, 20),
        *work(4, 1, 60),
        python("nn.Module: Linear_3", 24, 12),
        *work(25, 2, 15),
        python("nn.Module: Linear_4", 40, 12),
        *work(41, 3, 15),
        *work(60, 4, 10, "elementwise_kernel", None, "aten::add"),
    ]
    lora = found(tmp_path, events)
    assert lora is not None and (lora.how, lora.kernels, lora.ranks) == ("layers", 3, ())
    assert lora.device_share == pytest.approx(0.4)


def test_names_that_say_lora(tmp_path: Path) -> None:
    events = [
        *work(0, 1, 70),
        note("q_proj.lora_A", 10, 10),
        *work(11, 2, 20),
        note("q_proj.lora_B", 20, 10),
        *work(21, 3, 10),
    ]
    lora = found(tmp_path, events)
    assert lora is not None and (lora.how, lora.kernels) == ("names", 2)
    assert lora.device_share == pytest.approx(0.3)


def test_kernels_of_serving_engines(tmp_path: Path) -> None:
    lora = found(
        tmp_path,
        [kernel(0, 70, 1), kernel(80, 20, 2, "_lora_shrink_kernel"), kernel(110, 10, 3, "_lora_expand_kernel")],
    )
    assert lora is not None and lora.how == "kernel names" and lora.device_share == pytest.approx(0.3)


def test_no_adapter_no_share(tmp_path: Path) -> None:
    assert found(tmp_path, [*work(0, 1, 60), *work(10, 2, 60)]) is None
