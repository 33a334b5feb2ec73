"""Whether the adapter may go into the weights: merging itself and every conversion to another runtime need that. Pure."""

from __future__ import annotations

from ftprof.profiler.record import RunRecord


def unmergeable(record: RunRecord) -> str | None:
    """Why the attached adapter must stay apart, or None where there is none or it may be merged."""
    if record.adapter is None:
        return None
    if record.workload is not None and record.workload.call.keep_adapter:
        return "the call file says that adapters are switched at run time (keep_adapter), and merging would freeze one"
    return "; ".join(record.adapter.blockers) or None
