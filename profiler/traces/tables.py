"""Rows of the tables of a trace's analysis. All are about its window; shares are 0 to 1."""

from __future__ import annotations

from typing import Literal

import msgspec


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """An idle time of the device: its largest part, and what the launching thread was in for the longest time."""

    start_s: float
    length_s: float
    cause: str
    cpu: str | None
    python: str | None
    before: str | None
    after: str | None


class IdleRow(msgspec.Struct, frozen=True, kw_only=True):
    """Idle time by the innermost thing that the launching thread was in; `name` is None where nothing was recorded."""

    name: str | None
    kind: str
    total_s: float
    share_of_window: float


class Launches(msgspec.Struct, frozen=True, kw_only=True):
    """Launch calls and how far the host runs ahead. Delays are from the end of the launch call to the start of work.

    `bound` is "launch" where the device waits for launches, "device" where work queues up, "mixed" between.
    """

    calls: int
    graph_launches: int
    graph_kernels: int
    call_median_s: float | None
    delay_median_s: float | None
    delay_p90_s: float | None
    queued_share: float | None
    short_kernel_share: float | None
    kernel_median_s: float | None
    idle_share: float | None
    bound: Literal["launch", "device", "mixed"] | None
    launch_share: float | None


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel name in the window."""

    name: str
    kind: str
    tensor_core: Literal["yes", "no", "unknown"]
    misaligned: bool
    calls: int
    total_s: float
    share: float


class Class(msgspec.Struct, frozen=True, kw_only=True):
    """One class of device work in the window, streams added up.

    `share` is of all device work, `share_of_kernels` of the kernels alone (None for copies and fills by the copy engine).
    """

    kind: str
    calls: int
    total_s: float
    share: float
    share_of_kernels: float | None = None


class TensorCores(msgspec.Struct, frozen=True, kw_only=True):
    """Kernel time by whether it ran on matrix units; `eligible_no_s` is of the products, attention, convolutions."""

    yes_s: float
    no_s: float
    unknown_s: float
    eligible_no_s: float
    share: float


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """Attention by form. `eager_s` is softmax and batched products of unfused attention."""

    flash_s: float
    memory_efficient_s: float
    eager_s: float
    softmax_s: float
    share: float
    eager_share: float


class CopyRow(msgspec.Struct, frozen=True, kw_only=True):
    """Copies of one kind: HtoD and so on."""

    direction: str
    pageable: bool
    calls: int
    total_s: float
    bytes: int | None
    bytes_per_s: float | None


class HostCall(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one runtime function in the window on all threads; `op` and `line` of where most of it came from."""

    name: str
    kind: Literal["synchronisation", "copy", "allocator", "launch", "other"]
    calls: int
    total_s: float
    op: str | None = None
    line: str | None = None


class OpRow(msgspec.Struct, frozen=True, kw_only=True):
    """Device time by op and shapes; `name` is the lowest op that launched it, `outer` the outermost one."""

    name: str
    outer: str | None
    shapes: str | None
    dtypes: str | None
    kernels: int
    total_s: float
    share: float


class ModuleRow(msgspec.Struct, frozen=True, kw_only=True):
    """Device time by the type of the innermost nn.Module around the launch; `path` are the types above it."""

    module: str
    path: str
    kernels: int
    total_s: float
    share: float


class LineRow(msgspec.Struct, frozen=True, kw_only=True):
    """Device time by the Python line nearest to the launch that is outside torch itself."""

    line: str
    kernels: int
    total_s: float
    share: float


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Device time of one kernel from one place: op with shapes, module, line. Evidence for whatever is said of it."""

    kernel: str
    kind: str
    tensor_core: Literal["yes", "no", "unknown"]
    misaligned: bool
    op: str | None
    outer: str | None
    shapes: str | None
    dtypes: str | None
    module: str | None
    line: str | None
    calls: int
    total_s: float
    share: float


class Lora(msgspec.Struct, frozen=True, kw_only=True):
    """What LoRA costs in the window, and how it was told. `host_s` is time of its ops on the host."""

    how: Literal["kernel names", "names", "layers", "shapes"]
    device_s: float
    device_share: float
    kernels: int
    calls: int
    host_s: float
    ranks: tuple[int, ...]


class Casts(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels that only convert element types; where they come from stands in `DeviceSide.places`."""

    kernels: int
    total_s: float
    share: float


class HostOp(msgspec.Struct, frozen=True, kw_only=True):
    """Self time of one op on the host in the window."""

    name: str
    calls: int
    self_s: float


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """The host side of the window. `busy_s` is the main thread's time inside recorded ops and calls."""

    threads: int
    main_thread: str
    span_s: float
    ops: int
    ops_s: float
    runtime_calls_s: float
    synchronisation_s: float
    data_loading_s: float
    top: tuple[HostOp, ...]


class DeviceSide(msgspec.Struct, frozen=True, kw_only=True):
    """The device's work in the window. `idle`, `ops`, `modules` and `lines` are None where the trace cannot tell.

    `sm_efficiency` is an estimate: kernel time weighted by min(1, blocks per multiprocessor).
    """

    kernels: tuple[Kernel, ...]
    classes: tuple[Class, ...]
    copies: tuple[CopyRow, ...]
    gaps: tuple[Gap, ...]
    idle: tuple[IdleRow, ...] | None = None
    launches: Launches | None = None
    tensor_cores: TensorCores | None = None
    misaligned_share: float | None = None
    attention: Attention | None = None
    casts: Casts | None = None
    ops: tuple[OpRow, ...] | None = None
    modules: tuple[ModuleRow, ...] | None = None
    lines: tuple[LineRow, ...] | None = None
    places: tuple[Place, ...] = ()
    sm_efficiency: float | None = None

    def class_share(self, kind: str) -> float:
        """The share of a class in the window's kernel time; 0 where none of it ran."""
        return next((row.share_of_kernels or 0.0 for row in self.classes if row.kind == kind), 0.0)
