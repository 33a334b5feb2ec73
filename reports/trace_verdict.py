"""What limits the device in a trace, in one or two sentences, and how far that can be believed."""

from __future__ import annotations

from typing import Literal

import msgspec

from ftprof.profiler.traces.model import FileAnalysis, Partition
from ftprof.reports import units
from ftprof.reports.trace_names import place

Limit = Literal[
    "kernels", "communication", "copies", "host", "launches", "data loading", "synchronisation", "unknown", "no device"
]

PART_NAMES = {
    "compute": "kernels",
    "communication": "collectives",
    "copies": "copies",
    "synchronisation": "idle in synchronising calls",
    "copy_calls": "idle in copying calls",
    "data_loading": "idle while data are loaded",
    "launch_latency": "idle from launch to start",
    "host_wait": "idle while the host does other work",
    "unexplained": "idle, not explained by this trace",
}
CLASS_NAMES = {
    "gemm": "matrix products",
    "norm": "norms",
    "memcpy": "copies",
    "memset": "fills",
    "fill": "fill kernels",
    "reduction": "reductions",
    "rotary": "rotary embeddings",
    "moe": "expert routing",
    "quantise": "quantising and dequantising",
    "lora": "LoRA kernels",
    "optimiser": "optimiser kernels",
    "copy": "copy kernels",
    "cast": "type conversions",
    "elementwise": "element-wise kernels",
    "convolution": "convolutions",
    "collective": "collectives",
    "gather": "gathers and embeddings",
    "graph": "whole graphs",
    "other": "kernels of no known class",
}
_GROUPS: dict[Limit, tuple[str, ...]] = {
    "kernels": ("compute",),
    "communication": ("communication",),
    "copies": ("copies", "copy_calls"),
    "data loading": ("data_loading",),
    "synchronisation": ("synchronisation",),
    "host": ("host_wait", "launch_latency"),
    "unknown": ("unexplained",),
}
_TITLES: dict[Limit, str] = {
    "kernels": "Limited by the device's kernels",
    "communication": "Limited by communication between devices",
    "copies": "Limited by copies",
    "host": "Waiting for the host",
    "launches": "Waiting for launches",
    "data loading": "Waiting for data",
    "synchronisation": "Waiting at synchronisation",
    "unknown": "Not decidable from this trace",
    "no device": "No GPU work in this trace",
}
# An idle part below this is not worth a word beside the limit.
_WORTH_A_WORD = 0.05


class TraceVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """`title` names the limit, `sentences` say it with figures; `percentages` are of the window and sum to 100.0.

    `doubts` are the health findings that lower the confidence, `absent` what this trace does not hold.
    """

    limit: Limit
    title: str
    sentences: tuple[str, ...]
    percentages: dict[str, float]
    confidence: Literal["high", "medium", "low"]
    doubts: tuple[str, ...]
    absent: tuple[str, ...]


def judge(file: FileAnalysis) -> TraceVerdict:
    """The verdict on one file."""
    limit = _limit(file)
    split = file.window.partition
    return TraceVerdict(
        limit=limit,
        title=_TITLES[limit],
        sentences=_sentences(file, limit),
        percentages=percentages(split) if split else {},
        confidence=file.health.confidence,
        doubts=tuple(check.sentence for check in file.health.checks if check.verdict != "ok"),
        absent=_absent(file),
    )


def percentages(split: Partition) -> dict[str, float]:
    """The parts in per cent to one decimal, by largest remainder, so that they sum to exactly 100.0; {} of no time."""
    if split.total_s <= 0:
        return {}
    exact = {name: 1000 * part / split.total_s for name, part in split.parts().items()}
    tenths = {name: int(value) for name, value in exact.items()}
    rest = 1000 - sum(tenths.values())
    for name in sorted(exact, key=lambda name: tenths[name] - exact[name])[:rest]:
        tenths[name] += 1
    return {name: value / 10 for name, value in tenths.items()}


def class_name(kind: str) -> str:
    """A class of kernels in words."""
    return CLASS_NAMES.get(kind, kind)


def _limit(file: FileAnalysis) -> Limit:
    split = file.window.partition
    if split is None:
        return "no device"
    if split.total_s <= 0:
        return "unknown"
    sums = _groups(split)
    # Without a host side idle time has no reasons, but a device that is busy for most of the time needs none.
    if file.window.busy_share is None and (file.health.has_host or split.busy_s <= split.idle_s):
        return "unknown"
    largest = max(sums, key=lambda name: sums[name])
    launches = file.device.launches if file.device else None
    return "launches" if largest == "host" and launches and _eager(file, split) else largest


def _groups(split: Partition) -> dict[Limit, float]:
    parts = split.parts()
    return {limit: sum(parts[name] for name in names) for limit, names in _GROUPS.items()}


def _eager(file: FileAnalysis, split: Partition) -> bool:
    """Launch-bound: the host's time goes by launch after launch, not in a few long pauses."""
    launches = file.device.launches if file.device else None
    if launches is None or launches.bound != "launch" or not launches.calls:
        return False
    # Above this a launch the host does something other than launch; eager PyTorch takes 5 to 100 us an op.
    return split.host_wait_s / launches.calls <= 200e-6


