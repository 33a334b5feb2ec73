"""Rewriting a graph's fixed sizes into those of its inputs. Nothing here knows whether the result is right."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ftprof.profiler.onnx_files import read_graph

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnx import ModelProto, NodeProto, TensorProto

BATCH, SEQUENCE = "batch", "sequence"
_OURS = "ftprof_axis_"
# Inputs that hold a shape, by operator: entries equal to the fixed sizes stand for them.
_SHAPES = {"Reshape": (1,), "Expand": (1,), "ConstantOfShape": (0,), "Equal": (0, 1), "Where": (1, 2), "Mul": (0, 1)}
# Inputs that hold a table by position (masks, position ids, position vectors already looked up), by operator.
_ELEMENTWISE = ("Add", "Sub", "Mul", "Where", "And", "Or", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")
_TABLES = dict.fromkeys(_ELEMENTWISE, (0, 1, 2)) | {
    "Expand": (0,),
    "Gather": (1,),
    "GatherElements": (1,),
    "GatherND": (1,),
    "Unsqueeze": (0,),
    "Cast": (0,),
    "Identity": (0,),
    "Reshape": (0,),
}
# Inputs that hold the numbers of the rows, as a column.
_COUNTERS = {"Mul": (0, 1), "Add": (0, 1)}
_LONGEST_SHAPE = 8
_FLOATS = (1, 10, 11, 16)  # float, half, double, bfloat16


class Axes(msgspec.Struct, frozen=True, kw_only=True):
    """What is made to vary: the sizes that the graph is fixed to; None for what stays or varies already."""

    batch: int | None
    length: int | None

    @property
    def words(self) -> str:
        """For people."""
        return " and ".join(name for name, size in ((BATCH, self.batch), (SEQUENCE, self.length)) if size is not None)


def freed(place: int, dim: int | str | None, axes: Axes) -> int | str | None:
    """A dimension of an input or output at this place, with the symbol where it is made to vary."""
    if place == 0 and dim is not None and dim == axes.batch:
        return BATCH
    return SEQUENCE if place == 1 and dim is not None and dim == axes.length else dim


def rewrite(path: Path, axes: Axes) -> bytes:
    """The graph in `path` with these axes made to vary, serialised; weights in other files stay there."""
    model = read_graph(path)
    graph = model.graph
    stored = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in stored]
    for value in (*inputs, *graph.output):
        for place, dim in enumerate(value.type.tensor_type.shape.dim):
            free = freed(place, dim.dim_value if dim.HasField("dim_value") else None, axes)
            if isinstance(free, str):
                dim.dim_param = free
    del graph.value_info[:]  # shapes of everything between, for the old sizes
    ids = next((value.name for value in inputs if "input" in value.name and "mask" not in value.name), inputs[0].name)
    _Rewriting(model, axes, ids).run()
    return bytes(model.SerializeToString())


class _Rewriting:
    """One pass over a graph: nodes keep their order, and what they newly need is put in front of them."""

    def __init__(self, model: ModelProto, axes: Axes, ids: str) -> None:
        self._graph, self._axes = model.graph, axes
        self._constants: dict[str, TensorProto] = {tensor.name: tensor for tensor in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type == "Constant" and node.attribute[0].HasField("t"):
                self._constants[node.output[0]] = node.attribute[0].t
        ports = next(value for value in model.graph.input if value.name == ids).type.tensor_type.shape.dim
        # What is not made to vary still tells the tables of masks from others.
        self._batch, self._length = (axes.batch or ports[0].dim_value), (axes.length or ports[1].dim_value)
        self._makers = {node.output[0]: node for node in model.graph.node if node.output}
        self._new: list[NodeProto] = []
        self._made: dict[tuple[object, ...], str] = {}
        self._shape = self._add("Shape", [ids])

    def run(self) -> None:
        """Rewrite the graph in place."""
        kept = []
        for node in self._graph.node:
            self._read_mask(node)
            for place in _COUNTERS.get(node.op_type, ()):
                self._replace(node, place, self._rows)
            for place in _SHAPES.get(node.op_type, ()):
                self._replace(node, place, partial(self._sizes, node.op_type))
            for place in _TABLES.get(node.op_type, ()):
                self._replace(node, place, self._cut)
            kept += [*self._new, node]
            self._new = []
        del self._graph.node[:]
        self._graph.node.extend(kept)

    def _read_mask(self, node: NodeProto) -> None:
        """transformers 5 looks the mask up by stored (row, position) pairs, or in its flattened form by their numbers.
        The result is the mask itself with two axes put in."""
        if node.op_type not in ("Gather", "GatherND") or len(node.input) != 2:
            return
        table, source = self._constants.get(node.input[1]), node.input[0]
        fixed = (self._batch, 1, 1, self._length)
        if table is None or tuple(table.dims) not in (fixed, (*fixed, 2)):
            return
        if node.op_type == "Gather":
            maker = self._makers.get(source)
            if maker is None or maker.op_type != "Reshape":
                return
            source = maker.input[0]
        node.op_type = "Reshape"
        del node.input[:], node.attribute[:]
        node.input.extend([source, self._numbers([0, 1, 1, -1])])

    def _replace(self, node: NodeProto, place: int, by: Callable[[str, TensorProto], str | None]) -> None:
        tensor = self._constants.get(node.input[place]) if place < len(node.input) else None
        if tensor is not None and (found := by(node.input[place], tensor)) is not None:
            node.input[place] = found

    def _rows(self, name: str, tensor: TensorProto) -> str | None:
        """A column of the rows' numbers, as long as the real batch."""
        if self._axes.batch is None or tensor.data_type != 7 or len(tensor.dims) < 2:  # int64
            return None
        if tuple(tensor.dims) != (self._axes.batch, *[1] * (len(tensor.dims) - 1)):
            return None
        ends = [self._add("Squeeze", [self._size(0)]), self._scalar(0), self._scalar(1)]
        numbers = self._add("Range", [ends[1], ends[0], ends[2]])
        return self._add("Reshape", [numbers, self._numbers([-1] + [1] * (len(tensor.dims) - 1))])

    def _sizes(self, op: str, name: str, tensor: TensorProto) -> str | None:
        """A stored shape with the inputs' real sizes in it; None where it names none of the fixed ones."""
        values = _shape_values(tensor)
        if values is None:
            return None
        if values == [self._batch * self._length]:
            return self._number(-1)
        lengths = [place for place, value in enumerate(values) if place > 0 and value == self._axes.length]
        if op == "Reshape":  # heads as wide as the sequence: it is the axis after the batch, or in keys the last
            lengths = lengths[:1] if 1 in lengths else lengths[-1:]
        sizes = {place: self._size(1) for place in lengths}
        if values[:1] == [self._axes.batch]:
            sizes[0] = self._size(0)
        if len(values) < 2 or not sizes:
            return None
        names = [sizes.get(place) or self._number(value) for place, value in enumerate(values)]
        return self._add("Concat", names, axis=0)

    def _cut(self, name: str, tensor: TensorProto) -> str | None:
        """A stored table cut to the sequence along the axes that are as long as the fixed one; None where none is.

        Vectors of numbers are left alone: those are biases.
        """
        axes = [axis for axis, size in enumerate(tensor.dims) if size == self._axes.length and size > 1]
        if len(tensor.dims) == 3 and 1 in axes and tensor.data_type in _FLOATS:
            axes = [1]  # vectors by position, as wide as the sequence is long
        if not axes or (len(tensor.dims) == 1 and tensor.data_type not in (6, 7)):  # int32, int64
            return None
        starts, ends = [self._number(0)], [self._size(1)]
        count = len(axes)
        start = starts[0] if count == 1 else self._add("Concat", starts * count, axis=0)
        end = ends[0] if count == 1 else self._add("Concat", ends * count, axis=0)
        return self._add("Slice", [name, start, end, self._numbers(axes)])

    def _size(self, axis: int) -> str:
        """The real size of the ids' axis, as a vector of one."""
        return self._add("Gather", [self._shape, self._number(axis)], axis=0)

    def _number(self, value: int) -> str:
        return self._numbers([value])

    def _numbers(self, values: list[int]) -> str:
        return self._store(f"{_OURS}{'_'.join(map(str, values))}", [len(values)], values)

    def _scalar(self, value: int) -> str:
        return self._store(f"{_OURS}scalar_{value}", [], [value])

    def _store(self, name: str, dims: list[int], values: list[int]) -> str:
        from onnx import TensorProto, helper

        if name not in self._constants:
            tensor = helper.make_tensor(name, TensorProto.INT64, dims, values)
            self._graph.initializer.append(tensor)
            self._constants[name] = tensor
        return name

    def _add(self, op: str, inputs: list[str], axis: int | None = None) -> str:
        """A new node, or the same one made before; the name of its output."""
        from onnx import helper

        key = (op, *inputs)
        if key not in self._made:
            self._made[key] = f"{_OURS}{op}_{len(self._made)}"
            given: dict[str, Any] = {} if axis is None else {"axis": axis}
            self._new.append(helper.make_node(op, inputs, [self._made[key]], name=self._made[key], **given))
        return self._made[key]


def _shape_values(tensor: TensorProto) -> list[int] | None:
    """The entries of a stored shape; None for what is none, or lies outside the file."""
    from onnx import numpy_helper

    if tensor.data_type != 7 or len(tensor.dims) != 1 or tensor.data_location == 1:  # int64; external
        return None
    if math.prod(tensor.dims) > _LONGEST_SHAPE:
        return None
    values: NDArray[np.int64] = numpy_helper.to_array(tensor)
    return [int(value) for value in values]
