"""What fills the memory of the process that runs the model, at its peak."""

from __future__ import annotations

from functools import partial

from ftprof.advisors.audit import Audit
from ftprof.reports import fact_tables, figures, units
from ftprof.reports.chart import Chart, made
from ftprof.reports.palette import Paint

PARTS = {
    "before": Paint(letter="B", label="before the model (Python, libraries)"),
    "weights": Paint(letter="W", label="weights", light="#3c9adb", dark="#75ace1"),
    "adapter": Paint(letter="A", label="adapter", light="#350d22", dark="#c50e61", hatch="xx"),
    "rest": Paint(letter="R", label="the rest up to the peak", light="#c37f51", dark="#f29c2b", hatch="//"),
}


def memory(audit: Audit) -> Chart | None:
    """The peak by what is known of it; None where it was not measured."""
    seen = audit.model.memory
    if seen is None or seen.peak_bytes <= 0:
        return None
    known = {
        "before": seen.before_load_bytes or 0,
        "weights": seen.weight_bytes,
        "adapter": seen.adapter_bytes,
    }
    # Weights that stay in a mapped file are only partly resident: never more than the peak.
    if sum(known.values()) > seen.peak_bytes:
        return None
    parts = {**known, "rest": seen.peak_bytes - sum(known.values())}
    bar = figures.Stack(
        label="At the peak",
        end=units.size(seen.peak_bytes),
        parts={name: size / 2**20 for name, size in parts.items()},
    )
    title = f"Memory peaks at {units.size(seen.peak_bytes)}, of which the weights are {units.size(seen.weight_bytes)}"
    description = "One bar: " + "; ".join(f"{PARTS[name].label} {units.size(size)}" for name, size in parts.items())
    draw = partial(figures.stacks, [bar], PARTS, "Resident memory of the process in MiB", percent=False)
    return made("memory", title, description + ".", draw, fact_tables.memory(audit))
