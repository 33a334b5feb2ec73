"""The commands that say yes or no: `compare`, `check`, `doctor`, and the comment for a pull request."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ftprof.choices import choice
from ftprof.profiler.errors import Exit, FtprofError

if TYPE_CHECKING:
    from rich.console import Console

    from ftprof.advisors.audit import Audit
    from ftprof.reports.compare_document import Compared

Base = Annotated[Path, typer.Argument(help="Audit of the state before: an audit.json, or a directory that holds one.")]
Head = Annotated[Path, typer.Argument(help="Audit of the state after.")]
AuditPath = Annotated[Path, typer.Argument(help="An audit.json, or a directory that holds one.")]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        help="Compare times although this differs: torch or call (repeatable). Never the machine or the data."
    ),
]
MinEffect = Annotated[str, typer.Option(help="Change of a time that counts as none.")]
Confirm = Annotated[
    bool, typer.Option("--confirm", help="Measure both models again, side by side, before raising an alarm.")
]
ConfirmTime = Annotated[str, typer.Option(help="Time for --confirm.")]
ConfirmData = Annotated[str | None, typer.Option(help="Rows for --confirm, if they are not where the audit says.")]
RequireTimes = Annotated[bool, typer.Option("--require-times", help="Exit with 5 where times cannot be compared.")]
BudgetFile = Annotated[
    Path | None, typer.Option("--budget", help="TOML file with limits; else [tool.ftprof.check] of pyproject.toml.")
]
Preset = Annotated[str | None, typer.Option(help="pull-request or pre-deployment; your own limits go before its.")]
BaseAudit = Annotated[Path | None, typer.Option("--base", help="Audit of the state before.")]
Artefact = Annotated[Path | None, typer.Option(help="Where the model to be deployed lies, if not where it was saved.")]
Junit = Annotated[Path | None, typer.Option(help="Write JUnit XML to this file as well.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a comment or a job summary.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def _load(path: Path) -> Audit:
    from ftprof.reports.write import load_audit

    return load_audit(path)


def _share(text: str, option: str) -> float:
    from ftprof.reports.check_units import parse_quantity

    try:
        share = parse_quantity(text, "share").value
    except ValueError as error:
        message, _, hint = str(error).partition("; ")
        raise FtprofError(f"{option}: {message}", hint, Exit.USAGE) from error
    return share


def _one_form(json: bool, markdown: bool) -> None:
    if json and markdown:
        raise FtprofError("--json and --markdown exclude each other", "give one of them", Exit.USAGE)


def compare(
    base: Base,
    head: Head,
    allow: Allow = None,
    min_effect: MinEffect = "5 %",
    require_times: RequireTimes = False,
    confirm: Confirm = False,
    confirm_time: ConfirmTime = "120s",
    data: ConfirmData = None,
    json: Json = False,
    markdown: Markdown = False,
    debug: Debug = False,
) -> None:
    """What changed between two audits. Exit 1: a regression is proven; 3: noise forbids a verdict; 5: nothing to compare."""
    from ftprof.reports import compare_views
    from ftprof.reports.compare import compare as compared
    from ftprof.reports.compare_fingerprint import ALLOWED

    _one_form(json, markdown)
    names = [choice(name, ALLOWED, "--allow") for name in allow or []]
    effect = _share(min_effect, "--min-effect")
    seconds = _seconds(confirm_time, "--confirm-time", 10, 3600)
    before, after = _load(base), _load(head)
    found = compared(before, after, allow=names, min_effect=effect, require_times=require_times)
    if confirm:
        found = _confirmed(found, before, after, effect, seconds, data)
    if json:
        sys.stdout.write(compare_views.as_json(found))
    elif markdown:
        sys.stdout.write(compare_views.as_markdown(found))
    else:
        compare_views.render(found, _console())
    raise typer.Exit(found.exit_code)


def _confirmed(
    found: Compared, before: Audit, after: Audit, min_effect: float, seconds: float, data: str | None
) -> Compared:
    from rich.console import Console

    from ftprof.advisors.confirm import confirm
    from ftprof.reports.compare_confirm import confirmed, doubtful
    from ftprof.reports.live import Live

    scenarios = doubtful(found)
    if not scenarios:
        return found
    with Live(Console(stderr=True, highlight=False), seconds) as live:
        return confirmed(found, confirm(before, after, scenarios, seconds, live, data), min_effect)


def _seconds(text: str, option: str, least: float, most: float) -> float:
    from ftprof.reports.check_units import parse_quantity

    try:
        seconds = parse_quantity(text, "time").value
    except ValueError as error:
        raise FtprofError(f"{option}: {str(error).partition('; ')[0]}", "write it as 30s", Exit.USAGE) from error
    if not least <= seconds <= most:
        raise FtprofError(f"{option} {text} is out of range", f"give {least:g}s to {most:g}s", Exit.USAGE)
    return seconds


def check(
    audit: AuditPath,
    budget: BudgetFile = None,
    preset: Preset = None,
    base: BaseAudit = None,
    artefact: Artefact = None,
    junit: Junit = None,
    json: Json = False,
    markdown: Markdown = False,
    debug: Debug = False,
) -> None:
    """Hold an audit against a budget. Exit 1: a demand failed; 3: one cannot be decided; 5: nothing was demanded."""
    from ftprof.reports import check_views
    from ftprof.reports.check import check as checked
    from ftprof.reports.check_budget import load_budget
    from ftprof.reports.check_presets import PRESETS, with_preset
    from ftprof.reports.check_site import look
    from ftprof.reports.compare import compare as compared
    from ftprof.reports.junit import junit as as_junit

    _one_form(json, markdown)
    own, source = load_budget(budget)
    chosen = choice(preset, tuple(PRESETS), "--preset") if preset else None
    limits = with_preset(own, chosen)
    if not source and chosen is None:
        raise FtprofError(
            "there is no budget to check against",
            "give --budget FILE.toml or --preset pull-request, or write [tool.ftprof.check] into pyproject.toml",
            Exit.NOTHING,
        )
    document = _load(audit)
    found = checked(
        document,
        limits,
        today=datetime.datetime.now(datetime.UTC).date(),
        site=look(document, limits, artefact),
        compared=compared(_load(base), document) if base else None,
    )
    if junit is not None:
        _write(junit, as_junit(found))
    if json:
        sys.stdout.write(check_views.as_json(found))
    elif markdown:
        sys.stdout.write(check_views.as_markdown(found))
    else:
        check_views.render(found, _console())
    raise typer.Exit(found.exit_code)


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise FtprofError(
            f"cannot write {path}: {error.strerror or error}", "give --junit another place", Exit.USAGE
        ) from error


def doctor(
    budget: Annotated[str, typer.Option(help="Time for the noise run, such as 10s.")] = "10s",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Can this machine measure? Exit 3: its noise forbids it. Says what spoils figures and how to mend it."""
    from ftprof.advisors.doctor import examine
    from ftprof.reports import doctor as views

    seconds = _seconds(budget, "--budget", 1, 600)

    def stage(name: str) -> None:
        if not json:
            sys.stderr.write(f"{name}\n")

    health = examine(seconds, stage)
    if json:
        sys.stdout.write(views.as_json(health))
    else:
        views.render(health, _console())
    raise typer.Exit(health.exit_code)


def comment(
    audit: AuditPath,
    part: Annotated[
        list[Path] | None, typer.Option(help="File with Markdown of compare or check, to be put first (repeatable).")
    ] = None,
    key: Annotated[str, typer.Option(help="Name of this comment, where a pull request has several.")] = "",
    debug: Debug = False,
) -> None:
    """Print the comment of an audit for a pull request: its first line is a marker by which it is found and edited."""
    from ftprof.reports.pull_request import comment as as_comment

    parts = [_read(path) for path in part or []]
    sys.stdout.write(as_comment(_load(audit), parts, key))


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FtprofError(f"cannot read {path}: {reason}", "check --part", Exit.USAGE) from error
