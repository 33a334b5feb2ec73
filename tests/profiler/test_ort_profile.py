from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ftprof.profiler import op_tables, ort_opcost
from ftprof.profiler.diagnosis import Ledger
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.ort_opcost import Call, Packed, Tensor
from ftprof.profiler.ort_profile import foreign_nodes, op_trace, packed_nodes, read_runs
from ftprof.profiler.parts import trace_ledger
from tests.profiler.tiny_models import machine


def node(name: str, op: str, ts: int, dur: int, inputs: list[Any], outputs: list[Any], **args: Any) -> dict[str, Any]:
    """A node event as ONNX Runtime writes it, with fields that nobody reads."""
    given = {"op_name": op, "provider": "CPUExecutionProvider", "input_type_shape": inputs, "node_index": "7"}
    given |= {"output_type_shape": outputs, "thread_scheduling_stats": {"main_thread": {"core": -1}}} | args
    return {"cat": "Node", "ph": "X", "name": f"{name}_kernel_time", "ts": ts, "dur": dur, "args": given}


def run(ts: int, dur: int) -> dict[str, Any]:
    return {"cat": "Session", "ph": "X", "name": "model_run", "ts": ts, "dur": dur, "args": {}}


X = {"float": [1, 4, 64]}
STEP = {"float": [1, 1, 64]}
EVENTS = [
    {"cat": "Session", "name": "session_initialization", "ts": 5, "dur": 90, "args": {}},
    node("/q", "MatMul", 110, 40, [X], [{"float": [1, 4, 96]}]),
    node("/norm", "SkipLayerNormalization", 160, 10, [X, X, {"float": [64]}], [X]),
    run(100, 100),
    node("/q", "MatMul", 310, 20, [STEP], [{"float": [1, 1, 96]}]),
    node("/norm", "SkipLayerNormalization", 335, 5, [STEP, STEP, {"float": [64]}], [STEP]),
    run(300, 50),
    node("/q", "MatMul", 410, 22, [STEP], [{"float": [1, 1, 96]}]),
    node("/norm", "SkipLayerNormalization", 435, 5, [STEP, STEP, {"float": [64]}], [STEP]),
    run(400, 50),
]


def profile(folder: Path, events: list[dict[str, Any]]) -> Path:
    path = folder / "profile.json"
    path.write_text(json.dumps(events))
    return path


def test_runs_hold_their_own_nodes(tmp_path: Path) -> None:
    runs = read_runs(profile(tmp_path, EVENTS))
    assert [[found.name for found in one.nodes] for one in runs] == [["/q", "/norm"]] * 3
    assert runs[0].seconds == pytest.approx(100e-6)
    assert runs[1].nodes[0].inputs == (Tensor("float", (1, 1, 64)),)


@pytest.mark.parametrize("text", ["", '[{"cat": "Node", "name"', '{"traceEvents": []}'])
def test_a_broken_profile_is_an_error_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cut.json"
    path.write_text(text)
    with pytest.raises(FtprofError, match=r"cut\.json"):
        read_runs(path)


def test_totals_are_per_occurrence_and_scaled(tmp_path: Path) -> None:
    decode = read_runs(profile(tmp_path, EVENTS))[1:]
    trace = op_trace(decode, scenario="single", phase="decode", untraced_s=80e-6, occurrences=2, beside_s=40e-6)
    product = trace.ops[0]
    assert (product.name, product.kind, product.calls) == ("MatMul", "matmul", 1)
    assert product.self_s == pytest.approx(2 * 21e-6)
    assert product.shapes == "1x1x64, 64x96"
    assert product.flops == 2 * 64 * 96
    assert product.bytes == 4 * (64 + 96 + 64 * 96)
    assert trace.traced_s == pytest.approx(2 * 50e-6)


