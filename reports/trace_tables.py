"""The tables of a trace's report, as finished cells. Rows beyond `most` are in --json."""

from __future__ import annotations

from collections.abc import Sequence

from ftprof.advisors.trace_evidence import operands
from ftprof.advisors.trace_rule import TraceFinding
from ftprof.profiler.traces.model import FileAnalysis
from ftprof.profiler.traces.tables import DeviceSide, Gap, Place
from ftprof.reports import trace_names as names
from ftprof.reports import units
from ftprof.reports.table import Table
from ftprof.reports.trace_verdict import PART_NAMES, class_name, percentages
from ftprof.reports.wording import capital

UNKNOWN = "not in this trace"


def limited(
    caption: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]], most: int, words: int = 1, note: str = ""
) -> Table:
    """The first `most` rows, and a note on how many more --json has."""
    if len(rows) > most:
        note = f"{note} {len(rows) - most} more with --json.".strip()
    return Table(caption=caption, head=head, rows=tuple(rows[:most]), words=words, note=note)


def partition(file: FileAnalysis) -> Table:
    """The window's time, every part of it; the shares sum to 100."""
    split = file.window.partition
    head = ("Part", "Share", "Time")
    if split is None:
        return Table(caption="", head=head, rows=())
    shares, parts = percentages(split), split.parts()
    rows = [(capital(PART_NAMES[name]), f"{shares[name]:.1f}%", units.duration(parts[name])) for name in shares]
    rows.append(("Total", f"{sum(shares.values()):.1f}%", units.duration(split.total_s)))
    return Table(caption="Where the time goes", head=head, rows=tuple(rows), note=_host_wait(file))


def _host_wait(file: FileAnalysis) -> str:
    split = file.window.partition
    if split is None or not split.host_wait_s:
        return ""
    parts = {
        "in ops": split.ops_s,
        "in Python": split.python_s,
        "in runtime calls": split.runtime_calls_s,
        "in memory calls": split.allocator_s,
        "with nothing recorded": split.unrecorded_s,
    }
    texts = [f"{name} {units.duration(spent)}" for name, spent in parts.items() if spent]
    return f"Of the host's other work: {', '.join(texts)}."


def classes(device: DeviceSide, most: int) -> Table:
    """Device work by class."""
    rows = [
        (
            capital(class_name(row.kind)),
            units.percent(row.share),
            units.duration(row.total_s),
            units.count(row.calls),
        )
        for row in device.classes
    ]
    head = ("Class", "Of device work", "Time", "Calls")
    return limited("Classes of device work", head, rows, most, note=_tensor_cores(device))


def _tensor_cores(device: DeviceSide) -> str:
    cores = device.tensor_cores
    if cores is None:
        return ""
    text = f"On tensor cores: {units.percent(cores.share)} of kernel time ({units.duration(cores.yes_s)})"
    if cores.unknown_s:
        text += f", unknown for {units.duration(cores.unknown_s)}"
    if cores.eligible_no_s:
        text += f"; products, attention and convolutions beside them {units.duration(cores.eligible_no_s)}"
    misaligned = device.misaligned_share
    return text + (f"; products on unaligned operands {units.percent(misaligned)}." if misaligned else ".")


def top_places(device: DeviceSide, most: int) -> Table:
    """Kernels with the place they come from, equal places added up."""
    sums: dict[tuple[str, str, str], list[float]] = {}
    for row in device.places:
        spent = sums.setdefault((names.kernel(row.kernel), _op(row), _module(row)), [0, 0.0, 0.0])
        for index, value in enumerate((row.calls, row.total_s, row.share)):
            spent[index] += value
    ordered = sorted(sums.items(), key=lambda item: -item[1][1])
    rows = [
        (kernel, op or UNKNOWN, module or UNKNOWN, units.percent(share), units.duration(total), units.count(calls))
        for (kernel, op, module), (calls, total, share) in ordered
    ]
    head = ("Kernel", "Op", "Module or line", "Share", "Time", "Calls")
    return limited("Top places", head, rows, most, words=3, note="Shares are of all device work in the window.")


