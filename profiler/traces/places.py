"""Where each kernel comes from: one table of (kernel, op with shapes, module type, line), so that rules have evidence."""

from __future__ import annotations

import numpy as np

from ftprof.profiler.traces import schema, taxonomy
from ftprof.profiler.traces.attribution import op_row
from ftprof.profiler.traces.intervals import Ints
from ftprof.profiler.traces.partition import seconds
from ftprof.profiler.traces.python_lines import at, line_texts
from ftprof.profiler.traces.scope import Scope, totals_by
from ftprof.profiler.traces.tables import Place

# A rule names the worst few; the rest of the time is in the tables by kernel, op and module.
_MOST_PLACES = 200


def places(scope: Scope) -> tuple[Place, ...]:
    """By time, the longest first; op, module and line are None where the trace does not tell."""
    if not len(scope.rows):
        return ()
    host = scope.trace.host
    op, module = scope.links.op[scope.rows], scope.links.module[scope.rows]
    launch = scope.links.launch[scope.rows]
    frame = at(scope.links.host_line, np.where(launch >= 0, launch, op))
    columns = (at(host.name, op), at(host.shape, op), at(host.stack, op), at(host.name, module), at(host.name, frame))
    key = _numbered(scope.trace.device.name[scope.rows], *columns)
    keys, counts, sums = totals_by(key, scope.durations)
    example = {value: row for row, value in reversed(list(enumerate(key.tolist())))}
    outer = scope.links.host_outer_op
    whole = max(int(scope.durations.sum()), 1)
    table = zip(keys[:_MOST_PLACES].tolist(), counts.tolist(), sums.tolist(), strict=False)
    return tuple(
        _place(scope, example[value], outer, frame[example[value], None], count, total, whole)
        for value, count, total in table
    )


def _numbered(first: Ints, *more: Ints) -> Ints:
    """One number for each combination of values."""
    key = first
    for column in more:
        key = np.unique(key, return_inverse=True, return_index=True)[2] * (int(column.max(initial=0)) + 2) + column + 1
    return key


def _place(scope: Scope, row: int, outer: Ints, frame: Ints, count: int, total: int, whole: int) -> Place:
    trace, names = scope.trace, scope.trace.names
    kernel = names[trace.device.name[scope.rows[row]]]
    op, module = int(scope.links.op[scope.rows[row]]), int(scope.links.module[scope.rows[row]])
    made = op_row(scope, op, int(outer[op]), count, total, whole) if op >= 0 else None
    found = schema.MODULE.fullmatch(names[trace.host.name[module]]) if module >= 0 else None
    return Place(
        kernel=kernel,
        kind=taxonomy.kernel_class(kernel),
        tensor_core=taxonomy.tensor_core(kernel),
        misaligned=taxonomy.is_misaligned(kernel),
        op=made.name if made else None,
        outer=made.outer if made else None,
        shapes=made.shapes if made else None,
        dtypes=made.dtypes if made else None,
        module=found["type"] if found else None,
        line=line_texts(trace, frame, scope.links.op[scope.rows[row], None])[0],
        calls=count,
        total_s=seconds(total),
        share=total / whole,
    )
