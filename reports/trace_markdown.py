"""A trace report as GitHub-flavoured Markdown, for an issue or a pull request."""

from __future__ import annotations

from ftprof.reports.markdown import escape, table
from ftprof.reports.table import Table
from ftprof.reports.trace_document import TraceReport
from ftprof.reports.trace_view import BRIEF, DiffView, FileView, FindingView, view


def render(document: TraceReport) -> str:
    """The comparison first where there is one, then each file: verdict, findings, tables folded away."""
    shown = view(document, BRIEF)
    blocks = _diff(shown.diff) if shown.diff else []
    for file in shown.files:
        blocks += _file(file)
    return "\n\n".join(blocks) + "\n"


def _diff(change: DiffView) -> list[str]:
    notes = [f"* {escape(note)}" for note in change.notes]
    return [
        "### Before and after",
        escape(change.headline),
        *(["\n".join(notes)] if notes else []),
        *_folded(change.tables),
    ]


def _file(file: FileView) -> list[str]:
    doubts = [f"* {escape(doubt)}" for doubt in file.doubts]
    return [
        f"### {escape(file.title)}: {escape(file.name)}",
        escape(file.context),
        *map(escape, file.sentences),
        escape(file.confidence),
        *(["\n".join(doubts)] if doubts else []),
        *map(escape, filter(None, (file.absent, file.window))),
        *(["#### Findings"] if file.findings else ["No findings."]),
        *(block for finding in file.findings for block in _finding(finding)),
        *_folded(file.tables),
    ]


def _finding(finding: FindingView) -> list[str]:
    return [
        f"**{escape(finding.severity)}: {escape(finding.rule)}** {escape(finding.summary)} {escape(finding.advice)}",
        *_folded((finding.evidence,)),
    ]


def _folded(tables: tuple[Table, ...]) -> list[str]:
    return [
        f"<details><summary>{escape(shown.caption)}</summary>\n\n{table(shown)}\n"
        + (f"\n{escape(shown.note)}\n" if shown.note else "")
        + "\n</details>"
        for shown in tables
    ]
