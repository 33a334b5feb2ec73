"""The audit as a comment for a pull request: the first screen, one table, and how to repeat it."""

from __future__ import annotations

import html
import re

from ftprof.advisors.audit import Audit
from ftprof.reports import clean, timing_tables
from ftprof.reports.summary import Summary, summarise
from ftprof.reports.table import Table

MARKER = "<!-- ftprof -->"
"""First line, by which a bot finds its own comment again."""
MARKS = {"good": "✓", "bad": "✗", "unsure": "?", "plain": "·"}
BREAK = "\u2060"
"""Word joiner: invisible, and it keeps a forge from reading a mention, a reference or a link."""
SPECIAL = re.compile(r"([\\`*_\[\]|~$]|^[#+>-]|(?<=^\d)[.)]|:(?=[\w+-]+:))")
TRIGGERS = re.compile(r"(?<=[@#])(?=\w)|(?<=\w)(?=://)|(?<=www)(?=\.)", re.IGNORECASE)


def render(audit: Audit) -> str:
    """The comment as GitHub-flavoured Markdown, at most some 12 KB."""
    audit = clean.cleaned(audit)
    summary = summarise(audit)
    blocks = [MARKER, *_head(summary), *_fixes(summary), *_trust(summary), *_where(summary), *_tables(audit)]
    return "\n\n".join([*blocks, _repeat(audit)]) + "\n"


def escape(text: str) -> str:
    """`text` as Markdown that shows exactly `text`: no markup, no mention, no link, no cell border."""
    line = " ".join(text.split())
    parts = SPECIAL.sub(r"\\\1", html.escape(line, quote=False))
    return TRIGGERS.sub(BREAK, parts)


def _head(summary: Summary) -> list[str]:
    title = f"### {MARKS[summary.tone]} {summary.verdict}: {escape(summary.model)}"
    facts = (summary.headline, summary.limit, summary.lora, *summary.trades)
    return [title, *map(escape, filter(None, facts))]


def _fixes(summary: Summary) -> list[str]:
    lines = [f"* **{line.status.replace('_', ' ')}** {escape(line.sentence)}" for line in summary.fixes]
    return ["#### Fixes", "\n".join(lines)] if lines else []


def _where(summary: Summary) -> list[str]:
    where = [escape(summary.where)] if summary.where else []
    return [*where, *([code(summary.load, "python")] if summary.load else []), *map(escape, summary.warnings)]


def code(text: str, language: str = "") -> str:
    """`text` as a code block whose fence is longer than any that `text` holds."""
    longest = max((len(fence) for fence in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _tables(audit: Audit) -> list[str]:
    compared = timing_tables.before_after(audit, brief=True)
    shown = compared if compared.rows else timing_tables.phases(audit)
    return [f"#### {escape(shown.caption)}", table(shown)] if shown.rows else ["Times: not measured."]


def table(shown: Table) -> str:
    """`shown` as a Markdown table."""
    head = "| " + " | ".join(map(escape, shown.head)) + " |"
    rule = "|" + "|".join("---" if index < shown.words else "--:" for index in range(len(shown.head))) + "|"
    rows = ["| " + " | ".join(map(escape, row)) + " |" for row in shown.rows]
    return "\n".join([head, rule, *rows])


def _trust(summary: Summary) -> list[str]:
    return [escape(summary.trust)]


def _repeat(audit: Audit) -> str:
    return (
        "<details><summary>How to repeat this</summary>\n\n"
        f"{code(audit.command, 'sh')}\n\n"
        f"{escape(f'ftprof {audit.ftprof_version}, {audit.created}, data sha256 {audit.workload.rows_digest}')}\n"
        "</details>"
    )
