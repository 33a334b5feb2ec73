"""JSON settings files of the Hugging Face formats: open-ended objects, read through typed look-ups."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec

from ftprof.profiler.errors import FtprofError


class ConfigFile(msgspec.Struct, frozen=True):
    """One JSON object and where it came from.

    The look-ups take several names, because model families call the same thing differently, and give the first that is
    there with a value of the right type; None where there is none.
    """

    path: str
    values: dict[str, object]

    def integer(self, *names: str) -> int | None:
        """A whole number (also where it was written as 12.0)."""
        found = self.number(*names)
        return int(found) if found is not None and math.isfinite(found) and found == int(found) else None

    def number(self, *names: str) -> float | None:
        """A number; true and false are none."""
        for name in names:
            found = self.values.get(name)
            if isinstance(found, int | float) and not isinstance(found, bool):
                return found
        return None

    def text(self, *names: str) -> str | None:
        """A string that is not empty."""
        return next((found for name in names if isinstance(found := self.values.get(name), str) and found), None)

    def flag(self, name: str) -> bool | None:
        """True or false."""
        found = self.values.get(name)
        return found if isinstance(found, bool) else None

    def strings(self, name: str) -> tuple[str, ...]:
        """A list of strings (one string counts as a list of one); empty where it is absent."""
        found = self.values.get(name)
        listed = [found] if isinstance(found, str) else found if isinstance(found, list) else []
        return tuple(item for item in listed if isinstance(item, str))

    def table(self, name: str) -> ConfigFile | None:
        """A nested object."""
        found = self.values.get(name)
        return ConfigFile(f"{self.path}: {name}", found) if isinstance(found, dict) else None


def read_config(path: Path) -> ConfigFile:
    """Reads a JSON object. Raises FtprofError where the file cannot be read, is not JSON, or is not an object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise FtprofError(
            f"cannot read {path}: {error.strerror or error}", "check the file and its permissions"
        ) from error
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else "nested too deeply"
        raise FtprofError(f"{path} is not valid JSON: {reason}", "repair the file, or save the model again") from error
    if not isinstance(found, dict):
        raise FtprofError(f"{path} is not a JSON object", "repair the file, or save the model again")
    return ConfigFile(str(path), found)


def read_config_if_there(path: Path) -> ConfigFile | None:
    """As `read_config`; None where there is no such file."""
    return read_config(path) if path.is_file() else None
