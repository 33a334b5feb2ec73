"""What a view prints on a terminal of 80 columns, without colour."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console


def console_text(render: Callable[[Console], None]) -> str:
    """All that `render` prints."""
    stream = io.StringIO()
    render(Console(file=stream, width=80, highlight=False))
    return stream.getvalue()
