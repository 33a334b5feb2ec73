"""Golden files. After a change that is meant: `FTPROF_GOLDEN=write pytest tests/reports`, then read the difference."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def check(name: str, text: str) -> None:
    """`text` equals the golden file `name`; trailing blanks of a line do not count."""
    text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
    path = FOLDER / name
    if os.environ.get("FTPROF_GOLDEN") == "write":
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"differs from {path}; {__doc__}"
