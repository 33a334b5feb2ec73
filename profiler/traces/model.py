"""What the analysis of a trace found. Times are seconds from the first event; absent is None, never zero."""

from __future__ import annotations

from typing import Literal

import msgspec

from ftprof.profiler.traces.tables import DeviceSide, Host, HostCall, Lora

SCHEMA_VERSION = 1
Verdict = Literal["ok", "note", "poor"]
Confidence = Literal["high", "medium", "low"]


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """The file. `clock_step_s` is the resolution of its times; flags are None where the file does not say.

    `origin_ns` is the first event's time on the file's own clock; all other times count from there.
    """

    path: str
    format: Literal["kineto", "nsys"]
    schema: str
    file_bytes: int
    events: int
    device_events: int
    host_events: int
    clock_step_s: float
    origin_ns: int
    truncated: bool
    damaged_events: int
    runtime: str | None = None
    driver: str | None = None
    rank: int | None = None
    world_size: int | None = None
    with_stack: bool | None = None
    record_shapes: bool | None = None
    profile_memory: bool | None = None


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One device that did work. `streams` are its lanes with work; only the busiest device is analysed."""

    number: int
    name: str | None
    analysed: bool
    kernels: int
    copies: int
    fills: int
    streams: int
    busy_s: float


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One question about the trace's health: the number, the limit from which it is poor, and a finished sentence."""

    name: str
    verdict: Verdict
    value: float
    sentence: str


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How far the trace can be trusted. `has_device`, `has_host` and `has_launches` say which sides it holds."""

    confidence: Confidence
    checks: tuple[Check, ...]
    has_device: bool
    has_host: bool
    has_launches: bool

    def check(self, name: str) -> Check | None:
        """The check of that name."""
        return next((check for check in self.checks if check.name == name), None)


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A window's time, split exhaustively and exclusively: the parts sum to `total_s` to the nanosecond.

    Busy parts: `compute_s` (kernels), `communication_s` (collectives beside no other kernel), `copies_s` (copies and
    fills beside no kernel). Idle parts: the thread that launches next was in a synchronising call
    (`synchronisation_s`), in a copying call (`copy_calls_s`), loading or preparing data (`data_loading_s`), or busy
    with something else (`host_wait_s`, which is split further below); `launch_latency_s` from launch call to start;
    `unexplained_s` is what the trace does not explain. `pageable_s` of the copies and copy calls were pageable.
    """

    total_s: float
    compute_s: float
    communication_s: float
    copies_s: float
    synchronisation_s: float
    copy_calls_s: float
    data_loading_s: float
    launch_latency_s: float
    host_wait_s: float
    unexplained_s: float
    pageable_s: float
    allocator_s: float
    runtime_calls_s: float
    ops_s: float
    python_s: float
    unrecorded_s: float

    @property
    def busy_s(self) -> float:
        """Time in which the device did anything."""
        return self.compute_s + self.communication_s + self.copies_s

    @property
    def idle_s(self) -> float:
        """Time in which it did nothing."""
        return self.total_s - self.busy_s

    def parts(self) -> dict[str, float]:
        """The nine parts that sum to the total."""
        return {name: getattr(self, f"{name}_s") for name in PARTS}


PARTS = (
    "compute",
    "communication",
    "copies",
    "synchronisation",
    "copy_calls",
    "data_loading",
    "launch_latency",
    "host_wait",
    "unexplained",
)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step with its own partition; `partition` is None where the trace has no device side.

    `launches` are launch calls, `synchronisations` synchronising calls that began in it.
    """

    name: str
    phase: str | None
    start_s: float
    end_s: float
    kernels: int
    launches: int
    synchronisations: int
    partition: Partition | None = None


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The steady part that all tables are about. `busy_share` is None where too much of it is unexplained."""

    start_s: float
    end_s: float
    steps: int
    first: str | None
    last: str | None
    reason: str
    partition: Partition | None = None
    busy_share: float | None = None


class PhaseTotal(msgspec.Struct, frozen=True, kw_only=True):
    """All passes of one phase: how many, their times in order, and the sum of their partitions."""

    phase: str
    passes: int
    times_s: tuple[float, ...]
    kernels: int
    launches: int
    synchronisations: int
    partition: Partition | None = None


class DeviceSpan(msgspec.Struct, frozen=True, kw_only=True):
    """From the first to the last device work of the whole trace: what other tools call the GPU time."""

    start_s: float
    end_s: float
    busy_s: float

    @property
    def busy_share(self) -> float:
        """Busy over the span, 0 to 1."""
        return self.busy_s / (self.end_s - self.start_s)


class FileAnalysis(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one trace file. `device`, `calls`, `lora` and `host` are about `window`, the rest about all of it."""

    source: Source
    devices: tuple[Device, ...]
    health: Health
    duration_s: float
    step_source: str | None
    steps: tuple[Step, ...]
    window: Window
    phases: tuple[PhaseTotal, ...] = ()
    whole: Partition | None = None
    device_span: DeviceSpan | None = None
    device: DeviceSide | None = None
    calls: tuple[HostCall, ...] | None = None
    lora: Lora | None = None
    host: Host | None = None


class TraceAnalysis(msgspec.Struct, frozen=True, kw_only=True):
    """One or more files, in the order given (the ranks of a job, or runs to compare)."""

    files: tuple[FileAnalysis, ...]
    schema_version: int = SCHEMA_VERSION
