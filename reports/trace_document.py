"""The result of `ftprof trace` as one document: what every view shows, and what --json prints."""

from __future__ import annotations

import msgspec

from ftprof.advisors.trace_rule import TraceFinding
from ftprof.advisors.trace_rules import find
from ftprof.profiler.traces.diff import TraceDiff, diff
from ftprof.profiler.traces.model import SCHEMA_VERSION, FileAnalysis, TraceAnalysis
from ftprof.reports.trace_verdict import TraceVerdict, judge


class JudgedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """One file: the verdict, the findings of the rules (the severest first), and the analysis behind both."""

    verdict: TraceVerdict
    findings: tuple[TraceFinding, ...]
    analysis: FileAnalysis


class TraceReport(msgspec.Struct, frozen=True, kw_only=True):
    """Files in the order given; `diff` compares the first with the second where that was asked for."""

    ftprof_version: str
    files: tuple[JudgedTrace, ...]
    diff: TraceDiff | None = None
    schema_version: int = SCHEMA_VERSION


def report(analysis: TraceAnalysis, version: str, *, compare: bool = False) -> TraceReport:
    """Judges each file; with `compare` the first two are compared as before and after."""
    files = tuple(JudgedTrace(verdict=judge(file), findings=find(file), analysis=file) for file in analysis.files)
    change = diff(analysis.files[0], analysis.files[1]) if compare else None
    return TraceReport(ftprof_version=version, files=files, diff=change)


def as_json(document: TraceReport) -> str:
    """The whole document as JSON, one line feed at its end."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
