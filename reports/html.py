"""The audit as one HTML file that asks the network for nothing, now or in ten years, and needs no script."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import jinja2
from markupsafe import Markup

from ftprof.advisors.audit import Audit
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.reports import clean, fact_tables, timing_tables, units, wording
from ftprof.reports.capacity import capacity
from ftprof.reports.charts import charts
from ftprof.reports.document import digest
from ftprof.reports.summary import limiting_phase, lora_of, summarise

TEMPLATES = Path(__file__).parent / "templates"
SIZE_LIMIT_BYTES = 1_500_000
"""What mail gateways and forge previews still show without complaint."""
MARKS = {"good": "✓", "bad": "✗", "unsure": "?", "plain": "•"}


def render(audit: Audit) -> str:
    """The whole page. FtprofError where it would be larger than `SIZE_LIMIT_BYTES`."""
    checksum = digest(audit)
    audit = clean.cleaned(audit)
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8").strip()
    page = (
        environment()
        .get_template("report.html")
        .render(
            audit=audit,
            summary=summarise(audit),
            # The only texts that are not escaped: our own style sheet, and charts that passed the list in `svg`.
            style=Markup(style),
            charts={name: {"chart": chart, "svg": Markup(chart.svg)} for name, chart in charts(audit).items()},
            policy=policy(style),
            digest=checksum,
            lora=lora_of(audit),
            chosen=limiting_phase(audit),
            passed=audit.checked,
            marks=MARKS,
        )
    )
    size = len(page.encode("utf-8", "replace"))
    if size > SIZE_LIMIT_BYTES:
        message = f"the page would be {units.size(size)}, more than the limit of {units.size(SIZE_LIMIT_BYTES)}"
        raise FtprofError(message, "read audit.json instead, or print report.md", Exit.UNUSABLE)
    return page


def policy(style: str) -> str:
    checksum = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{checksum}'; base-uri 'none'; form-action 'none'"


def environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "capacity": capacity,
        "tables": timing_tables,
        "facts": fact_tables,
        "wording": wording,
        "units": units,
    }
    made.filters |= {
        "name": clean.name,
        "sentence": wording.sentence,
        "capital": wording.capital,
    }
    return made
