"""Which launch call put each piece of device work onto its stream, and what that call lay in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ftprof.profiler.traces import schema
from ftprof.profiler.traces.columns import Trace
from ftprof.profiler.traces.intervals import Ints
from ftprof.profiler.traces.nests import Nest, nearest, nest, outermost
from ftprof.profiler.traces.python_lines import lines


@dataclass(frozen=True, slots=True)
class Links:
    """Rows of host events by row of device work, -1 where the trace does not tell.

    `op` is the lowest op that launched it, `module` the innermost nn.Module call around the launch. `host_op` and
    `host_module` are the same for every host event, `host_outer_op` is its outermost op, `host_line` the Python frame
    outside torch nearest to it.
    """

    nest: Nest
    launch: Ints
    op: Ints
    module: Ints
    host_op: Ints
    host_module: Ints
    host_outer_op: Ints
    host_line: Ints


def link(trace: Trace) -> Links:
    """Joins device work to launches by correlation id (one graph launch owns many kernels), then to ops and modules."""
    host, device = trace.host, trace.device
    found = nest(host)
    op = nearest(host.kind == schema.HostKind.OP, found)
    module = nearest((host.kind == schema.HostKind.PYTHON) & trace.named(schema.MODULE), found)
    launch = _launches(trace)
    by_launch = np.where(launch >= 0, op[launch] if len(op) else -1, -1)
    by_id = _by_external(trace)
    kernel_op = np.where(by_launch >= 0, by_launch, by_id)
    around = np.where(launch >= 0, launch, kernel_op)
    kernel_module = np.where(around >= 0, module[around] if len(module) else -1, -1)
    assert len(launch) == len(device)
    outer = outermost(host.kind == schema.HostKind.OP, found)
    return Links(found, launch, kernel_op, kernel_module, op, module, outer, lines(trace, found))


def _launches(trace: Trace) -> Ints:
    """The runtime call with the same correlation id; where ids repeat, the last call that began before the work."""
    host, device = trace.host, trace.device
    calls = np.flatnonzero((host.kind == schema.HostKind.RUNTIME) & (host.correlation > 0))
    if not len(calls) or not len(device):
        return np.full(len(device), -1, dtype=np.int64)
    calls = calls[np.argsort(host.correlation[calls], kind="stable")]
    ids = host.correlation[calls]
    first = np.searchsorted(ids, device.correlation, side="left")
    last = np.searchsorted(ids, device.correlation, side="right")
    result = np.where(last > first, calls[np.minimum(first, len(calls) - 1)], -1)
    for row in np.flatnonzero(last - first > 1):
        same = calls[first[row] : last[row]]
        launching = same[[bool(schema.LAUNCH_CALL.match(trace.names[host.name[call]])) for call in same]]
        same = launching if len(launching) else same
        before = same[host.start[same] <= device.start[row]]
        result[row] = before[-1] if len(before) else same[0]
    return result


def _by_external(trace: Trace) -> Ints:
    """The op with the same external id."""
    host, device = trace.host, trace.device
    ops = np.flatnonzero((host.kind == schema.HostKind.OP) & (host.external > 0))
    if not len(ops) or not len(device):
        return np.full(len(device), -1, dtype=np.int64)
    ops = ops[np.argsort(host.external[ops], kind="stable")]
    at = np.minimum(np.searchsorted(host.external[ops], device.external), len(ops) - 1)
    return np.where(host.external[ops[at]] == device.external, ops[at], -1)
