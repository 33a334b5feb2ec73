"""Quantities of a budget file, always written with their unit: "200 ms", "450 tok/s", "24 GiB", "5 %"."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

Kind = Literal["time", "rate", "size", "share", "tokens"]
UNITS: dict[Kind, dict[str, float]] = {
    "time": {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0},
    "rate": {"tok/s": 1.0, "rows/s": 1.0},
    "size": {
        "B": 1.0,
        "KiB": 2.0**10,
        "MiB": 2.0**20,
        "GiB": 2.0**30,
        "TiB": 2.0**40,
        "kB": 1e3,
        "MB": 1e6,
        "GB": 1e9,
        "TB": 1e12,
    },
    "share": {"%": 0.01},
    "tokens": {"tokens": 1.0, "k tokens": 1024.0},
}
EXAMPLES: dict[Kind, str] = {
    "time": "200 ms",
    "rate": "450 tok/s",
    "size": "24 GiB",
    "share": "5 %",
    "tokens": "2048 tokens",
}


class Quantity(msgspec.Struct, frozen=True, kw_only=True):
    """A limit in base units (seconds, bytes, per second, share of 1), and as it was written."""

    value: float
    unit: str
    text: str


def parse_quantity(text: object, kind: Kind) -> Quantity:
    """The quantity in `text`. ValueError, in words for the person who wrote it, where it has none of this kind."""
    units = UNITS[kind]
    wanted = f'write it with its unit, such as "{EXAMPLES[kind]}" ({", ".join(units)})'
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:e-?\d+)?)\s*(\S.*?)?\s*", str(text))
    if not found or not found[2]:
        raise ValueError(f"{text!r} is not a number with a unit; {wanted}")
    if found[2] not in units:
        raise ValueError(f"{text!r}: {found[2]!r} is not a unit of {kind}; {wanted}")
    return Quantity(value=float(found[1]) * units[found[2]], unit=found[2], text=" ".join(str(text).split()))
