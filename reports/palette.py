"""Colours of causes, with a hatch and a letter each, so that none rests on colour alone.

The hues keep 3:1 contrast to the page and stay apart under simulated colour blindness. Charts are drawn in the light
colours; the page repaints them in the dark through the class of each.
"""

from __future__ import annotations

import msgspec


class Paint(msgspec.Struct, frozen=True, kw_only=True):
    """How one class of things is drawn. An empty `light` means hollow: an outline in the colour of the text."""

    letter: str
    label: str
    light: str = ""
    dark: str = ""
    hatch: str = ""


INK = "#010203"
"""Stands for the text colour until the chart is embedded."""
FAINT = "#8a8f98"
PAPER = "#fefefe"
"""Stands for the page's background: hatches and gaps."""

CAUSES = {
    "compute": Paint(letter="C", label="compute", light="#3c9adb", dark="#75ace1"),
    "memory": Paint(letter="M", label="memory", light="#c37f51", dark="#f29c2b", hatch="//"),
    "host": Paint(letter="H", label="host", light="#880dc1", dark="#9112f4", hatch="\\\\"),
    "io": Paint(letter="I", label="I/O", light="#18593e", dark="#aafee9", hatch="--"),
    "sync": Paint(letter="S", label="sync", hatch="||"),
    "unattributed": Paint(letter="U", label="unattributed"),
}
LORA = {
    "base_s": Paint(letter="", label="base layer", light="#3c9adb", dark="#75ace1"),
    "a_s": Paint(letter="A", label="LoRA A", light="#350d22", dark="#c50e61"),
    "b_s": Paint(letter="B", label="LoRA B", light="#350d22", dark="#c50e61", hatch="xx"),
    "rest_s": Paint(letter="R", label="scale, add, cast"),
}

CLASSES = {
    INK: "ink",
    PAPER: "paper",
    FAINT: "faint",
    "#3c9adb": "compute",
    "#c37f51": "memory",
    "#880dc1": "host",
    "#18593e": "io",
    "#350d22": "lora",
}
