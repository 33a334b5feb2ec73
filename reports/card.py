"""The card of a saved model: what it is, what was measured when it was made, on which machine, and how to load it."""

from __future__ import annotations

from ftprof.advisors.audit import Artefact, Audit
from ftprof.reports import clean, fact_tables, timing_tables
from ftprof.reports.markdown import code, escape, table
from ftprof.reports.summary import Summary, summarise
from ftprof.reports.table import Table


def render(audit: Audit) -> str | None:
    """The card in Markdown; None where nothing was saved that reloads."""
    audit = clean.cleaned(audit)
    final = audit.final
    if final is None or final.artefact is None or final.artefact.reload != "ok":
        return None
    summary = summarise(audit)
    blocks = [
        f"# {escape(summary.model)}, made faster by ftprof",
        *map(escape, (summary.headline, *summary.trades, summary.trust)),
        "## Loading it",
        code(final.artefact.load.strip("\n"), "python"),
        "## What was changed",
        _changes(summary),
        "## What was measured",
        table(timing_tables.before_after(audit)),
        *([table(fact_tables.quality(final.quality))] if final.quality is not None else []),
        "## Where it was proven",
        _proof(audit, final.artefact),
    ]
    return "\n\n".join(blocks) + "\n"


def _changes(summary: Summary) -> str:
    kept = [f"* {escape(line.sentence)}" for line in summary.fixes if line.status == "kept"]
    return "\n".join(kept)


def _proof(audit: Audit, artefact: Artefact) -> str:
    rows = [
        ("Machine", audit.machine.cpu if audit.machine else "not measured"),
        ("Fingerprint", audit.environment.fingerprint or "not measured"),
        ("Made", f"{audit.created} by ftprof {audit.ftprof_version}"),
        ("Weights, sha256", artefact.sha256),
        ("Original, sha256", audit.model.sha256),
        ("Data, sha256", audit.workload.rows_digest),
        ("Reload", artefact.reload_detail or "checked"),
        *sorted(audit.environment.packages.items()),
    ]
    shown = Table(caption="", head=("what", "value"), rows=tuple((name, str(value)) for name, value in rows), words=2)
    return f"Figures hold for this machine; on another, measure again.\n\n{table(shown)}"
