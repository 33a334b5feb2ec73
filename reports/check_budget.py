"""The budget of a gate: limits, ignores and demands, read from TOML."""

from __future__ import annotations

import datetime
import difflib
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.quality import Safety
from ftprof.reports.check_units import Kind, Quantity, parse_quantity

PROJECT_FILE = "pyproject.toml"


class _Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table of the file; what is left out demands nothing."""


Time = Annotated[Quantity, "time"]
Rate = Annotated[Quantity, "rate"]
Size = Annotated[Quantity, "size"]
Share = Annotated[Quantity, "share"]
Tokens = Annotated[Quantity, "tokens"]


class Percentiles(_Table, frozen=True, kw_only=True):
    """Upper limits of one phase. P95 takes 130 samples and P99 662 before it can be judged."""

    p50: Time | None = None
    p95: Time | None = None
    p99: Time | None = None


class Latency(_Table, frozen=True, kw_only=True):
    """Limits by phase: end to end, time to first token, time per further token, an encoder's forward pass."""

    e2e: Percentiles | None = None
    ttft: Percentiles | None = None
    tpot: Percentiles | None = None
    forward: Percentiles | None = None


class Latencies(_Table, frozen=True, kw_only=True):
    """Limits of a single request and of the batch scenario."""

    single: Latency | None = None
    batch: Latency | None = None


class Throughput(_Table, frozen=True, kw_only=True):
    """Lower limits: new tokens per second of generators, rows per second of encoders."""

    single: Rate | None = None
    batch: Rate | None = None


class MemoryLimits(_Table, frozen=True, kw_only=True):
    """`peak` of the worker process; `largest_context` is the longest prompt with its answer that will be served."""

    peak: Size | None = None
    largest_context: Tokens | None = None


class LoraLimits(_Table, frozen=True, kw_only=True):
    """The adapter's share of the objective's time, by ablation."""

    share: Share | None = None


class QualityDemands(_Table, frozen=True, kw_only=True):
    """What the check of the outputs must have said, and whether on the user's own data."""

    verdict: Literal["pass"] | None = None
    own_data: bool | None = None


class FindingLimits(_Table, frozen=True, kw_only=True):
    """`forbid` names rules that must not fire; `safety` classes whose fixes must not be left undone; `most` counts all."""

    forbid: tuple[str, ...] = ()
    safety: tuple[Safety, ...] = ()
    most: int | None = None


class TrustDemands(_Table, frozen=True, kw_only=True):
    """The worst trust grade that is accepted."""

    grade: Literal["A", "B", "C"] | None = None


class Deployment(_Table, frozen=True, kw_only=True):
    """Demands of a release: measured on this very machine, from a cold start, and the same files as were proven."""

    this_machine: bool | None = None
    cold_start: bool | None = None
    peak_at_largest_context: bool | None = None
    artefact: bool | None = None


class Change(_Table, frozen=True, kw_only=True):
    """Most that a phase of a single request may become slower than in the base audit."""

    e2e: Share | None = None
    ttft: Share | None = None
    tpot: Share | None = None
    forward: Share | None = None


class Ignore(msgspec.Struct, frozen=True, kw_only=True):
    """A rule whose finding is accepted until a day (that day included), and why."""

    rule: str
    reason: str
    expires: datetime.date


class Budget(_Table, frozen=True, kw_only=True):
    """Everything that a gate demands. `subject` is what is judged: the model as loaded, or the best variant found."""

    preset: Literal["pull-request", "pre-deployment"] | None = None
    subject: Literal["loaded", "best"] | None = None
    on_uncertain: Literal["unreliable", "fail", "pass"] | None = None
    """What a figure counts as whose interval crosses its limit: exit 3 (the default), a failure, or a pass."""
    latency: Latencies | None = None
    throughput: Throughput | None = None
    memory: MemoryLimits | None = None
    lora: LoraLimits | None = None
    quality: QualityDemands | None = None
    findings: FindingLimits | None = None
    trust: TrustDemands | None = None
    deployment: Deployment | None = None
    change: Change | None = None
    ignore: tuple[Ignore, ...] = ()


