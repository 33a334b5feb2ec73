"""The command line. Each command loads, makes one library call, and prints or saves."""

from __future__ import annotations

import io
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ftprof import __version__, gate_cli, trace_cli
from ftprof.choices import check_device, choice, options_of, parse_budget, usage
from ftprof.profiler.errors import Exit, FtprofError

if TYPE_CHECKING:
    from rich.console import Console

    from ftprof.advisors.audit import Audit

app = typer.Typer(
    name="ftprof",
    help="Why is my fine-tuned model slow? Measure it, prove it, fix it, show before and after.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)

Model = Annotated[str, typer.Argument(help="PEFT adapter directory, merged model directory, or hub id.")]
Base = Annotated[str | None, typer.Option(help="Directory (or hub id) of the base model of an adapter.")]
Adapter = Annotated[str | None, typer.Option(help="Adapter directory, where MODEL is its base.")]
Data = Annotated[str | None, typer.Option(help="JSON lines with your own prompts and answers.")]
CallFile = Annotated[str | None, typer.Option("--call", help="TOML file that says how you call the model.")]
Objective = Annotated[str, typer.Option(help="What must become faster: e2e, ttft, tpot or throughput.")]
MaxLoss = Annotated[str, typer.Option(help="How far fixes may change the outputs: exact, rounding, int8 or int4.")]
Runtime = Annotated[str, typer.Option(help="Where the model may run in the end: any runtime, or torch only.")]
Guard = Annotated[list[str] | None, typer.Option(help="Most a phase may slow down, such as ttft=1.1 (repeatable).")]
Budget = Annotated[str, typer.Option(help="Hard limit on the run's wall time, such as 300s or 10m.")]
NoFix = Annotated[bool, typer.Option("--no-fix", help="Diagnose and advise only; try nothing.")]
Save = Annotated[Path | None, typer.Option(help="Directory to write the fastest variant to (must be new).")]
Out = Annotated[Path | None, typer.Option(help="Directory for report.html, report.md and audit.json.")]
Device = Annotated[str, typer.Option(help="cpu or cuda:0.")]
Offline = Annotated[bool, typer.Option("--offline", help="Never ask the model hub.")]
Json = Annotated[bool, typer.Option("--json", help="Print the audit as JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress, only the verdict.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="The whole report on the terminal.")]
Force = Annotated[bool, typer.Option("--force", help="Write into an output directory that is not empty.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the audit.json in --out: decided trials stay.")]
Trust = Annotated[bool, typer.Option("--trust-remote-code", help="Run code that the model directory brings along.")]
IncludePrompts = Annotated[
    bool, typer.Option("--include-prompts", help="Do not redact prompts that messages quote in the reports.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]
Seed = Annotated[int, typer.Option(help="Seed of sampling rows and of the order of measurements.")]


def _console(*, err: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=err, highlight=False)


@app.command()
def diagnose(
    model: Model,
    base: Base = None,
    adapter: Adapter = None,
    data: Data = None,
    call: CallFile = None,
    objective: Objective = "e2e",
    max_loss: MaxLoss = "int8",
    runtime: Runtime = "any",
    guard: Guard = None,
    budget: Budget = "300s",
    no_fix: NoFix = False,
    save: Save = None,
    out: Out = None,
    device: Device = "cpu",
    offline: Offline = False,
    resume: Resume = False,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    force: Force = False,
    trust_remote_code: Trust = False,
    include_prompts: IncludePrompts = False,
    debug: Debug = False,
) -> None:
    """Measure MODEL, say why it is slow, try fixes, and report before and after."""
    from ftprof.advisors.run import Request
    from ftprof.profiler.callfile import load_call
    from ftprof.profiler.directory import inspect
    from ftprof.profiler.rows import load_rows
    from ftprof.reports.write import load_audit
    from ftprof.samples.prepared import prepared_bases

    if resume and out is None:
        raise usage("--resume needs the directory of the earlier run", "add --out DIR")
    previous = load_audit(out) if resume and out is not None else None
    options = options_of(objective, max_loss, runtime, guard, no_fix, save)
    seconds, used = parse_budget(budget), load_call(call)
    located = inspect(
        model,
        base=base,
        adapter=adapter,
        trust_remote_code=trust_remote_code,
        offline=offline,
        known_bases=prepared_bases(),
    )
    request = Request(
        located=located,
        rows=load_rows(data, task=located.task, labels=located.labels, seed=seed),
        call=used,
        options=options,
        budget_s=seconds,
        device=check_device(device),
        seed=seed,
        offline=offline,
        command=shlex.join(["ftprof", *sys.argv[1:]]),
        version=__version__,
        previous=previous,
    )
    prompts = () if include_prompts else tuple(row.prompt for row in request.rows.rows)
    _audit(request, out, prompts, force=force or resume, json=json, quiet=quiet, verbose=verbose)


def _audit(
    request: object, out: Path | None, prompts: tuple[str, ...], *, force: bool, json: bool, quiet: bool, verbose: bool
) -> None:
    from ftprof.advisors.run import Request, protected, run
    from ftprof.reports.live import Live
    from ftprof.reports.output import open_output
    from ftprof.reports.redact import redacted
    from ftprof.reports.write import write_audit, write_card, write_reports

    assert isinstance(request, Request)
    if request.options.save is not None and out is not None and request.options.save.resolve() == out.resolve():
        raise usage(f"--save and --out are both {out}", "give them different directories")
    folder = open_output(out, request.located.name, force=force, protected=protected(request.located))
    progress_console = _console(err=True)
    try:
        with Live(progress_console, request.budget_s, quiet=quiet or json) as live:
            audit = run(request, live, lambda audit: write_audit(redacted(audit, prompts=prompts), folder))
    except BaseException as error:
        kept = _write_what_there_is(folder)
        if isinstance(error, KeyboardInterrupt):
            where = (
                f"what was measured until then is in {folder / 'report.html'}" if kept else "nothing was measured yet"
            )
            raise FtprofError("interrupted", where, Exit.INTERRUPTED) from error
        raise
    write_card(audit)
    audit = redacted(audit, prompts=prompts)
    write_reports(audit, folder)
    _show(audit, folder, request.command, json=json, verbose=verbose)
    final = audit.final
    if request.options.save is not None and final is not None and final.changes:
        artefact = final.artefact
        if artefact is None or artefact.reload != "ok":
            raise FtprofError(f"the faster model is not in {request.options.save}", f"see {folder / 'report.html'}")


def _write_what_there_is(folder: Path) -> bool:
    """Reports of an audit that ended early; whether there was one. Whatever ended it is being raised and says why."""
    from ftprof.reports.write import AUDIT_NAME, load_audit, write_reports

    if not (folder / AUDIT_NAME).exists():
        return False
    write_reports(load_audit(folder / AUDIT_NAME), folder)
    return True


def _show(audit: Audit, folder: Path, command: str, *, json: bool, verbose: bool) -> None:
    if json:
        sys.stdout.write((folder / "audit.json").read_text("utf-8"))
        return
    from ftprof.reports.next_step import next_step
    from ftprof.reports.terminal import render, render_summary

    console = _console()
    (render if verbose else render_summary)(audit, console)
    step = next_step(audit, folder, command)
    console.print(f"\n{step.why}: {step.command}", soft_wrap=True, markup=False)
    console.print(f"Report: {folder / 'report.html'}", soft_wrap=True, markup=False)


@app.command()
def demo(
    sample: Annotated[str, typer.Option(help="smollm2-tickets or minilm-tickets.")] = "smollm2-tickets",
    max_loss: MaxLoss = "int8",
    runtime: Runtime = "any",
    budget: Budget = "300s",
    out: Out = None,
    save: Save = None,
    where: Annotated[bool, typer.Option("--where", help="Only print where the sample lies.")] = False,
    quiet: Quiet = False,
    json: Json = False,
    verbose: Verbose = False,
    debug: Debug = False,
) -> None:
    """Diagnose a small real fine-tune that comes with ftprof; prepared on first use."""
    from ftprof.samples.demo import HERE, demo_sample

    if where:
        typer.echo(HERE / sample)
        return
    found = demo_sample(sample)
    diagnose(
        model=str(found.model),
        base=str(found.base),
        data=str(found.data),
        max_loss=max_loss,
        runtime=runtime,
        budget=budget,
        out=out,
        save=save,
        quiet=quiet,
        json=json,
        verbose=verbose,
        offline=True,
    )


for command in (trace_cli.trace, gate_cli.compare, gate_cli.check, gate_cli.comment, gate_cli.doctor):
    app.command()(command)


@app.command()
def report(
    audit: Annotated[Path, typer.Argument(help="An audit.json.")],
    format: Annotated[str, typer.Option(help="text, html, md or json.")] = "text",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write; standard output without.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Render an audit again, without measuring anything."""
    from ftprof.reports.output import rendered
    from ftprof.reports.write import load_audit

    text = rendered(load_audit(audit), choice(format, ("text", "html", "md", "json"), "--format"))
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, "utf-8")


@app.command()
def rules(debug: Debug = False) -> None:
    """List the rules: what each finds, how far its fix changes the outputs; then those on traces."""
    from ftprof.advisors.rules import load_rules
    from ftprof.advisors.trace_rules import load_trace_rules, rule_names

    found, on_traces = load_rules(), load_trace_rules()
    width = max(map(len, rule_names()))
    for rule in found:
        kind = rule.safety if rule.fixes() else "advice"
        typer.echo(f"{rule.name:<{width}}  {kind:<9} {rule.title}")
    typer.echo("\nIn traces (ftprof trace FILE):")
    for trace_rule in on_traces:
        typer.echo(f"{trace_rule.name:<{width}}  {'trace':<9} {trace_rule.title}")


def _rule_names(incomplete: str) -> list[str]:
    from ftprof.advisors.trace_rules import rule_names

    return [name for name in rule_names() if name.startswith(incomplete)]


@app.command()
def explain(
    rule: Annotated[str, typer.Argument(help="Name of a rule.", autocompletion=_rule_names)],
    debug: Debug = False,
) -> None:
    """What a rule detects, why it is slow, the fix, and when the fix backfires; in a trace too, where one looks there."""
    from ftprof.advisors.trace_rules import pages_of

    typer.echo("\n".join(pages_of(rule)), nl=False)


@app.command()
def machine(
    budget: Annotated[str, typer.Option(help="Time for the measurement.")] = "10s",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure the limits of this machine: FLOP/s by dtype, read bandwidth, cost of an op."""
    from ftprof.advisors.limits import measure_limits
    from ftprof.reports.machine import render_machine

    found = measure_limits(parse_budget(budget))
    if json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        render_machine(found, _console())


def main() -> None:
    """Run the command line; faults become one line of what happened, one of what to do, and an exit code."""
    debug = "--debug" in sys.argv
    # A scheduler's polite end is an interrupt: workers are ended and scratch files removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal or pipe of another encoding shows what it lacks by number, and does not end the run.
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except FtprofError as error:
        if debug:
            raise
        _complain(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("ftprof: interrupted; what was measured until then is in the output directory\n")
        sys.exit(Exit.INTERRUPTED)
    except Exception as error:
        if debug:
            raise
        line = str(error).splitlines()[0] if str(error) else ""
        sys.stderr.write(
            f"ftprof: internal error: {type(error).__name__}: {line}\n  run again with --debug and report it\n"
        )
        sys.exit(Exit.BUG)


def _complain(error: FtprofError) -> None:
    from ftprof.reports.clean import visible

    sys.stderr.write(f"ftprof: {visible(error.message)}\n  {visible(error.hint)}\n")
