"""The one exception that reaches a person: what happened, what to do, and the exit code."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of the command line."""

    DONE = 0
    GATE_FAILED = 1
    USAGE = 2
    UNRELIABLE = 3
    UNUSABLE = 4
    NOTHING = 5
    BUG = 70
    INTERRUPTED = 130


class FtprofError(Exception):
    """A fault that the user can act on.

    `message` is one line of what happened, with the user's own value in it; `hint` is one line of what to do.
    """

    def __init__(self, message: str, hint: str, exit_code: int = Exit.UNUSABLE) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = int(exit_code)

    def __reduce__(self) -> tuple[type[FtprofError], tuple[str, str, int]]:
        # Crosses the pipe from a worker; the default would lose the hint.
        return (type(self), (self.message, self.hint, self.exit_code))
