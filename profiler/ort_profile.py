"""ONNX Runtime's own profile: its runs of a model, and their operators totalled as the torch trace totals its ops.

The profile is the JSON file that a session with `enable_profiling` leaves when it ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from ftprof.profiler import ort_opcost
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.nesting import nest
from ftprof.profiler.op_totals import KEPT_ROWS
from ftprof.profiler.opcost import Cost
from ftprof.profiler.ort_opcost import Call, Packed, Tensor
from ftprof.profiler.record import Accuracy, OpTotal, OpTrace, Phase

_KERNEL = "_kernel_time"
_MEMCPY = frozenset({"MemcpyFromHost", "MemcpyToHost"})
# How ONNX Runtime names the casts that it puts around nodes that have no kernel for their element type.
_INSERTED_CAST = "InsertedPrecisionFreeCast_"


class _Args(msgspec.Struct, frozen=True):
    op_name: str | None = None
    provider: str = ""
    input_type_shape: list[dict[str, list[int]]] = []
    output_type_shape: list[dict[str, list[int]]] = []


class _Event(msgspec.Struct, frozen=True):
    cat: str
    name: str
    ts: int = 0
    dur: int = 0
    args: _Args = _Args()


class NodeRun(NamedTuple):
    """One execution of a node. Times in nanoseconds on the profile's own clock, at its resolution of 1 microsecond."""

    name: str
    op: str
    provider: str
    start_ns: int
    end_ns: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


class ModelRun(NamedTuple):
    """One call of the session: nanoseconds on the profile's own clock, and its nodes in order of start."""

    start_ns: int
    end_ns: int
    nodes: tuple[NodeRun, ...]

    @property
    def seconds(self) -> float:
        """Wall time of the call."""
        return (self.end_ns - self.start_ns) / 1e9


class ForeignNodes(NamedTuple):
    """Names of nodes that ran elsewhere than asked, and of casts and copies that ONNX Runtime put in itself."""

    other_provider: tuple[str, ...]
    inserted: tuple[str, ...]


def read_runs(path: Path) -> list[ModelRun]:
    """The runs of a profile in the order they were made, warm-ups included. FtprofError if it is not a profile."""
    try:
        events = msgspec.json.decode(path.read_bytes(), type=list[_Event])
    except (OSError, msgspec.DecodeError) as error:
        raise FtprofError(f"cannot read the ONNX Runtime profile {path}: {error}", "profile the model again") from error
    nodes = sorted(
        (_node(event) for event in events if event.cat == "Node" and event.name.endswith(_KERNEL)),
        key=lambda node: (node.start_ns, -node.end_ns),
    )
    starts = [node.start_ns for node in nodes]
    spans = sorted((event.ts * 1000, event.dur * 1000) for event in events if event.name == "model_run")
    return [
        ModelRun(start, start + dur, tuple(nodes[bisect_left(starts, start) : bisect_left(starts, start + dur)]))
        for start, dur in spans
    ]


def _node(event: _Event) -> NodeRun:
    args = event.args
    return NodeRun(
        name=event.name.removesuffix(_KERNEL),
        op=args.op_name or "",
        provider=args.provider,
        start_ns=event.ts * 1000,
        end_ns=(event.ts + event.dur) * 1000,
        inputs=_tensors(args.input_type_shape),
        outputs=_tensors(args.output_type_shape),
    )


def _tensors(given: Sequence[Mapping[str, Sequence[int]]]) -> tuple[Tensor, ...]:
    return tuple(Tensor(dtype, tuple(shape)) for entry in given for dtype, shape in entry.items())


def packed_nodes(graph: Path) -> dict[str, Packed]:
    """Bits of each MatMulNBits node of an ONNX file by the node's name; external weights are not read."""
    import onnx

    found = {}
    for node in onnx.load(str(graph), load_external_data=False).graph.node:
        if node.op_type == "MatMulNBits":
            numbers = {attribute.name: attribute.i for attribute in node.attribute}
            # Level 4 asks for 8-bit activations; 0 leaves it to the kernel, which on CPUs is fp32.
            found[node.name] = Packed(int(numbers.get("bits", 4)), numbers.get("accuracy_level", 0) == 4)
    return found


def foreign_nodes(runs: Sequence[ModelRun], provider: str) -> ForeignNodes:
    """What did not run on `provider` (`CPUExecutionProvider`, ...), and what was inserted; in order of first sight."""
    nodes = [node for run in runs for node in run.nodes]
    elsewhere = [node.name for node in nodes if node.provider and node.provider != provider]
    inserted = [node.name for node in nodes if node.op in _MEMCPY or node.name.startswith(_INSERTED_CAST)]
    return ForeignNodes(tuple(dict.fromkeys(elsewhere)), tuple(dict.fromkeys(inserted)))


