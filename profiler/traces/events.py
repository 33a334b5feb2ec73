"""One event of kineto's JSON, typed: what a column is made from and nothing else."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec

# int64 nanoseconds end at 9.22e18.
LARGEST_US = 9e15

Whole = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
Microseconds = (
    Annotated[int, msgspec.Meta(ge=-(9 * 10**15), le=9 * 10**15)]
    | Annotated[float, msgspec.Meta(ge=-LARGEST_US, le=LARGEST_US)]
)
Label = int | str | float | None
Number = Whole | float | str | None  # HIP's runtime calls print sizes as text
NOTHING = msgspec.Raw(b"")


class Args(msgspec.Struct, gc=False):
    """The arguments of an event that a column is made from."""

    device: Label = None
    stream: Label = None
    correlation: Number = None
    external: Number = msgspec.field(default=None, name="External id")
    external_old: Number = msgspec.field(default=None, name="external id")
    bytes: Number = None
    blocks_per_sm: Label = msgspec.field(default=None, name="blocks per SM")
    dims: msgspec.Raw = msgspec.field(default=NOTHING, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=NOTHING, name="Input type")
    stack: str | None = msgspec.field(default=None, name="Call stack")


class Event(msgspec.Struct, gc=False):
    """One event of the list, times as the decoder reads numbers."""

    ph: str = ""
    cat: str | None = None
    name: str = ""
    ts: Microseconds = 0
    dur: Microseconds = 0
    pid: Label = 0
    tid: Label = 0
    args: Args | None = None


class Events(msgspec.Struct):
    """A whole document."""

    traceEvents: list[Event]


class ExactTimes(msgspec.Struct, gc=False):
    """The times of an event as decimal numbers."""

    ts: Decimal = Decimal(0)
    dur: Decimal = Decimal(0)


class ExactEvents(msgspec.Struct):
    """A whole document, of which only the times are read."""

    traceEvents: list[ExactTimes]


class DeviceProperties(msgspec.Struct):
    """A device as the header describes it."""

    id: int = 0
    name: str = ""
    numSms: int | None = None
    multiProcessorCount: int | None = None


class Distributed(msgspec.Struct):
    """The rank of the process."""

    rank: int | None = None
    world_size: int | None = None


class About(msgspec.Struct):
    """What stands before or after the list of events."""

    deviceProperties: list[DeviceProperties] = []
    computeProperties: list[DeviceProperties] = []
    distributedInfo: Distributed | None = None
    with_stack: int | bool | None = None
    record_shapes: int | bool | None = None
    profile_memory: int | bool | None = None
    cuda_runtime_version: int | None = None
    cuda_driver_version: int | None = None
    hip_runtime_version: int | None = None
    hip_driver_version: int | None = None
