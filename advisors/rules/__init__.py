"""The rules: one file each, found by walking this folder. Adding one edits no other file.

Folders named in the variable FTPROF_RULES are walked too, for rules that belong to one house only.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import pkgutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType

import msgspec

from ftprof.advisors.rule import Rule
from ftprof.profiler.errors import Exit, FtprofError

SECTIONS = ("## What it detects", "## Why it is slow", "## Fix", "## When it backfires", "## Sources")


def _faults(stem: str, module: ModuleType) -> Iterable[str]:
    rule, page = getattr(module, "RULE", None), module.__doc__ or ""
    if not isinstance(rule, Rule):
        yield "its last statement must be RULE = Rule(...)"
        return
    if rule.name != stem.replace("_", "-"):
        yield f"its rule is called {rule.name!r}, not {stem.replace('_', '-')!r}"
    missing = [section for section in SECTIONS if section not in page.splitlines()]
    if missing:
        yield f"its docstring lacks {', '.join(missing)}"
    if sum(way is not None for way in (rule.rewrite, rule.apply, rule.convert)) > 1:
        yield "it has more than one of rewrite, apply and convert; a fix is one of them"
    if not rule.tasks:
        yield "it names no task"


def read_rule(stem: str, module: ModuleType) -> Rule:
    """The rule of one module, its page filled from the docstring. FtprofError that names the file's fault."""
    for fault in _faults(stem, module):
        raise FtprofError(f"rule file {stem}.py: {fault}", "see docs on adding a rule, or remove the file", Exit.BUG)
    rule: Rule = module.RULE
    return msgspec.structs.replace(rule, page=(module.__doc__ or "").strip() + "\n")


@cache
def load_rules() -> tuple[Rule, ...]:
    """Every rule of this folder and of FTPROF_RULES, sorted by name. Imports no torch. FtprofError where a file is not
    a rule."""
    ours = {info.name: importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)}
    rules = [read_rule(stem, module) for stem, module in {**ours, **_house_modules()}.items()]
    return tuple(sorted(rules, key=lambda rule: rule.name))


def _house_modules() -> dict[str, ModuleType]:
    folders = [Path(folder) for folder in os.environ.get("FTPROF_RULES", "").split(os.pathsep) if folder]
    return {path.stem: _module(path) for folder in folders for path in sorted(folder.glob("[a-z]*.py"))}


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"ftprof_house_rules.{path.stem}", path)
    assert spec is not None and spec.loader is not None, "a .py file always has a loader"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def get_rule(name: str) -> Rule:
    """The rule called `name`. FtprofError with the nearest name where there is none."""
    rules = {rule.name: rule for rule in load_rules()}
    if name in rules:
        return rules[name]
    raise unknown_rule(name, rules)


def unknown_rule(name: str, names: Iterable[str]) -> FtprofError:
    """The fault of asking for `name`, with the nearest of the names that there are."""
    near = difflib.get_close_matches(name.replace("_", "-"), list(names), n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}?" if near else "ftprof rules lists them all"
    return FtprofError(f"no rule called {name!r}", hint, Exit.USAGE)
