"""A user's own .onnx: what is said of it, what is refused, how a fixed one runs, and how it is made to vary."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.onnx_files import check_external, onnx_facts
from ftprof.profiler.onnx_shapes import with_dynamic_axes
from ftprof.profiler.ort_engine import OrtEngine, open_onnx
from ftprof.profiler.workload import Call, Task
from tests.profiler.onnx_graphs import LABELS, WIDTH, WORDS, directory, expected, model

ROWS = [[3, 4, 5], [6], [7, 8, 9, 10, 11, 12, 13, 14], [15, 16, 17, 18], [20, 21]]


@pytest.fixture
def fixed(tmp_path: Path) -> Path:
    return directory(tmp_path / "fixed", model(2, 8), external=True)


def test_facts_say_what_the_graph_takes_and_holds(fixed: Path) -> None:
    facts = onnx_facts(fixed)
    assert (facts.batch, facts.length, facts.opset, facts.producer) == (2, 8, 17, "hand")
    assert next((port.name, port.dtype, port.dims) for port in facts.inputs) == ("input_ids", "int64", (2, 8))
    assert (facts.task, facts.labels) == ("sequence-classification", ("LABEL_0", "LABEL_1", "LABEL_2"))
    assert (facts.weights.dtype, facts.weights.vocabulary) == ("float32", WORDS)
    assert facts.weights.linears == ((WIDTH, LABELS, 1),)
    assert facts.weights.size_bytes >= 4 * (WORDS * WIDTH + 8 * WIDTH + WIDTH * LABELS)
    assert [file.name for file in facts.external] == ["weights.bin"]
    assert facts.tokenizer == str(fixed)


def test_symbols_are_not_taken_for_sizes(tmp_path: Path) -> None:
    facts = onnx_facts(directory(tmp_path, model("batch", "sequence")))
    assert (facts.batch, facts.length) == (None, None)


def test_the_file_is_found_where_exporters_put_it(tmp_path: Path, fixed: Path) -> None:
    nested = directory(tmp_path / "hub" / "onnx", model(1, 8))
    assert onnx_facts(nested.parent).path == str(nested / "model.onnx")
    (fixed / "quantised.onnx").write_bytes(b"")
    assert onnx_facts(fixed).path.endswith("model.onnx")
    (fixed / "model.onnx").rename(fixed / "plain.onnx")
    with pytest.raises(FtprofError, match=r"2 \.onnx files: plain\.onnx, quantised\.onnx") as caught:
        onnx_facts(fixed)
    assert caught.value.exit_code == Exit.USAGE
    for nothing in (tmp_path / "absent", tmp_path):
        with pytest.raises(FtprofError, match=r"does not exist|no \.onnx file"):
            onnx_facts(nothing)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def _grow(path: Path) -> None:
    os.truncate(path, 2**31 + 5)  # sparse: takes no space


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.write_bytes(b""), "holds no graph"),
        (lambda path: path.write_text("not protobuf at all"), "not an ONNX model"),
        (lambda path: path.write_bytes(b"\x80\x04\x95junk."), "not an ONNX model"),
        (_truncate, "truncated"),
        (_grow, r"2\.1 GB"),
    ],
)
def test_what_is_no_model_is_named(tmp_path: Path, spoil: Callable[[Path], object], said: str) -> None:
    folder = directory(tmp_path, model(2, 8))
    spoil(folder / "model.onnx")
    with pytest.raises(FtprofError, match=said) as caught:
        onnx_facts(folder)
    assert caught.value.hint


def _point_at(folder: Path, key: str, value: str) -> None:
    made = onnx.load(str(folder / "model.onnx"), load_external_data=False)
    for tensor in made.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == key:
                entry.value = value
    (folder / "model.onnx").write_bytes(made.SerializeToString())


@pytest.mark.parametrize(
    "place", ["../secret.bin", "/etc/passwd", "C:\\secret.bin", "a/../../secret.bin", "link.bin", ""]
)
def test_weights_elsewhere_are_never_followed(tmp_path: Path, fixed: Path, place: str) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(100_000))
    (fixed / "link.bin").symlink_to(tmp_path / "secret.bin")
    _point_at(fixed, "location", place)
    with pytest.raises(FtprofError, match="which is not in"):
        onnx_facts(fixed)


def test_links_of_the_hubs_cache_are_fine(tmp_path: Path, fixed: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    fixed.rename(blobs)
    snapshot.mkdir()
    for path in blobs.iterdir():
        (snapshot / path.name).symlink_to(path)
    engine = open_onnx(snapshot, Call())
    assert engine.logits(ROWS).shape == (5, LABELS)
    assert isinstance(engine.eos_ids, tuple)


@pytest.mark.parametrize(("key", "value"), [("offset", "-8"), ("length", "many")])
def test_a_senseless_place_in_the_weights_is_refused(fixed: Path, key: str, value: str) -> None:
    _point_at(fixed, key, value)
    with pytest.raises(FtprofError, match="no valid place"):
        onnx_facts(fixed)


def test_missing_and_short_weights_are_said_and_refused(fixed: Path) -> None:
    os.truncate(fixed / "weights.bin", 100)
    with pytest.raises(FtprofError, match="has 100 bytes"):
        open_onnx(fixed, Call())
    (fixed / "weights.bin").unlink()
    facts = onnx_facts(fixed)
    assert facts.external[0].size_bytes is None
    assert "weights.bin is missing" in facts.notes
    with pytest.raises(FtprofError, match=r"weights\.bin, which is missing"):
        check_external(facts)


def _bare(
    inputs: list[str], outputs: dict[str, list[int | str]], op: str = "Identity", domain: str = ""
) -> onnx.ModelProto:
    """A graph of one operator, for what is told from names and shapes alone."""
    graph = helper.make_graph(
        [helper.make_node(op, [inputs[0]], [next(iter(outputs))], domain=domain)],
        "bare",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "s"]) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in outputs.items()],
        [helper.make_tensor("half", TensorProto.FLOAT16, [64], bytes(128), raw=True)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)])


@pytest.mark.parametrize(
    ("inputs", "outputs", "task"),
    [
        (["input_ids"], {"logits": ["b", 4]}, "sequence-classification"),
        (["input_ids"], {"scores": ["b", 4]}, "sequence-classification"),
        (["input_ids"], {"last_hidden_state": ["b", "s", 8], "pooler_output": ["b", 8]}, "embedding"),
        (["input_ids"], {"sentence_embedding": ["b", 8]}, "embedding"),
        (["input_ids", "past_key_values.0.key"], {"logits": ["b", "s", 99]}, "causal-lm"),
        (["input_ids"], {"logits": ["b", "s", 9]}, None),
    ],
)
def test_the_task_is_told_from_the_outputs(
    tmp_path: Path, inputs: list[str], outputs: dict[str, list[int | str]], task: Task | None
) -> None:
    assert onnx_facts(directory(tmp_path, _bare(inputs, outputs))).task == task


def test_what_slows_or_stops_a_graph_is_named(tmp_path: Path) -> None:
    facts = onnx_facts(directory(tmp_path, _bare(["input_ids"], {"logits": ["b", 4]}, "Magic", "my.ops")))
    assert facts.operators.foreign == ("my.ops.Magic",)
    said = " ".join(facts.notes)
    assert "float16" in said and "my.ops.Magic" in said and "opset 11" in said


def test_a_fixed_graph_is_filled_up_and_answers_for_the_real_rows_only(fixed: Path) -> None:
    engine = open_onnx(fixed, Call())
    for count in range(1, len(ROWS) + 1):
        np.testing.assert_allclose(engine.logits(ROWS[:count]), expected(ROWS[:count]), atol=1e-4)
    batch = engine.pad(ROWS[:3])
    assert batch.inputs["input_ids"].shape == (4, 8)
    assert batch.tokens == (3, 1, 8)
    assert engine.facts().fixed_shape == (2, 8)
    assert engine.facts().engine == "ort"


def test_rows_are_cut_to_the_fixed_length(fixed: Path) -> None:
    engine = open_onnx(fixed, Call())
    assert [len(ids) for ids in engine.tokenise(["order parcel " * 20, "refund"])] == [8, 1]
    with pytest.raises(FtprofError, match="9 tokens, and the graph takes 8"):
        engine.pad([[3] * 9])


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (_bare(["pixel_values"], {"logits": ["b", 4]}), "pixel_values"),
        (_bare(["input_ids"], {"logits": ["b", "s", 9]}), "belong to no task"),
        (_bare(["input_ids", "past_key_values.0.key"], {"logits": ["b", "s", 99]}), "language model"),
        (_bare(["input_ids"], {"logits": ["b", 4]}, "Magic", "my.ops"), "could not open"),
    ],
)
def test_a_graph_that_cannot_be_run_is_refused_with_the_reason(
    tmp_path: Path, made: onnx.ModelProto, said: str
) -> None:
    with pytest.raises(FtprofError, match=said):
        open_onnx(directory(tmp_path, made), Call())


def test_a_tokenizer_must_lie_beside_the_graph(fixed: Path) -> None:
    for path in fixed.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(FtprofError, match="no tokenizer"):
        open_onnx(fixed, Call())


@pytest.mark.parametrize("external", [True, False])
def test_fixed_axes_are_made_to_vary_with_the_same_answers(tmp_path: Path, external: bool) -> None:
    before = open_onnx(directory(tmp_path / "in", model(2, 8), external=external), Call())
    after = with_dynamic_axes(before)
    assert after.facts().fixed_shape is None
    assert after.pad(ROWS[:3]).inputs["input_ids"].shape == (3, 8)
    assert after.pad(ROWS[3:]).inputs["input_ids"].shape == (2, 4)
    for row in ROWS:
        np.testing.assert_allclose(after.logits([row]), expected([row]), atol=1e-4)
    long = ["order parcel " * 20]
    assert after.tokenise(long) == before.tokenise(long), "rows must be cut where they were"
    after.save(tmp_path / "out")
    again = open_onnx(tmp_path / "out", Call())
    assert (again.onnx.batch, again.onnx.length, again.tokenise(long)) == (None, None, after.tokenise(long))
    np.testing.assert_allclose(again.logits(ROWS), expected(ROWS), atol=1e-4)


def test_an_axis_that_cannot_vary_stays(tmp_path: Path) -> None:
    after = with_dynamic_axes(open_onnx(directory(tmp_path, model(2, 8, per_row=True)), Call()))
    assert (after.onnx.batch, after.onnx.length) == (2, None)


def test_a_graph_whose_padding_counts_is_left_as_it_is(tmp_path: Path) -> None:
    engine = open_onnx(directory(tmp_path, model(1, 8, masked=False)), Call())
    np.testing.assert_allclose(engine.logits(ROWS), expected(ROWS, masked=False, length=8), atol=1e-4)
    after = with_dynamic_axes(engine)
    assert (after.onnx.batch, after.onnx.length) == (None, 8), "only the batch may vary"
    with pytest.raises(FtprofError, match=r"sequence: outputs differ by \d") as caught:
        with_dynamic_axes(open_onnx(directory(tmp_path / "two", model("batch", 8, masked=False)), Call()))
    assert "export it again" in caught.value.hint


def test_a_graph_that_varies_already_needs_nothing(tmp_path: Path) -> None:
    with pytest.raises(FtprofError, match="already takes any batch"):
        with_dynamic_axes(open_onnx(directory(tmp_path, model("batch", "sequence")), Call()))


def test_it_generates_nothing(fixed: Path) -> None:
    engine: OrtEngine = open_onnx(fixed, Call())
    with pytest.raises(FtprofError, match="does not generate text"):
        engine.generate(engine.pad(ROWS), 4)
