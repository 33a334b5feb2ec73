"""What a reader sees of a trace report, in order, as finished texts: the same on a terminal, in Markdown and in HTML."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ftprof.advisors.trace_evidence import span
from ftprof.advisors.trace_rule import TraceFinding
from ftprof.advisors.trace_rules import load_trace_rules
from ftprof.profiler.traces.diff import TraceDiff
from ftprof.profiler.traces.model import FileAnalysis
from ftprof.reports import clean, trace_diff_tables, trace_tables, units
from ftprof.reports.table import Table
from ftprof.reports.trace_document import JudgedTrace, TraceReport
from ftprof.reports.wording import capital, sentence

BRIEF, FULL = 8, 20
"""Rows of a table on a terminal or in a comment, and in a page."""
_TONES = {"high": "plain", "medium": "plain", "low": "unsure"}


class FindingView(msgspec.Struct, frozen=True, kw_only=True):
    """One finding; `severity` says of what it is a share: "12% of the step"."""

    rule: str
    title: str
    severity: str
    summary: str
    advice: str
    evidence: Table


class FileView(msgspec.Struct, frozen=True, kw_only=True):
    """One file. `tone` is one of the page's classes; tables without rows are left out."""

    name: str
    context: str
    title: str
    tone: str
    sentences: tuple[str, ...]
    confidence: str
    doubts: tuple[str, ...]
    absent: str
    window: str
    findings: tuple[FindingView, ...]
    tables: tuple[Table, ...]


class DiffView(msgspec.Struct, frozen=True, kw_only=True):
    """Before and after."""

    headline: str
    tone: str
    notes: tuple[str, ...]
    tables: tuple[Table, ...]


class TraceView(msgspec.Struct, frozen=True, kw_only=True):
    """The whole report."""

    title: str
    ftprof_version: str
    files: tuple[FileView, ...]
    diff: DiffView | None


def view(document: TraceReport, most: int) -> TraceView:
    """The report with tables of at most `most` rows; every text is safe to show."""
    document = clean.cleaned(document)
    names = _names(document)
    return TraceView(
        title=" and ".join(names[:2]) if len(names) < 3 else f"{len(names)} traces",
        ftprof_version=document.ftprof_version,
        files=tuple(_file(judged, name, most) for judged, name in zip(document.files, names, strict=True)),
        diff=_diff(document.diff, most) if document.diff else None,
    )


def _names(document: TraceReport) -> list[str]:
    """Names of the files; with their folders where two are the same."""
    paths = [Path(judged.analysis.source.path) for judged in document.files]
    short = [clean.name(path.name) for path in paths]
    return short if len(set(short)) == len(short) else [clean.name(str(path)) for path in paths]


def _diff(change: TraceDiff, most: int) -> DiffView:
    return DiffView(
        headline=trace_diff_tables.headline(change),
        tone="plain" if change.comparable else "unsure",
        notes=tuple(map(sentence, change.notes)),
        tables=tuple(table for table in trace_diff_tables.tables(change, most) if table.rows),
    )


def _file(judged: JudgedTrace, name: str, most: int) -> FileView:
    file, verdict = judged.analysis, judged.verdict
    return FileView(
        name=name,
        context=_context(file),
        title=verdict.title,
        tone="unsure" if verdict.limit in ("unknown", "no device") else _TONES[verdict.confidence],
        sentences=verdict.sentences,
        confidence=f"Confidence: {verdict.confidence}."
        if verdict.doubts
        else f"Confidence: {verdict.confidence}; the trace is whole.",
        doubts=tuple(map(sentence, verdict.doubts)),
        absent=f"Not in this trace: {'; '.join(verdict.absent)}." if verdict.absent else "",
        window=_window(file),
        findings=tuple(_finding(file, found, most) for found in judged.findings),
        tables=tuple(table for table in _tables(file, most) if table.rows),
    )


def _context(file: FileAnalysis) -> str:
    source = file.source
    device = next((device.name or f"device {device.number}" for device in file.devices if device.analysed), None)
    recorder = "Nsight Systems" if source.format == "nsys" else "torch.profiler"
    rank = f"rank {source.rank} of {source.world_size}" if source.rank is not None and source.world_size else None
    pieces = f"{units.count(source.device_events)} pieces of device work, {units.count(source.host_events)} host events"
    return ", ".join(filter(None, (device, recorder, rank, pieces, units.duration(file.duration_s))))


def _window(file: FileAnalysis) -> str:
    length = units.duration(file.window.end_s - file.window.start_s)
    return f"Judged: {length}, {file.window.reason}."


def _finding(file: FileAnalysis, found: TraceFinding, most: int) -> FindingView:
    titles = {rule.name: rule.title for rule in load_trace_rules()}
    shown = trace_tables.evidence(found)
    return FindingView(
        rule=found.rule,
        title=titles.get(found.rule, found.rule),
        severity=f"{units.percent(found.severity)} of {span(file)}",
        summary=capital(sentence(found.summary)),
        advice=capital(sentence(found.advice)),
        evidence=msgspec.structs.replace(shown, rows=shown.rows[: 3 if most <= BRIEF else most]),
    )


def _tables(file: FileAnalysis, most: int) -> list[Table]:
    device = file.device
    if device is None:
        return [trace_tables.host_ops(file, most)]
    return [
        trace_tables.partition(file),
        trace_tables.classes(device, most),
        trace_tables.top_places(device, most),
        trace_tables.gaps(device, most),
        trace_tables.phases(file),
        trace_tables.lora(file),
    ]
