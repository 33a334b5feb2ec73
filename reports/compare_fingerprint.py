"""Did two audits measure under the same conditions? Every field that differs, and which times it forbids to compare."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ftprof.advisors.audit import Audit
from ftprof.profiler.workload import Call
from ftprof.reports.compare_document import Difference, Group

ALL = "*"
ALLOWED = ("torch", "call")
"""What `--allow` may overrule. Another machine or other data never: there the figures answer another question."""
# How many rows a call has and how long it is padded decides how much work a sample is; the other settings are how the
# model is called, which is what a change under review may change: they are named, and compared.
AMOUNT = {"batch_size": "batch/*", "pad_to": ALL, "threads": ALL, "new_tokens": ""}
ABSENT = "not recorded"
DIGITS = 12
"""Of a digest: enough to tell files apart, short enough to read."""


def differences(base: Audit, head: Audit, allow: Collection[str] = ()) -> tuple[Difference, ...]:
    """Fields that differ, most restrictive groups first. `allow` holds names of ALLOWED whose times are compared anyway."""
    found = [*_machine(base, head), *_workload(base, head), *_call(base, head, allow), *_versions(base, head, allow)]
    return (*found, *_model(base, head))


def _pair(field: str, group: Group, base: object, head: object, stops: str = "") -> Iterator[Difference]:
    if base != head:
        yield Difference(field=field, group=group, base=_shown(base), head=_shown(head), stops=stops)


def _shown(value: object) -> str:
    return ABSENT if value is None or value == "" else str(value)


def _machine(base: Audit, head: Audit) -> Iterator[Difference]:
    a, b = base.machine, head.machine
    if a is None or b is None:
        yield from _pair("machine", "machine", a and a.cpu, b and b.cpu, ALL)
        return
    for field in ("device", "cpu", "cores", "threads"):
        yield from _pair(field, "machine", getattr(a, field), getattr(b, field), ALL)
    # Whole GiB: the kernel's own share shifts the byte count between boots.
    yield from _pair("memory, GiB", "machine", a.memory_bytes >> 30, b.memory_bytes >> 30, ALL)
    yield from _pair("instruction sets", "machine", " ".join(a.isa), " ".join(b.isa), ALL)


def _workload(base: Audit, head: Audit) -> Iterator[Difference]:
    a, b = base.workload, head.workload
    yield from _pair("task", "workload", a.task, b.task, ALL)
    yield from _pair("data sha256", "workload", a.rows_digest[:DIGITS], b.rows_digest[:DIGITS], ALL)
    if a.rows_digest == b.rows_digest and a.prompt_tokens != b.prompt_tokens:
        # Same text, other ids: another tokenizer or template, so a sample is another amount of work.
        yield from _pair("prompt tokens", "workload", sum(a.prompt_tokens), sum(b.prompt_tokens), ALL)
        if sum(a.prompt_tokens) == sum(b.prompt_tokens):
            yield from _pair("prompt tokens by row", "workload", a.prompt_tokens, b.prompt_tokens, ALL)
    names = dict.fromkeys(scenario.name for scenario in (*a.scenarios, *b.scenarios))
    for name in names:
        yield from _scenario(name, base, head)


def _scenario(name: str, base: Audit, head: Audit) -> Iterator[Difference]:
    a, b = _units(base, name), _units(head, name)
    if a is not None and b is not None and a != b:
        yield from _pair(f"{name}: rows of the samples", "workload", _rows(a), _rows(b), f"{name}/*")
    # More new tokens make the whole longer, but not its first token and not the time of each further one.
    field = f"{name}: new tokens"
    yield from _pair(field, "workload", base.workload.tokens(name), head.workload.tokens(name), f"{name}/e2e")


def _units(audit: Audit, name: str) -> tuple[tuple[int, ...], ...] | None:
    return next((scenario.units for scenario in audit.workload.scenarios if scenario.name == name), None)


def _rows(units: tuple[tuple[int, ...], ...]) -> str:
    return "; ".join(",".join(map(str, unit)) for unit in units)


def _call(base: Audit, head: Audit, allow: Collection[str]) -> Iterator[Difference]:
    for field in Call.__struct_fields__:
        stops = "" if "call" in allow else AMOUNT.get(field, "")
        a, b = getattr(base.workload.call, field), getattr(head.workload.call, field)
        yield from _pair(f"call.{field}", "call", a, b, stops)


def _versions(base: Audit, head: Audit, allow: Collection[str]) -> Iterator[Difference]:
    a, b = base.environment, head.environment
    for package in sorted({*a.packages, *b.packages}):
        before, after = a.packages.get(package), b.packages.get(package)
        stops = ALL if package == "torch" and package not in allow and _minor(before) != _minor(after) else ""
        yield from _pair(package, "versions", before, after, stops)
    yield from _pair("python", "versions", a.python, b.python)
    yield from _pair("ftprof", "versions", base.ftprof_version, head.ftprof_version)
    yield from _pair("platform", "system", a.platform, b.platform)
    for name in sorted({*a.variables, *b.variables}):
        yield from _pair(name, "system", a.variables.get(name), b.variables.get(name))


def _minor(version: str | None) -> str | None:
    return version and ".".join(version.split(".")[:2])


def _model(base: Audit, head: Audit) -> Iterator[Difference]:
    yield from _pair("model", "model", base.model.name, head.model.name)
    a, b = base.model.facts, head.model.facts
    if a is None or b is None:
        return
    for field in ("architecture", "parameters", "dtype", "attention", "use_cache", "engine"):
        yield from _pair(field, "model", getattr(a, field), getattr(b, field))
    yield from _pair("adapter rank", "model", _rank(base), _rank(head))


def _rank(audit: Audit) -> int | str | None:
    return audit.model.adapter.rank if audit.model.adapter else "no adapter"
