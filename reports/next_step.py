"""The command to run next, from how an audit ended. Pure."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

from ftprof.advisors.audit import Audit

MORE_TIME = 3
"""How many times the budget to give where it did not suffice."""
SAVED_IN = "faster"


class Step(NamedTuple):
    """What it is good for, and the command."""

    why: str
    command: str


def next_step(audit: Audit, folder: Path, command: str) -> Step:
    """What to do with the audit that `command` wrote to `folder`.

    In this order: go on where it was cut off, check what was saved, save what is faster, give untried fixes time, read
    what the first rule is about.
    """
    settings, final = audit.settings, audit.final
    if not settings.complete:
        return Step("Go on where it stopped", again(command, folder))
    if final is not None and final.artefact is not None and final.artefact.reload == "ok":
        check = ["ftprof", "check", str(folder / "audit.json"), "--preset", "pre-deployment"]
        return Step("Before it is deployed", shlex.join(check))
    if final is not None and final.changes and final.objective and final.objective.verdict == "faster":
        return Step("Save the faster model", again(command, folder, "--save", SAVED_IN))
    if settings.fixes and any(trial.status == "not_tried" for trial in audit.trials):
        budget = f"{MORE_TIME * settings.budget_s:.0f}s"
        return Step("Give the fixes that were not tried more time", again(command, folder, "--budget", budget))
    return Step("Explain a rule", shlex.join(["ftprof", "explain", _first_rule(audit)]))


def again(command: str, folder: Path, *more: str) -> str:
    """`command` once more, with `more` options; `diagnose` goes on from what lies in `folder`."""
    words = [word for word in shlex.split(command) if word not in ("--force", "--resume")]
    if words[1:2] == ["diagnose"]:
        words = [*_without(words, "--out"), "--out", str(folder), "--resume"]
    for option in more:
        if option.startswith("--"):
            words = _without(words, option)
    return shlex.join([*words, *more])


def _without(words: list[str], option: str) -> list[str]:
    """The words without an option and its value, in both spellings."""
    kept = list(words)
    while option in kept:
        place = kept.index(option)
        del kept[place : place + 2]
    return [word for word in kept if not word.startswith(f"{option}=")]


def _first_rule(audit: Audit) -> str:
    named = [trial.rule for trial in audit.trials] + [entry.rule for entry in audit.advice if entry.finding]
    return named[0] if named else "unmerged-adapter"
