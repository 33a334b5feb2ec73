"""What a long run tells whoever watches it. The command line draws it; a library user may ignore it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """`stage` names what is being done now; `note` is a finished sentence worth keeping on the screen."""

    def stage(self, name: str) -> None: ...

    def note(self, sentence: str) -> None: ...


class Silent:
    """Says nothing."""

    def stage(self, name: str) -> None:
        pass

    def note(self, sentence: str) -> None:
        pass
