"""What the output of onnxruntime-genai's builder says about where it stopped. Pure."""

from __future__ import annotations

import re

# The builder names what it reads; the quantiser logs each node that it starts with.
_PLACES = re.compile(r"^Reading (?P<read>.+)$|start to quantize (?P<node>\S+)", re.MULTILINE)
_NOISE = re.compile(
    r"\[(?:INFO|WARNING)\]|\d+%\||it/s|^Traceback|^\s+(?:File |\^|~)|^(?:Extra options|Saving |Reading )"
)


def where(text: str) -> str | None:
    """The layer that was read or the op that was quantised last; None where the builder had not come so far."""
    found = list(_PLACES.finditer(text))
    return str(found[-1]["read"] or found[-1]["node"]).strip() if found else None


def last_line(text: str) -> str | None:
    """The last line that is no progress bar, traceback frame or routine message, at most 200 characters."""
    lines = [line.strip() for line in re.split(r"[\r\n]", text) if line.strip() and not _NOISE.search(line)]
    return lines[-1][:200] if lines else None
