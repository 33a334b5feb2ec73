"""The measured limits of a machine as a table on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from ftprof.profiler.record import Machine
from ftprof.reports.clean import visible


def render_machine(machine: Machine, console: Console) -> None:
    """Print compute peaks, the bandwidth curve and the cost of an op."""
    console.print(f"{visible(machine.cpu)}, {machine.threads} of {machine.cores} cores used", markup=False)
    table = Table("limit", "measured", box=None, pad_edge=False)
    for dtype, rate in machine.flops_per_s.items():
        unit = "GOP/s" if dtype == "int8" else "GFLOP/s"
        table.add_row(f"matrix product, {dtype}", f"{rate / 1e9:.0f} {unit}")
    for point in machine.bandwidth:
        size = f"{point.working_set_bytes / 2**20:.0f} MiB"
        table.add_row(f"read bandwidth, {point.dtype}, {size}", f"{point.bytes_per_s / 1e9:.1f} GB/s")
    if gain := machine.thread_gain:
        for what, by_dtype in (("matrix product", gain.compute), ("reading", gain.memory)):
            for dtype, times in by_dtype.items():
                table.add_row(f"{machine.threads} threads against one, {what}, {dtype}", f"{times:.2f}x")
    table.add_row("one small op", f"{machine.dispatch_s * 1e6:.2f} µs")
    table.add_row("memory", f"{machine.memory_bytes / 2**30:.1f} GiB")
    console.print(table)
    console.print(f"instruction sets: {', '.join(machine.isa) or 'unknown'}", markup=False)
    console.print(f"fingerprint {machine.fingerprint[:16]}, measured in {machine.measured_in_s:.1f} s", markup=False)