def _op(row: Place) -> str:
    return names.place(" ".join(filter(None, ((row.op or "").removeprefix("aten::"), operands(row.shapes)))))


def _module(row: Place) -> str:
    return names.place(", ".join(filter(None, (row.module, names.line(row.line)))))


def gaps(device: DeviceSide, most: int) -> Table:
    """The longest idle times and what the CPU did, those alike in one row."""
    alike: dict[tuple[str, str, str], list[float]] = {}
    for gap in device.gaps:
        alike.setdefault((capital(_cause(gap)), *_cpu(gap)), []).append(gap.length_s)
    ordered = sorted(alike.items(), key=lambda item: -sum(item[1]))
    rows = [
        (*said, units.count(len(lengths)), units.duration(max(lengths)), units.duration(sum(lengths)))
        for said, lengths in ordered
    ]
    head = ("Cause", "The CPU was in", "Python line", "Gaps", "Longest", "Together")
    note = f"Of the {len(device.gaps)} longest." if len(device.gaps) > 1 else ""
    return limited("Largest gaps", head, rows, most, words=3, note=note)


def _cpu(gap: Gap) -> tuple[str, str]:
    """What the CPU was in, and the line where that is something else."""
    cpu = names.line(gap.cpu) if gap.cpu == gap.python else names.place(gap.cpu)
    return cpu or UNKNOWN, "" if gap.cpu == gap.python else names.line(gap.python)


_CAUSES = {
    "synchronisation": "synchronising call",
    "pageable_copy_call": "pageable copy",
    "copy_call": "copying call",
    "data_loading": "data loading",
    "launch_latency": "launch to start",
    "unexplained": "not explained",
    "allocator": "memory call",
    "runtime_call": "runtime call",
    "op": "in an op",
    "python": "in Python",
    "unrecorded": "nothing recorded",
}


def _cause(gap: Gap) -> str:
    return _CAUSES.get(gap.cause, gap.cause)


def phases(file: FileAnalysis) -> Table:
    """Prefill, decode and the like."""
    rows = []
    for row in file.phases:
        split = row.partition
        busy = units.percent(split.busy_s / split.total_s) if split and split.total_s else UNKNOWN
        mean = sum(row.times_s) / row.passes
        counts = (row.kernels / row.passes, row.launches / row.passes, row.synchronisations / row.passes)
        rows.append((capital(row.phase), str(row.passes), units.duration(mean), busy, *(f"{n:.4g}" for n in counts)))
    head = ("Phase", "Passes", "Mean time", "Busy", "Kernels a pass", "Launches", "Syncs")
    return Table(caption="Phases", head=head, rows=tuple(rows))


def lora(file: FileAnalysis) -> Table:
    """The adapter's share, where the trace shows one."""
    found = file.lora
    head = ("LoRA", "Value")
    if found is None:
        return Table(caption="", head=head, rows=())
    rows = (
        ("Share of device work", f"{units.percent(found.device_share)} ({units.duration(found.device_s)})"),
        ("Time of its ops on the host", units.duration(found.host_s) if found.calls else UNKNOWN),
        ("Kernels", units.count(found.kernels)),
        ("Rank", ", ".join(map(str, found.ranks)) or UNKNOWN),
        ("Told by", found.how),
    )
    return Table(caption="The adapter", head=head, rows=rows)


def evidence(finding: TraceFinding) -> Table:
    """The rows that a finding rests on."""
    rows = tuple(
        (
            names.kernel(row.what),
            names.place(row.where),
            units.percent(row.share),
            units.duration(row.total_s) if row.total_s is not None else "",
            "" if row.calls is None else f"{units.count(row.calls)} call{'' if row.calls == 1 else 's'}",
        )
        for row in finding.evidence
    )
    return Table(caption="Evidence", head=("What", "Where", "Of the window", "Time", "Number"), rows=rows, words=2)


def host_ops(file: FileAnalysis, most: int) -> Table:
    """Ops by self time, for a trace without a device."""
    top = file.host.top if file.host else ()
    rows = [(names.place(row.name), units.duration(row.self_s), units.count(row.calls)) for row in top]
    return limited("Ops on the host by their own time", ("Op", "Time", "Calls"), rows, most)
