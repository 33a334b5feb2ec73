"""The host side of the window, on its own: what a trace without device work can still tell."""

from __future__ import annotations

import numpy as np

from ftprof.profiler.traces import schema
from ftprof.profiler.traces.intervals import Marks, clip, distinct, union
from ftprof.profiler.traces.partition import seconds
from ftprof.profiler.traces.scope import Scope, totals_by
from ftprof.profiler.traces.tables import Host, HostOp

_MOST_OPS = 30


def host_side(scope: Scope) -> Host | None:
    """Times of the main thread by kind, and the ops with most self time on all threads; None without host events."""
    host = scope.trace.host
    if not len(host):
        return None
    mine = host.thread == scope.main
    return Host(
        threads=len(distinct(host.thread)),
        main_thread=scope.trace.threads[scope.main],
        span_s=seconds(int((host.end[mine].max() - host.start[mine].min()) if mine.any() else 0)),
        ops=int((host.kind[scope.calls] == schema.HostKind.OP).sum()),
        ops_s=_covered(scope, mine & (host.kind == schema.HostKind.OP)),
        runtime_calls_s=_covered(scope, mine & (host.kind == schema.HostKind.RUNTIME)),
        synchronisation_s=_covered(scope, mine & scope.kinds.rows["synchronisation"]),
        data_loading_s=_covered(scope, mine & scope.kinds.rows["data_loading"]),
        top=_top(scope),
    )


def _covered(scope: Scope, marks: Marks) -> float:
    host = scope.trace.host
    return seconds(clip(union(host.start[marks], host.end[marks]), scope.low, scope.high).total)


def _top(scope: Scope) -> tuple[HostOp, ...]:
    """Self time: where the op, or something in it that is no op, was innermost."""
    found, host = scope.links.nest, scope.trace.host
    leaves = np.minimum(found.leaf_end, scope.high) - np.maximum(found.leaf_start, scope.low)
    op = scope.links.host_op[found.leaf_owner] if len(found.leaf_owner) else found.leaf_owner
    inside = (op >= 0) & (leaves > 0)
    keys, _, sums = totals_by(host.name[op[inside]], leaves[inside])
    called = scope.calls[host.kind[scope.calls] == schema.HostKind.OP]
    counts = np.bincount(host.name[called], minlength=len(scope.trace.names))
    return tuple(
        HostOp(name=scope.trace.names[key], calls=int(counts[key]), self_s=seconds(total))
        for key, total in zip(keys[:_MOST_OPS].tolist(), sums.tolist(), strict=False)
    )
