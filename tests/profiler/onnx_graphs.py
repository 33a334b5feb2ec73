"""Small ONNX graphs made by hand: a bag-of-words classifier with positions, fixed to a size or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests import tiny_directory

WORDS, WIDTH, LABELS, POSITIONS = 57, 8, 3, 16
DRAW = np.random.default_rng(5)
EMBEDDING = DRAW.normal(size=(WORDS, WIDTH)).astype(np.float32)
PLACES = DRAW.normal(size=(1, POSITIONS, WIDTH)).astype(np.float32)
HEAD = DRAW.normal(size=(WIDTH, LABELS)).astype(np.float32)


def expected(rows: list[list[int]], *, masked: bool = True, length: int = POSITIONS) -> NDArray[np.float32]:
    """What the graph answers: the sum over tokens of (word + place) times the head; with padding where not masked."""
    out = []
    for row in rows:
        ids = row if masked else row + [0] * (length - len(row))
        out.append((EMBEDDING[ids] + PLACES[0, : len(ids)]).sum(0) @ HEAD)
    return np.array(out, dtype=np.float32)


def model(batch: int | str, length: int | str, *, masked: bool = True, per_row: bool = False) -> Any:
    """The graph as an exporter writes it; with numbers for sizes, shapes and positions are baked in.

    `masked` False: padding counts too. `per_row`: a constant by row, which no rewriting can extend.
    """
    from onnx import TensorProto, helper, numpy_helper

    rows, columns = (1 if isinstance(size, str) else size for size in (batch, length))
    fixed = not isinstance(length, str)
    stored = {"embedding": EMBEDDING, "places": PLACES[:, :columns] if fixed else PLACES, "head": HEAD}
    column = [0 if isinstance(batch, str) else batch, columns if fixed else -1, 1]
    stored |= {"column": np.array(column, np.int64)}
    stored |= {"one": np.array([1], np.int64), "zero": np.array([0], np.int64)}
    make = helper.make_node
    nodes = [make("Gather", ["embedding", "input_ids"], ["words"])]
    if fixed:
        nodes += [make("Add", ["words", "places"], ["placed"])]
    else:
        nodes += [make("Shape", ["input_ids"], ["size"]), make("Gather", ["size", "one"], ["tokens"])]
        nodes += [
            make("Slice", ["places", "zero", "tokens", "one"], ["here"]),
            make("Add", ["words", "here"], ["placed"]),
        ]
    nodes += [
        make("Cast", ["attention_mask"], ["real"], to=TensorProto.FLOAT),
        make("Reshape", ["real", "column"], ["weight"]),
        make("Mul", ["placed", "weight"], ["kept"]) if masked else make("Identity", ["placed"], ["kept"]),
        make("ReduceSum", ["kept", "one"], ["sum"], keepdims=0),
        make("MatMul", ["sum", "head"], ["plain" if per_row else "logits"]),
    ]
    if per_row:
        stored["by_row"] = np.arange(rows * LABELS, dtype=np.float32).reshape(rows, LABELS)
        nodes.append(make("Add", ["plain", "by_row"], ["logits"]))
    graph = helper.make_graph(
        nodes,
        "bag",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, [batch, length])
            for name in ("input_ids", "attention_mask")
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [batch, LABELS])],
        [numpy_helper.from_array(values, name) for name, values in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9, producer_name="hand")


def directory(folder: Path, made: Any, *, external: bool = False) -> Path:
    """The graph with a tokenizer, its weights in the file or beside it."""
    import onnx

    folder.mkdir(parents=True, exist_ok=True)
    more: dict[str, Any] = (
        {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 64} if external else {}
    )
    onnx.save(made, str(folder / "model.onnx"), **more)
    tiny_directory.tokenizer().save_pretrained(folder)
    return folder
