"""How the user calls the model, read from a TOML file into a `Call`."""

from __future__ import annotations

import difflib
import tomllib
import types
import typing
from pathlib import Path

import msgspec

from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.workload import Call

_AT_LEAST_ONE = ("batch_size", "pad_to", "new_tokens", "threads")


def load_call(path: str | None) -> Call:
    """Reads `path`; the defaults of `Call` where it is None.

    Raises FtprofError (usage) for a file that cannot be read, an unknown key, or a value that is not allowed, naming
    the key, the value and what is allowed.
    """
    if path is None:
        return Call()
    given = _read(Path(path).expanduser())
    fields = {field.name: field for field in msgspec.structs.fields(Call)}
    for key, value in given.items():
        if key not in fields:
            raise _usage(f"{path}: unknown key {key!r}", _closest(key, list(fields)))
        try:
            msgspec.convert(value, fields[key].type, strict=True)
        except msgspec.ValidationError as error:
            raise _refused(path, key, value, _allowed(fields[key].type)) from error
        if key in _AT_LEAST_ONE and isinstance(value, int) and value < 1:
            raise _refused(path, key, value, "a whole number of at least 1")
    call = msgspec.convert(given, Call, strict=True)
    _check_padding(path, call)
    return call


def _read(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise _usage(f"cannot read {path}: {error.strerror or error}", "check --call") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _usage(
            f"{path} is not valid TOML: {error}", 'write one setting a line, such as dtype = "bfloat16"'
        ) from error


def _check_padding(path: str, call: Call) -> None:
    if call.padding == "max_length" and call.pad_to is None:
        raise _usage(
            f'{path}: padding = "max_length" needs pad_to', "add the length in tokens, for example pad_to = 256"
        )
    if call.padding != "max_length" and call.pad_to is not None:
        raise _usage(
            f"{path}: pad_to = {call.pad_to} has no effect with padding = {_toml(call.padding)}",
            'add padding = "max_length", or leave pad_to out',
        )


def _closest(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known keys: {', '.join(known)}"


def _refused(path: str, key: str, value: object, allowed: str) -> FtprofError:
    return _usage(f"{path}: {key} = {_toml(value)} is not allowed", f"allowed: {allowed}")


def _toml(value: object) -> str:
    """A value as the user wrote it, near enough to be found in the file."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _allowed(kind: object) -> str:
    """The values that a field's type admits, in words."""
    if typing.get_origin(kind) is typing.Literal:
        return ", ".join(f'"{value}"' for value in typing.get_args(kind))
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return next(_allowed(member) for member in typing.get_args(kind) if member is not type(None))
    return {bool: "true or false", int: "a whole number"}.get(typing.cast("type", kind), "text")


def _usage(message: str, hint: str) -> FtprofError:
    return FtprofError(message, hint, Exit.USAGE)
