"""Go on from an earlier audit of the same model: what was decided stays decided, what was not tried is tried."""

from __future__ import annotations

from ftprof.advisors.audit import Audit, Trial
from ftprof.profiler.errors import Exit, FtprofError

DECIDED = ("kept", "reverted", "refused", "failed")


def decided(previous: Audit, current: Audit) -> tuple[Trial, ...]:
    """The earlier trials that hold for this run. FtprofError, naming what differs, where the runs do not match."""
    checks = {
        "the model": (previous.model.sha256, current.model.sha256),
        "the data": (previous.workload.rows_digest, current.workload.rows_digest),
        "the call file": (previous.workload.call, current.workload.call),
        "--objective": (previous.settings.objective, current.settings.objective),
        "--device": (previous.workload.device, current.workload.device),
        "the machine": (previous.environment.fingerprint, current.environment.fingerprint),
    }
    for what, (before, now) in checks.items():
        if before != now:
            raise FtprofError(
                f"{what} is not what the earlier run had, so it cannot be resumed",
                "start again without --resume, into another --out",
                Exit.USAGE,
            )
    return tuple(trial for trial in previous.trials if trial.status in DECIDED)
