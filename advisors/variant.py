"""A workload with its changes, and the worker that holds it while one is needed.

Method: Before and after (docs/method.md).
"""

from __future__ import annotations

from ftprof.advisors.context import Context
from ftprof.advisors.conversions import with_built
from ftprof.advisors.worker import Loaded
from ftprof.profiler.processes import Handle, settle
from ftprof.profiler.workload import Workload

Times = dict[str, float]


class Variant:
    """Starts its worker when it is first asked for, and again after `close`."""

    def __init__(self, context: Context, name: str, workload: Workload) -> None:
        self.context = context
        self.name = name
        self.workload = workload
        self._handle: Handle | None = None
        self.loaded: Loaded | None = None
        self.evict: tuple[str, ...] = ()
        """Files that the next load must read from the disk again."""

    def handle(self) -> Handle:
        """A live worker with the workload loaded. WorkerDied or FtprofError where it cannot be had."""
        if self._handle is None or not self._handle.alive:
            self.close()
            workload = with_built(self.context, self.workload)
            fresh = self.context.start(self.name)
            try:
                self.loaded = fresh.call("load", workload, self.evict, timeout_s=self.context.patience())
            except BaseException:
                fresh.close()
                raise
            self._handle = fresh
        return self._handle

    @property
    def up(self) -> bool:
        """Whether its worker runs, and therefore already has its memory."""
        return self._handle is not None and self._handle.alive

    def rest(self) -> None:
        """Stop the worker until its next request, if there is one."""
        if self._handle is not None:
            self._handle.rest()

    def close(self) -> None:
        """End the worker, if there is one."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None


class VariantArm:
    """One side of a duel; its worker stays up, stopped while the other side runs."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant

    def enter(self, scenario: str, unit: int) -> None:
        settle()
        # The first run after a switch finds cold caches; a short one takes that instead of a whole sample.
        self.variant.handle().call("warm", scenario, unit, timeout_s=self.variant.context.patience())

    def sample(self, scenario: str, unit: int) -> Times:
        context = self.variant.context
        times: Times = self.variant.handle().call("unit", scenario, unit, timeout_s=context.patience())
        return times

    def leave(self) -> None:
        self.variant.rest()


class RestartArm(VariantArm):
    """One side whose worker is ended after each block: for two variants that do not fit in memory together."""

    def leave(self) -> None:
        self.variant.close()


class SameArm(VariantArm):
    """The other side in the very same worker, which is therefore never stopped."""

    def leave(self) -> None:
        pass
