"""A trace report as one HTML file that asks the network for nothing and needs no script."""

from __future__ import annotations

from markupsafe import Markup

from ftprof.profiler.errors import Exit, FtprofError
from ftprof.reports import units
from ftprof.reports.html import SIZE_LIMIT_BYTES, TEMPLATES, environment, policy
from ftprof.reports.trace_document import TraceReport
from ftprof.reports.trace_view import FULL, view


def render(document: TraceReport) -> str:
    """The whole page. FtprofError where it would be larger than the limit of all pages."""
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8").strip()
    template = environment().get_template("trace.html")
    # The only text that is not escaped is our own style sheet.
    page = template.render(report=view(document, FULL), style=Markup(style), policy=policy(style), charts={})
    size = len(page.encode("utf-8", "replace"))
    if size > SIZE_LIMIT_BYTES:
        message = f"the page would be {units.size(size)}, more than the limit of {units.size(SIZE_LIMIT_BYTES)}"
        raise FtprofError(message, "give fewer traces, or use --json", Exit.UNUSABLE)
    return page