@dataclass(slots=True)
class _Row:
    """Running total of one op, shapes and element type."""

    calls: int = 0
    self_ns: int = 0
    flops: float | None = 0.0
    bytes: float | None = 0.0
    accuracy: Accuracy = "exact"

    def add(self, self_ns: int, cost: Cost, calls: int = 1) -> None:
        self.calls += calls
        self.self_ns += self_ns
        self.flops = None if self.flops is None or cost.flops is None else self.flops + cost.flops
        self.bytes = None if self.bytes is None or cost.bytes is None else self.bytes + cost.bytes
        self.accuracy = max(self.accuracy, cost.accuracy, key=("exact", "estimated", "unknown").index)


_Key = tuple[str, str, str, str]
"""Op type, kind, shapes, element type."""


def op_trace(
    runs: Sequence[ModelRun],
    *,
    scenario: str,
    phase: Phase,
    untraced_s: float,
    occurrences: int,
    beside_s: float | None = None,
    wall_s: float | None = None,
    packed: Mapping[str, Packed] | None = None,
    contexts: Sequence[int] | None = None,
) -> OpTrace:
    """Totals of one phase per occurrence, on the scale of `untraced_s` (seconds per occurrence).

    `runs` are all runs of the phase and `occurrences` how often it occurred in them; `wall_s` is the traced wall time
    of all of it, by default that of the runs. `beside_s` is what an untraced occurrence took beside the traced ones
    (default `untraced_s`): times are scaled by `untraced_s` over it, because the machine's speed drifts. Recording
    happens between nodes, so what the traced run took longer comes off the time between them, which is `host_s`.
    `packed` are the graph's MatMulNBits nodes; `contexts[i]` is how many keys attention looks at in `runs[i]`.
    """
    rows: dict[_Key, _Row] = {}
    top_ns = sum(_add_run(rows, run, packed or {}, contexts[at] if contexts else None) for at, run in enumerate(runs))
    beside = beside_s if beside_s else untraced_s
    scale = untraced_s / beside if beside > 0 else 1.0
    wall = sum(run.seconds for run in runs) if wall_s is None else wall_s
    recording = max(0.0, wall - occurrences * beside)
    between = max(0.0, wall - top_ns / 1e9 - recording)
    return OpTrace(
        scenario=scenario,
        phase=phase,
        ops=_totals(rows, scale, occurrences),
        host_s=between * scale / occurrences,
        traced_s=wall * scale / occurrences,
        untraced_s=untraced_s,
        events=sum(len(run.nodes) for run in runs),
    )


def _add_run(rows: dict[_Key, _Row], run: ModelRun, packed: Mapping[str, Packed], context: int | None) -> int:
    """Add a run's nodes, without what nodes inside them (loops, branches) took; nanoseconds of the outermost."""
    top_ns = 0
    found = nest([(node.start_ns, node.end_ns) for node in run.nodes])
    for node, place in zip(run.nodes, found, strict=True):
        call = Call(node.op, node.inputs, node.outputs, packed.get(node.name), context)
        key = (node.op, ort_opcost.kind(node.op, node.inputs), ort_opcost.spell(call), ort_opcost.dtype(call))
        rows.setdefault(key, _Row()).add(place.self_ns, ort_opcost.cost(call))
        if place.parent < 0:
            top_ns += place.end - place.start
    return top_ns


def _totals(rows: Mapping[_Key, _Row], scale: float, occurrences: int) -> tuple[OpTotal, ...]:
    """Rows per occurrence, largest first; the tail is joined over its shapes."""
    ranked = sorted(rows.items(), key=lambda item: -item[1].self_ns)
    tail: dict[_Key, list[_Row]] = {}
    for (op, kind, _, dtype), row in ranked[KEPT_ROWS:]:
        tail.setdefault((op, kind, "", dtype), []).append(row)
    joined = [((op, kind, f"{len(group)} shapes", dtype), _join(group)) for (op, kind, _, dtype), group in tail.items()]
    return tuple(_total(key, row, scale, occurrences) for key, row in (*ranked[:KEPT_ROWS], *joined))


def _join(group: Sequence[_Row]) -> _Row:
    total = _Row()
    for row in group:
        total.add(row.self_ns, Cost(row.flops, row.bytes, row.accuracy), row.calls)
    return total


def _total(key: _Key, row: _Row, scale: float, occurrences: int) -> OpTotal:
    name, kind, shapes, dtype = key
    return OpTotal(
        name=name,
        kind=kind,
        shapes=shapes,
        dtype=dtype,
        calls=row.calls / occurrences,
        self_s=row.self_ns / 1e9 * scale / occurrences,
        flops=None if row.flops is None else row.flops / occurrences,
        bytes=None if row.bytes is None else row.bytes / occurrences,
        accuracy=row.accuracy,
    )
