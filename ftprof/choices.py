"""What the user typed, as values: choices, times and guards, each with a hint where it is not one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ftprof.profiler.errors import Exit, FtprofError

if TYPE_CHECKING:
    from ftprof.advisors.context import Options

OBJECTIVES = ("e2e", "ttft", "tpot", "throughput")
RUNTIMES = ("any", "torch")
LOSSES = ("exact", "rounding", "int8", "int4")


def usage(message: str, hint: str) -> FtprofError:
    """A fault of the command line."""
    return FtprofError(message, hint, Exit.USAGE)


def parse_budget(text: str) -> float:
    """Seconds from "300", "300s", "5m"; at least 10."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h)?", text.strip())
    if not found:
        raise usage(f"--budget {text!r} is not a time", "write it as 300s, 5m or 1h")
    seconds = float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2] or "s"]
    if seconds < 10:
        raise usage(f"--budget {text} is too short to measure anything", "give at least 10s; 300s is the default")
    return seconds


def parse_guards(texts: list[str] | None) -> dict[str, float]:
    """{"ttft": 1.1} from ["ttft=1.1"]."""
    guards = {}
    for text in texts or []:
        name, _, value = text.partition("=")
        try:
            guards[choice(name, OBJECTIVES, "--guard")] = float(value)
        except ValueError:
            raise usage(f"--guard {text!r} has no ratio", "write it as ttft=1.1") from None
        if guards[name] < 1:
            raise usage(f"--guard {text!r} is below 1", "give the most that the phase may slow down, such as 1.1")
    return guards


def choice(value: str, allowed: tuple[str, ...], option: str) -> str:
    """The value where it is allowed; FtprofError with the nearest that is, else."""
    if value not in allowed:
        import difflib

        near = difflib.get_close_matches(value, allowed, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(allowed)}"
        raise usage(f"{option} {value!r} is not known", hint)
    return value


def check_device(device: str) -> str:
    if device != "cpu" and not re.fullmatch(r"cuda(:\d+)?", device):
        raise usage(f"--device {device!r} is not known", "give cpu or cuda:0")
    if device.startswith("cuda"):
        try:
            import pynvml

            pynvml.nvmlInit()
        except Exception as error:
            raise FtprofError(
                f"no NVIDIA GPU can be used for --device {device}: {error}", "use --device cpu"
            ) from error
    return device


def options_of(
    objective: str, max_loss: str, runtime: str, guard: list[str] | None, no_fix: bool, save: Path | None
) -> Options:
    from ftprof.advisors.context import Options

    return Options(
        objective=choice(objective, OBJECTIVES, "--objective"),
        max_loss=choice(max_loss, LOSSES, "--max-loss"),  # type: ignore[arg-type]
        runtime=choice(runtime, RUNTIMES, "--runtime"),  # type: ignore[arg-type]
        guards=parse_guards(guard),
        fixes=not no_fix,
        save=save,
    )