def _sentences(file: FileAnalysis, limit: Limit) -> tuple[str, ...]:
    split = file.window.partition
    if split is None:
        return (_host_only(file),)
    if split.total_s <= 0:
        return ("The judged time has no length, so nothing can be said of it.",)
    shares = percentages(split)
    busy = sum(shares[name] for name in ("compute", "communication", "copies"))
    idle = 100 - busy
    return (_first(file, limit, busy, idle, shares), _split(file, shares))


def _first(file: FileAnalysis, limit: Limit, busy: float, idle: float, shares: dict[str, float]) -> str:
    of = f"of {_window(file)}"
    if limit == "unknown" and not file.health.has_host:
        return f"The device is busy {busy:.1f}% {of}; why it is idle {idle:.1f}% cannot be said without a host side."
    if limit == "unknown":
        return f"{shares['unexplained']:.1f}% {of} is idle for reasons that this trace does not hold, so what limits the device cannot be said."
    if limit == "kernels":
        return f"The device is busy {busy:.1f}% {of}, {_mostly(file)}.{_largest_wait(shares)}"
    if limit == "communication":
        return f"Collectives that no other kernel overlaps take {shares['communication']:.1f}% {of}; the device is busy {busy:.1f}% in all."
    if limit == "copies":
        return f"Copies, and the calls that wait for them, take {shares['copies'] + shares['copy_calls']:.1f}% {of} beside no kernel."
    waits = {
        "host": f": it waits for the host, {_host_work(file)}",
        "launches": ": it waits for the host, which launches kernels one by one",
        "data loading": ", mostly waiting for input data",
        "synchronisation": ", mostly while the host waits in synchronising calls",
    }
    return f"The device is idle {idle:.1f}% {of}{waits[limit]}.{_launching(file, limit)}"


def _host_work(file: FileAnalysis) -> str:
    """Where most of the host's time goes meanwhile."""
    split = file.window.partition
    if split is None:
        return "whose work was not recorded"
    parts = {
        "most of the time in its ops": split.ops_s,
        "most of the time in Python": split.python_s,
        "most of the time in runtime calls": split.runtime_calls_s,
        "most of the time in calls for memory": split.allocator_s,
        "whose work was mostly not recorded": split.unrecorded_s,
    }
    return max(parts, key=lambda name: parts[name])


def _launching(file: FileAnalysis, limit: Limit) -> str:
    launches = file.device.launches if file.device else None
    if limit != "launches" or launches is None or launches.kernel_median_s is None:
        return ""
    return f" Its median kernel takes {units.duration(launches.kernel_median_s)}."


def _mostly(file: FileAnalysis) -> str:
    top = next((row for row in file.device.classes if row.share_of_kernels is not None), None) if file.device else None
    if top is None or top.share_of_kernels is None:
        return "with no kernels that can be named"
    return f"most of it with {class_name(top.kind)} ({units.percent(top.share_of_kernels)} of kernel time)"


def _largest_wait(shares: dict[str, float]) -> str:
    idle = {name: share for name, share in shares.items() if name not in ("compute", "communication", "copies")}
    name = max(idle, key=lambda name: idle[name])
    return f" The largest wait: {PART_NAMES[name]}, {idle[name]:.1f}%." if idle[name] >= 100 * _WORTH_A_WORD else ""


def _split(file: FileAnalysis, shares: dict[str, float]) -> str:
    ordered = sorted((name for name in shares if shares[name]), key=lambda name: -shares[name])
    return f"Of {_window(file)}: " + ", ".join(f"{shares[name]:.1f}% {PART_NAMES[name]}" for name in ordered) + "."


def _window(file: FileAnalysis) -> str:
    if not file.window.steps:
        return "the recorded time"
    return "the step" if file.window.steps == 1 else f"{file.window.steps} steps"


def _host_only(file: FileAnalysis) -> str:
    host = file.host
    if host is None or not host.span_s:
        return "Only names and times of a few host events are here; nothing can be judged."
    top = f"; of all threads' ops {place(host.top[0].name)} took longest" if host.top else ""
    return (
        f"Only the host side can be judged: in {units.duration(host.span_s)} the main thread spent "
        f"{units.percent(host.ops_s / host.span_s)} in recorded ops{top}."
    )


def _absent(file: FileAnalysis) -> tuple[str, ...]:
    """What a reader may look for in vain, with what would have recorded it."""
    device, health = file.device, file.health
    ops = (device.ops if device else None) or ()
    told = bool(file.source.with_stack or file.source.record_shapes or any(row.shapes for row in ops))
    rows = (
        (not health.has_device, "GPU kernels and copies (record with ProfilerActivity.CUDA)"),
        (not health.has_host, "the host side: why the device was idle (record with ProfilerActivity.CPU)"),
        (health.has_host and not health.has_launches, "launch calls: launch delays"),
        (not file.steps, "steps (call profiler.step() at the end of each)"),
        (not file.phases, "prefill and decode"),
        (bool(device) and not any(row.shapes for row in ops), "shapes (record with record_shapes=True)"),
        (
            bool(device) and not (device and device.modules),
            "modules (record with with_stack=True or with_modules=True)",
        ),
        (bool(device) and not (device and device.lines), "Python lines (record with with_stack=True)"),
        (file.lora is None, "LoRA work" if told else "LoRA work (without shapes and stacks it could not be told)"),
    )
    return tuple(text for missing, text in rows if missing)
