"""Rules over traces: one file each, found by walking this folder. Adding one edits no other file."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache
from types import ModuleType

import msgspec

from ftprof.advisors.rules import SECTIONS, load_rules, unknown_rule
from ftprof.advisors.trace_rule import TraceFinding, TraceRule
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.traces.model import FileAnalysis


def _faults(stem: str, module: ModuleType) -> Iterable[str]:
    rule, page = getattr(module, "RULE", None), module.__doc__ or ""
    if not isinstance(rule, TraceRule):
        yield "its last statement must be RULE = TraceRule(...)"
        return
    if rule.name != stem.replace("_", "-"):
        yield f"its rule is called {rule.name!r}, not {stem.replace('_', '-')!r}"
    missing = [section for section in SECTIONS if section not in page.splitlines()]
    if missing:
        yield f"its docstring lacks {', '.join(missing)}"


def read_trace_rule(stem: str, module: ModuleType) -> TraceRule:
    """The rule of one module, its page filled from the docstring. FtprofError that names the file's fault."""
    for fault in _faults(stem, module):
        raise FtprofError(f"trace rule file {stem}.py: {fault}", "mend or remove the file", Exit.BUG)
    rule: TraceRule = module.RULE
    return msgspec.structs.replace(rule, page=(module.__doc__ or "").strip() + "\n")


@cache
def load_trace_rules() -> tuple[TraceRule, ...]:
    """Every rule of this folder, sorted by name. FtprofError where a file is not a rule."""
    stems = [info.name for info in pkgutil.iter_modules(__path__)]
    rules = [read_trace_rule(stem, importlib.import_module(f"{__name__}.{stem}")) for stem in stems]
    return tuple(sorted(rules, key=lambda rule: rule.name))


def rule_names() -> tuple[str, ...]:
    """All names that have a page, of both kinds of rules, sorted."""
    return tuple(sorted({rule.name for rule in load_rules()} | {rule.name for rule in load_trace_rules()}))


def pages_of(name: str) -> tuple[str, ...]:
    """The pages of the rules called `name`: of the rule on models, then of the one on traces, as far as there are.

    FtprofError with the nearest name where there is neither.
    """
    if name not in rule_names():
        raise unknown_rule(name, rule_names())
    models = [f"# {rule.name}: {rule.title}\n\n{rule.page}" for rule in load_rules() if rule.name == name]
    traces = [
        f"# {rule.name}, in traces: {rule.title}\n\n{rule.page}" for rule in load_trace_rules() if rule.name == name
    ]
    return (*models, *traces)


def find(file: FileAnalysis) -> tuple[TraceFinding, ...]:
    """What the rules see in one file, the severest first; empty for a healthy trace, and for one without a device."""
    found = [finding for rule in load_trace_rules() if (finding := rule.detect(file)) is not None]
    return tuple(sorted(found, key=lambda finding: -finding.severity))