def test_recording_comes_off_the_time_between_nodes(tmp_path: Path) -> None:
    decode = read_runs(profile(tmp_path, EVENTS))[1:]
    # 50 us traced, of which nodes take 26: untraced 40 leaves 14 between them, untraced 20 leaves nothing.
    for beside, host in ((50e-6, 24e-6), (40e-6, 14e-6), (20e-6, 0.0)):
        trace = op_trace(decode, scenario="single", phase="decode", untraced_s=beside, occurrences=2)
        assert trace.host_s == pytest.approx(host, abs=1e-12)
    outside = op_trace(decode, scenario="single", phase="decode", untraced_s=70e-6, occurrences=2, wall_s=140e-6)
    assert outside.host_s == pytest.approx(44e-6)


def test_the_ledger_of_such_a_trace_closes(tmp_path: Path) -> None:
    prefill = read_runs(profile(tmp_path, EVENTS))[:1]
    trace = op_trace(prefill, scenario="single", phase="prefill", untraced_s=90e-6, occurrences=1)
    ledger: Ledger = trace_ledger(trace, machine(), 90e-6).ledger
    assert ledger.total_s == pytest.approx(90e-6)
    assert ledger.unattributed_s == pytest.approx(0.0, abs=1e-12)


def test_a_loop_does_not_count_its_body_twice(tmp_path: Path) -> None:
    events = [
        node("/loop", "Loop", 10, 80, [X], [X]),
        node("/body/add", "Add", 20, 50, [X, X], [X]),
        run(0, 100),
    ]
    trace = op_trace(
        read_runs(profile(tmp_path, events)), scenario="single", phase="forward", untraced_s=1e-4, occurrences=1
    )
    assert {op.name: op.self_s for op in trace.ops} == pytest.approx({"Loop": 30e-6, "Add": 50e-6})
    assert trace.host_s == pytest.approx(20e-6)


def test_foreign_and_inserted_nodes_are_named(tmp_path: Path) -> None:
    events = [
        node("/shape", "Shape", 10, 1, [X], [{"int64": [3]}]),
        node("Memcpy_token_1", "MemcpyFromHost", 20, 1, [X], [X], provider="CUDAExecutionProvider"),
        node("InsertedPrecisionFreeCast_/x", "Cast", 30, 1, [X], [X], provider="CUDAExecutionProvider"),
        run(0, 100),
    ]
    found = foreign_nodes(read_runs(profile(tmp_path, events)), "CUDAExecutionProvider")
    assert found.other_provider == ("/shape",)
    assert found.inserted == ("Memcpy_token_1", "InsertedPrecisionFreeCast_/x")


def test_kinds_are_the_torch_traces_own_and_each_op_has_one() -> None:
    assert set(ort_opcost.KINDS.values()) == set(op_tables.KINDS.values())
    spelt = Counter(name for names in ort_opcost._GROUPS.values() for name in names.split())
    assert [name for name, count in spelt.items() if count > 1] == []
    assert ort_opcost.kind("NeverHeardOf") == "other"


def floats(*shape: int) -> Tensor:
    return Tensor("float", shape)


def test_a_gather_is_an_embedding_only_from_a_table_of_floats() -> None:
    assert ort_opcost.kind("Gather", [floats(300, 64), Tensor("int64", (1, 5))]) == "embedding"
    assert ort_opcost.kind("Gather", [Tensor("int64", (2,)), Tensor("int64", ())]) == "copy"


