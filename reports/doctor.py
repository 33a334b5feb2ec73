"""The examination of a machine as text and as JSON."""

from __future__ import annotations

import msgspec
from rich.console import Console

from ftprof.advisors.doctor import Health, Trouble
from ftprof.reports import units
from ftprof.reports.clean import cleaned
from ftprof.reports.gate_views import print_table, say
from ftprof.reports.table import Table, table

STYLES = {"forbids": "bold red", "spoils": "yellow", "note": "dim"}
WORDS = {"forbids": "forbids measuring", "spoils": "spoils figures", "note": "good to know"}


def as_json(health: Health) -> str:
    """The whole examination as JSON, one line feed at its end."""
    return msgspec.json.format(msgspec.json.encode(health), indent=2).decode() + "\n"


def render(health: Health, console: Console) -> None:
    """Print the verdict, what to mend, and what was seen."""
    health = cleaned(health)
    bad = [one for one in health.troubles if one.severity != "note"]
    if health.exit_code:
        say(console, "NOT FIT TO MEASURE", "bold red")
    else:
        say(console, "FIT TO MEASURE" + (", with reservations" if bad else ""), "bold green")
    say(console, _noise(health))
    for one in sorted(health.troubles, key=lambda found: list(STYLES).index(found.severity)):
        _trouble(one, console)
    for shown in (machine(health), versions(health)):
        print_table(console, shown)


def _noise(health: Health) -> str:
    noise = health.noise
    if noise is None:
        return "Noise: not measured."
    return (
        f"The same operation in two processes: {units.speedup(noise.ratio)} over {noise.ratio.pairs} pairs. "
        f"A usual run can show changes from {units.percent(noise.provable)} on."
    )


def _trouble(one: Trouble, console: Console) -> None:
    console.print()
    say(console, f"{WORDS[one.severity]}: {one.what}", STYLES[one.severity])
    say(console, f"  because {one.why}")
    say(console, f"  mend it: {one.fix}")


def machine(health: Health) -> Table:
    """Processors, memory, disks and GPUs."""
    seen, cpu = health.host, health.host.cpu
    quota = "no limit" if cpu.quota is None else f"{cpu.quota:g} processors"
    turbo = {True: "on", False: "off", None: "not known"}[cpu.turbo]
    limit = "no limit" if seen.memory_limit_bytes is None else units.size(seen.memory_limit_bytes)
    rows = [
        ("Processor", cpu.model),
        ("Processors", f"{cpu.allowed} of {cpu.online} may be used; container: {quota}"),
        ("Load before", units.ABSENT if cpu.load is None else f"{cpu.load:.2f}"),
        ("Governor, turbo", f"{cpu.governor or 'not known'}, {turbo}"),
        ("Memory", f"{units.size(seen.available_bytes)} of {units.size(seen.memory_bytes)} free; container: {limit}"),
        ("Swap in use", units.size(seen.swap_used_bytes)),
        *((f"Free in {one.path}", units.size(one.free_bytes)) for one in seen.storage),
        *((f"GPU {index}", _gpu(health, index)) for index in range(len(health.gpus))),
        *((name, value) for name, value in seen.variables.items()),
    ]
    rows += [] if health.gpus else [("GPU", health.gpu_note)]
    return table("This machine", ("What", "Seen"), rows, words=2)


def _gpu(health: Health, index: int) -> str:
    found = health.gpus[index]
    return (
        f"{found.name}, driver {found.driver}, {units.size(found.used_bytes)} of {units.size(found.memory_bytes)} used"
    )


def versions(health: Health) -> Table:
    """What is installed of what moves the figures."""
    rows = [("Python", health.python), ("Platform", health.platform), *sorted(health.packages.items())]
    rows += [(name, "not installed") for name in health.absent]
    return table("Versions", ("What", "Version"), rows, words=2)
