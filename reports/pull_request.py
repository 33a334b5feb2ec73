"""The comment on a pull request: found again by its marker, and cut section by section to what a forge takes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ftprof.advisors.audit import Audit
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.reports import markdown

LIMIT = 60_000
"""Characters. GitHub takes 65,536 of a comment; what a bot adds around it must fit as well."""
KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
CUT = "Some parts were left out to fit a comment; the whole is in report.html."
HEADING = re.compile(r"#{3,4} ")
FENCE = re.compile(r"`{3,}")


def marker(key: str = "") -> str:
    """The comment's first line, by which it is found and edited. One key for each model or job of a workflow.

    FtprofError (usage) for a key that could end the marker or break the search for it.
    """
    if not key:
        return markdown.MARKER
    # Two hyphens would end the HTML comment.
    if not KEY.fullmatch(key) or "--" in key:
        raise FtprofError(
            f"--key {key!r} cannot be used", "take letters, digits and . _ -, as in my-model.cpu", Exit.USAGE
        )
    return f"<!-- ftprof:{key} -->"


def comment(audit: Audit, parts: Sequence[str] = (), key: str = "", limit: int = LIMIT) -> str:
    """The comment of an audit: marker, then `parts` (a comparison, a check; finished Markdown), then the report.

    At most `limit` characters: folded parts go first, then whole sections from the end, then lines.
    """
    first = marker(key)
    report = markdown.render(audit).removeprefix(markdown.MARKER).lstrip("\n")
    body = "\n\n".join([*(part.strip("\n") for part in parts if part.strip()), report.strip("\n")])
    return f"{first}\n\n{fitted(body, limit - len(first) - 3)}\n"


def fitted(text: str, limit: int) -> str:
    """`text` cut to at most `limit` characters, along its structure; unchanged where it fits."""
    if len(text) <= limit:
        return text
    room = limit - len(CUT) - 2
    sections = [unfolded(section) for section in split(text)]
    while len(sections) > 1 and _length(sections) > room:
        sections.pop()
    kept = "\n\n".join(section.strip("\n") for section in sections if section.strip("\n"))
    return f"{_lines(kept, room)}\n\n{CUT}"


def _length(sections: Sequence[str]) -> int:
    return sum(len(section) + 2 for section in sections)


def split(text: str) -> list[str]:
    """Sections, each from its heading to the next; a heading inside a code block is none."""
    sections: list[list[str]] = [[]]
    for line, fenced in _fenced(text):
        if not fenced and HEADING.match(line) and sections[-1]:
            sections.append([])
        sections[-1].append(line)
    return ["\n".join(lines) for lines in sections]


def unfolded(section: str) -> str:
    """A section without its folded parts."""
    kept, depth = [], 0
    for line, fenced in _fenced(section):
        if not fenced and line.startswith("<details>"):
            depth += 1
        if not depth:
            kept.append(line)
        if not fenced and line.rstrip().endswith("</details>") and depth:
            depth -= 1
    return "\n".join(kept)


def _lines(text: str, limit: int) -> str:
    """As many whole lines as fit, with a code block closed that would be left open."""
    kept: list[str] = []
    left, fence = limit, ""
    for line, fenced in _fenced(text):
        mark = FENCE.match(line)
        after = fence if mark is None or fenced else "" if fence else mark[0]
        # One more for each line feed; whatever is open must still be closed.
        if len(line) + 1 + len(after) + 1 > left:
            break
        kept.append(line)
        left, fence = left - len(line) - 1, after
    return "\n".join([*kept, fence] if fence else kept)


def _fenced(text: str) -> list[tuple[str, bool]]:
    """Lines, each with whether it lies inside a code block; the fences themselves do not."""
    found, fence = [], ""
    for line in text.split("\n"):
        opening = FENCE.match(line)
        inside = bool(fence)
        if fence and line.rstrip() == fence:
            fence, inside = "", False
        elif opening and not fence:
            fence = opening[0]
        found.append((line, inside))
    return found