BUFFER = floats(2, 2, 128, 16)
INT4 = Packed(bits=4)
COSTS = [
    # op, inputs, outputs, entry of the graph, keys -> FLOPs, bytes, accuracy
    ("MatMul", [floats(2, 5, 64)], [floats(2, 5, 96)], None, None, 2 * 10 * 64 * 96, 4 * (640 + 960 + 6144), "exact"),
    ("MatMul", [floats(3, 7, 8), floats(3, 8, 7)], [floats(3, 7, 7)], None, None, 2352, 4 * (168 * 2 + 147), "exact"),
    ("Gemm", [floats(64, 10), floats(96)], [floats(10, 96)], None, None, 122880, 4 * (640 + 960 + 6144), "exact"),
    (
        "MatMulNBits",
        [floats(1, 1, 64), floats(96, 2)],
        [floats(1, 1, 96)],
        INT4,
        None,
        12288,
        640 + 3072 + 768,
        "exact",
    ),
    ("MatMulNBits", [floats(1, 1, 64)], [floats(1, 1, 96)], INT4, None, 12288, 640 + 3072 + 768, "exact"),
    ("MatMulNBits", [floats(1, 1, 64)], [floats(1, 1, 96)], None, None, 12288, 640 + 6144 + 768, "estimated"),
    ("DynamicQuantizeMatMul", [floats(1, 64), floats(96)], [floats(1, 96)], None, None, 12288, 640 + 6144, "exact"),
    (
        "MatMulInteger",
        [Tensor("uint8", (1, 64))],
        [Tensor("int32", (1, 96))],
        None,
        None,
        12288,
        64 + 384 + 6144,
        "exact",
    ),
    ("GroupQueryAttention", [floats(2, 1, 128), BUFFER], [floats(2, 1, 64)], None, 9, 4608, 1536 + 4608, "exact"),
    ("GroupQueryAttention", [floats(2, 1, 128), BUFFER], [floats(2, 1, 64)], None, None, 65536, 67072, "estimated"),
    ("MultiHeadAttention", [floats(2, 5, 64)], [floats(2, 5, 64)], None, None, 12800, 4 * (640 + 640 + 1280), "exact"),
    ("Gather", [floats(300, 64), Tensor("int64", (1, 5))], [floats(1, 5, 64)], None, None, 0, 2600, "exact"),
    ("Cast", [floats(2, 8)], [Tensor("float16", (2, 8))], None, None, 0, 96, "exact"),
    ("DynamicQuantizeLinear", [floats(2, 8)], [Tensor("uint8", (2, 8)), floats()], None, None, 0, 64 + 16 + 4, "exact"),
    ("Reshape", [floats(2, 8)], [floats(16)], None, None, 0, 0, "exact"),
    ("QuickGelu", [floats(2, 8)], [floats(2, 8)], None, None, 16, 128, "exact"),
    ("NeverHeardOf", [floats(2, 8)], [floats(2, 8)], None, None, None, 128, "estimated"),
    ("Add", [], [], None, None, None, None, "unknown"),
]


@pytest.mark.parametrize(("op", "inputs", "outputs", "packed", "context", "flops", "moved", "accuracy"), COSTS)
def test_costs(
    op: str,
    inputs: list[Tensor],
    outputs: list[Tensor],
    packed: Packed | None,
    context: int | None,
    flops: float | None,
    moved: float | None,
    accuracy: str,
) -> None:
    found = ort_opcost.cost(Call(op, tuple(inputs), tuple(outputs), packed, context))
    assert (found.flops, found.bytes, found.accuracy) == (flops, moved, accuracy)


def test_integer_products_are_counted_as_int8() -> None:
    packed = Call("MatMulNBits", (floats(1, 64),), (floats(1, 96),), Packed(bits=4))
    assert ort_opcost.dtype(packed) == "int8"
    assert ort_opcost.dtype(packed._replace(packed=Packed(bits=4, integer=False))) == "float32"
    assert ort_opcost.spell(packed) == "1x64, 64x96 4-bit"
    assert ort_opcost.dtype(Call("Softmax", (floats(1, 64),), (floats(1, 64),))) == "float32"


def test_packed_nodes_come_from_the_graph(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, save

    made = helper.make_node(
        "MatMulNBits", ["x", "w", "s"], ["y"], name="/head", domain="com.microsoft", bits=8, accuracy_level=4, K=32, N=4
    )
    other = helper.make_node("Relu", ["y"], ["z"], name="/relu")
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xz"]
    save(helper.make_model(helper.make_graph([made, other], "g", value[:1], value[1:])), str(tmp_path / "g.onnx"))
    assert packed_nodes(tmp_path / "g.onnx") == {"/head": Packed(bits=8, integer=True)}
