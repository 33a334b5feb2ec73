"""Take out of an audit what is nobody else's business: home paths, user and host names, secrets, prompts.

A redacted audit is still an audit: same types, same figures, and its lines of code still load the model for the person
who ran it.
"""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

from ftprof.advisors.audit import Audit
from ftprof.profiler.workload import Row
from ftprof.reports.redact_patterns import GENERIC, VOCABULARY, hide_secrets, secret_name

Hide = Callable[[str], str]
PROMPT_FIELDS = frozenset({"prompt", "prompts", "completion", "completions", "reply", "replies", "text", "texts"})
PROMPT_START = 24
"""Characters of a prompt that betray it: errors of libraries quote the beginning. Shorter prompts count whole."""
PROMPT_LEAST = 8
"""A prompt shorter than this is a word that may stand anywhere for its own reasons."""
LONG_NAME = 5
"""From this length on a name is also taken out of words that it is joined to by digits or underscores; "max" in
`max_length` is no person."""


def redacted(
    audit: Audit,
    *,
    home: str | None = None,
    user: str | None = None,
    host: str | None = None,
    include_prompts: bool = False,
    prompts: Sequence[str] = (),
) -> Audit:
    """`audit` without home paths, names of user and host, secrets and, unless `include_prompts`, prompts.

    `home`, `user` and `host` are this process's where they are None. `prompts` are the texts of the run's rows, which
    messages of libraries may have quoted. Paths below home begin with "~" and are expanded again in the lines that load
    the model. Redacting twice changes nothing.
    """
    hide = _hider(
        str(Path.home()) if home is None else home,
        _user() if user is None else user,
        socket.gethostname() if host is None else host,
        () if include_prompts else prompts,
    )
    found: Audit = _walk(audit, hide, include_prompts)
    return _usable(found)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user id need not have a name
        return ""


def _hider(home: str, user: str, host: str, prompts: Sequence[str]) -> Hide:
    """All replacements in one function, the longest matches first."""
    folder = home.rstrip("/\\")
    homes = re.compile(re.escape(folder) + r"(?![\w.-])") if len(folder) > 1 else None
    others = re.compile(
        r"(?<![A-Za-z_.~])((?:/[\w.-]+){0,2}/(?:home|Users)/|[A-Za-z]:\\+Users\\+)(?!<user>)[^/\\\s\"':,;]+"
    )
    names = [_name(name, f"<{label}>") for name, label in _names(user, host)]
    starts = [_start(prompt) for prompt in prompts if len(prompt.strip()) >= PROMPT_LEAST]

    def hide(text: str) -> str:
        for prompt in starts:
            text = prompt(text)
        text = hide_secrets(text)
        if homes is not None:
            text = homes.sub("~", text)
        text = others.sub(r"\1<user>", text)
        for name in names:
            text = name(text)
        return text

    return hide


def _names(user: str, host: str) -> list[tuple[str, str]]:
    """The user's name, and the host's with and without its domain."""
    short = host.partition(".")[0]
    found = [(host, "host")] + ([(short, "host")] if short != host else []) + [(user, "user")]
    return [(name, label) for name, label in found if name]


def _name(name: str, placeholder: str) -> Hide:
    """Replaces `name` as a word; one that identifies nobody, or is a word of the report, only where it names a person."""
    escaped = re.escape(name)
    if name.lower() in GENERIC | VOCABULARY or len(name) < 3:
        pattern = rf"(?<![\w.-]){escaped}(?=@[\w.-]+)|(?<=@){escaped}(?![\w-])"
    else:
        edge = "A-Za-z" if len(name) >= LONG_NAME else r"\w"
        pattern = rf"(?<![{edge}]){escaped}(?![{edge}])"
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda text: compiled.sub(placeholder, text)


def _start(prompt: str) -> Hide:
    whole = prompt.strip()
    # A quotation may have been escaped or broken differently: any white space between the words counts.
    words = r"(?:\s|\\n|\\t)+".join(map(re.escape, whole[:PROMPT_START].split()))
    first = whole[:PROMPT_LEAST].split()[0]
    compiled = re.compile(words + r"[^\n\"']*")

    def hide(text: str) -> str:
        # Most texts hold no prompt; a plain search is much cheaper than the pattern.
        return compiled.sub("<prompt>", text.replace(whole, "<prompt>")) if first in text else text

    return hide


def _walk(value: Any, hide: Hide, include_prompts: bool) -> Any:
    """A copy of `value` with `hide` applied to every string; values that a type fixes stay."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Row) and not include_prompts:
        return Row(prompt="<prompt>", completion=value.completion and "<completion>", label=value.label)
    if isinstance(value, msgspec.Struct):
        names = _open_fields(type(value))
        changed = {name: _member(name, getattr(value, name), hide, include_prompts) for name in names}
        return msgspec.structs.replace(value, **changed)
    if isinstance(value, dict):
        return {hide(key): _member(key, item, hide, include_prompts) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_walk(item, hide, include_prompts) for item in value)
    return value


def _member(name: str, value: Any, hide: Hide, include_prompts: bool) -> Any:
    if isinstance(value, str) and value and secret_name(name):
        return "<secret>"
    if name in PROMPT_FIELDS and not include_prompts:
        if isinstance(value, str) and value:
            return "<prompt>"
        if isinstance(value, tuple | list):
            return type(value)("<prompt>" if isinstance(item, str) else item for item in value)
    return _walk(value, hide, include_prompts)


@cache
def _open_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a type that may hold words from outside."""
    return tuple(field.name for field in msgspec.structs.fields(kind) if not _fixed(field.type))


def _fixed(kind: object) -> bool:
    """Whether a field's type admits only words of our own."""
    return get_origin(kind) is Literal or any(get_origin(member) is Literal for member in get_args(kind))


def _usable(audit: Audit) -> Audit:
    """Code and command of a redacted audit made to work: Python does not expand "~", nor does a shell inside quotes."""
    final = audit.final
    if final is not None:
        artefact = final.artefact
        if artefact is not None:
            artefact = msgspec.structs.replace(artefact, load=expanded(artefact.load))
        final = msgspec.structs.replace(final, artefact=artefact, load_lines=expanded(final.load_lines))
    advice = tuple(msgspec.structs.replace(entry, steps=expanded(entry.steps)) for entry in audit.advice)
    command = re.sub(r"'~/", "~/'", audit.command)
    return msgspec.structs.replace(audit, final=final, advice=advice, command=command)


def expanded(lines: str) -> str:
    """Python source whose string literals that begin with "~/" name the files that they are meant to."""
    found = re.sub(r"(?<!expanduser\()(['\"])(~/[^'\"\n]*)\1", r"os.path.expanduser(\1\2\1)", lines)
    return found if found == lines or re.search(r"^import os$", lines, re.MULTILINE) else f"import os\n{found}"