def load_budget(path: Path | None, folder: Path | None = None) -> tuple[Budget, str]:
    """The budget in `path`, else in `[tool.ftprof.check]` of the nearest pyproject.toml at or above `folder`.

    With it, where it came from ("" where there is none, and the budget is empty). FtprofError (usage) for a file that
    cannot be read, an unknown key with the nearest known one, or a value that is not allowed.
    """
    if path is not None:
        return parse_budget(_read(path), str(path)), str(path)
    here = (folder or Path.cwd()).resolve()
    for parent in (here, *here.parents):
        project = parent / PROJECT_FILE
        if project.is_file():
            tool = _read(project).get("tool", {})
            table = tool.get("ftprof", {}).get("check") if isinstance(tool, dict) else None
            where = f"{project} [tool.ftprof.check]"
            return (parse_budget(table, where), where) if isinstance(table, dict) else (Budget(), "")
    return Budget(), ""


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise _usage(f"cannot read {path}: {error.strerror or error}", "check --budget") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _usage(
            f"{path} is not valid TOML: {error}", 'write limits such as [memory] with peak = "2 GiB"'
        ) from error


def parse_budget(table: Mapping[str, object], source: str) -> Budget:
    """A budget from a TOML table; `source` names it in errors."""
    for number, entry in enumerate(_entries(table.get("ignore"))):
        _check_ignore(entry, f"{source}: ignore {number + 1}")
    found: Budget = _struct(Budget, table, source, "")
    return found


def _entries(value: object) -> Iterator[Mapping[str, object]]:
    if isinstance(value, list):
        yield from (entry for entry in value if isinstance(entry, dict))


def _check_ignore(entry: Mapping[str, object], where: str) -> None:
    rule = entry.get("rule", "?")
    if not str(entry.get("reason") or "").strip():
        raise _usage(f"{where} ({rule}) has no reason", 'say why it is accepted: reason = "..."')
    if not isinstance(entry.get("expires"), datetime.date) or isinstance(entry.get("expires"), datetime.datetime):
        raise _usage(f"{where} ({rule}) has no date on which it expires", "write expires = 2027-01-31, without quotes")


def _struct(kind: type, table: object, source: str, path: str) -> Any:
    if not isinstance(table, Mapping):
        raise _usage(f"{source}: {path or 'the budget'} is not a table", "write it as [table] with key = value lines")
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    values = {}
    for key, value in table.items():
        here = f"{path}.{key}" if path else key
        # TOML's usual spelling has hyphens.
        name = key.replace("-", "_")
        if name not in fields:
            raise _usage(f"{source}: unknown key {here!r}", _closest(name, list(fields)))
        values[name] = _value(fields[name].type, value, source, here)
    try:
        return kind(**values)
    except TypeError as error:
        missing = [name for name, field in fields.items() if field.required and name not in values]
        raise _usage(f"{source}: {path} lacks {', '.join(missing)}", "add it") from error


def _closest(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known keys: {', '.join(known)}"


def _value(kind: Any, value: object, source: str, path: str) -> Any:
    for member in typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,):
        if typing.get_origin(member) is Annotated:
            return _quantity(value, typing.get_args(member)[1], source, path)
        if isinstance(member, type) and issubclass(member, _Table):
            return _struct(member, value, source, path)
    if path == "ignore" and isinstance(value, list):
        return tuple(_struct(Ignore, entry, source, "ignore") for entry in value)
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        raise _usage(f"{source}: {path} = {value!r} is not allowed", f"{_allowed(kind)}") from error


def _quantity(value: object, kind: Kind, source: str, path: str) -> Quantity:
    try:
        return parse_quantity(value, kind)
    except ValueError as error:
        message, _, hint = str(error).partition("; ")
        raise _usage(f"{source}: {path}: {message}", hint) from error


def _allowed(kind: Any) -> str:
    """The values that a field's type admits, in words."""
    for member in (kind, *typing.get_args(kind)):
        if typing.get_origin(member) is Literal:
            return f"allowed: {', '.join(map(repr, typing.get_args(member)))}"
    text = str(kind)
    words = {"bool": "true or false", "int": "a whole number", "tuple": "a list of names"}
    return f"allowed: {next((word for name, word in words.items() if name in text), 'text')}"


def _usage(message: str, hint: str) -> FtprofError:
    return FtprofError(message, hint, Exit.USAGE)
