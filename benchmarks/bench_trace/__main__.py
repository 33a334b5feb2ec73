"""`python -m benchmarks.bench_trace`: one table of time and memory by file and tool, and whether the goals are met.

Tools take turns, and in every round begin with another one, so that a drift of the machine hits all of them alike.
Ratios are of runs of the same round.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bench_trace import synthetic
from benchmarks.bench_trace.tools import ROOT, Run, commands, has_hta, measure

V100 = "hta/df_index_resolver/df_index_resolver.json.gz"  # 54 MB unpacked, the largest public one with a GPU
H100 = "tracelens/h100/google_owlv2-large-patch14-ensemble__1016001.json.gz"
SIZES_MB = (62.5, 125.0, 250.0, 500.0)
FASTER, LEANER, OVER_GUNZIP = 10.0, 1 / 3, 4.0
GROWTH_MB = 0.2
"""Flat: resident megabytes that a megabyte of trace may add. A plain JSON parse adds 6 to 10."""
STRAIGHT = 1.25
"""Linear: seconds a megabyte of the largest over those of the smallest file."""
Key = tuple[str, str]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-trace", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="traces; two public ones beside the checkout without")
    parser.add_argument("--traces", type=Path, default=ROOT.parent / "shared" / "traces")
    parser.add_argument("--rounds", type=int, default=6, help="six are the fewest for a 95 %% interval")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES_MB)), help="megabytes of synthetic traces, or none")
    parser.add_argument("--hta-python", default=sys.executable, help="an interpreter that can import hta")
    parser.add_argument("--out", type=Path, default=Path("build/bench-trace"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    files = options.files or [path for path in (options.traces / V100, options.traces / H100) if path.is_file()]
    hta = options.hta_python if has_hta(options.hta_python) else None
    met: list[bool | None] = []
    if not files:
        print(f"no public traces at {options.traces}; give files", file=sys.stderr)
        met.append(None)
    if hta is None:
        print("HTA is not installed: make bench-trace installs it (extra `bench`)", file=sys.stderr)
        met.append(None)
    print("| file | tool | seconds, median (95 %) | peak memory | over ftprof's analysis, same round |")
    print("|---|---|---|---|---|")
    for path in files:
        met += _compared(path, hta, options.rounds)
    sizes = [] if options.sizes == "none" else [float(size) for size in options.sizes.split(",")]
    if sizes:
        met += _grown(sizes, options.out, max(1, options.rounds // 2))
    if None in met:
        print("\nsome goals were not measured", file=sys.stderr)
    return 0 if met and all(met) else 1


def interleaved(tools: dict[str, list[str]], rounds: int) -> dict[str, list[Run]]:
    """Runs of each tool, in turns; a warm-up round fills the page cache and is thrown away."""
    names = list(tools)
    found: dict[str, list[Run]] = {name: [] for name in names}
    for number in range(rounds + 1):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            run = measure(tools[name])
            if number:
                found[name].append(run)
    return found


def _compared(path: Path, hta: str | None, rounds: int) -> list[bool | None]:
    runs = interleaved(commands(path, hta), rounds)
    analysis = runs["ftprof: analysis alone"]
    for name, found in runs.items():
        _row(path.name, name, found, [run.wall_s / own.wall_s for run, own in zip(found, analysis, strict=True)])
    print()
    met: list[bool | None] = []
    if "HTA" in runs and not any(run.error for run in runs["HTA"]):
        speed = [run.wall_s / own.wall_s for run, own in zip(runs["HTA"], analysis, strict=True)]
        memory = [own.peak_bytes / run.peak_bytes for run, own in zip(runs["HTA"], analysis, strict=True)]
        met += [
            _goal(f"{path.name}: HTA's time over ftprof's analysis", speed, f"at least {FASTER:g}", least=FASTER),
            _goal(f"{path.name}: ftprof's memory over HTA's", memory, f"at most {LEANER:.2f}", most=LEANER),
        ]
    if "gunzip" in runs:
        start = _start_s()
        read = [run.wall_s - start for run in runs["ftprof: reading alone"]]
        over = [own / run.wall_s for own, run in zip(read, runs["gunzip"], strict=True)]
        what = f"{path.name}: reading without {start:.2f} s of starting Python, over gunzip"
        met.append(_goal(what, over, f"at most {OVER_GUNZIP:g}", most=OVER_GUNZIP))
    print()
    return met


def _start_s() -> float:
    """Seconds that an interpreter with ftprof's reader takes to start."""
    command = [sys.executable, "-c", "import ftprof.profiler.traces.open_trace"]
    return min(measure(command).wall_s for _ in range(3))


def _grown(sizes: Sequence[float], folder: Path, rounds: int) -> list[bool | None]:
    """Time and memory against size, on files made here and removed afterwards."""
    names = {size: folder / f"synthetic-{size:g}.json" for size in sizes}
    try:
        real = {size: synthetic.write(path, size) / 1e6 for size, path in names.items()}
        tools = {f"{size:g}": commands(path, None)["ftprof: analysis alone"] for size, path in names.items()}
        runs = interleaved(tools, rounds)
    finally:
        for path in names.values():
            path.unlink(missing_ok=True)
    for size in sizes:
        _row(f"synthetic, {real[size]:.0f} MB", "ftprof: analysis alone", runs[f"{size:g}"], [])
    print()
    small, large = min(sizes), max(sizes)
    first, last = runs[f"{small:g}"], runs[f"{large:g}"]
    if small == large or any(run.error for run in (*first, *last)):
        return [None]
    pairs = list(zip(first, last, strict=True))
    ratio = real[large] / real[small]
    grown = [(b.peak_bytes - a.peak_bytes) / 1e6 / (real[large] - real[small]) for a, b in pairs]
    return [
        _goal("time a megabyte, largest over smallest", [b.wall_s / a.wall_s / ratio for a, b in pairs],
              f"at most {STRAIGHT:g}", most=STRAIGHT),
        _goal("megabytes of memory added by a megabyte of trace", grown, f"at most {GROWTH_MB:g}", most=GROWTH_MB),
    ]  # fmt: skip


def _row(file: str, tool: str, runs: Sequence[Run], ratios: Sequence[float]) -> None:
    failed = next((run.error for run in runs if run.error), None)
    if failed:
        print(f"| {file} | {tool} | failed: {failed} | | |", flush=True)
        return
    peak = max(run.peak_bytes for run in runs) / 1e6
    over = _spell(ratios) if ratios else ""
    print(f"| {file} | {tool} | {_spell([run.wall_s for run in runs])} | {peak:.0f} MB | {over} |", flush=True)


def _goal(what: str, values: Sequence[float], said: str, *, least: float = 0.0, most: float = float("inf")) -> bool:
    from ftprof.profiler.order_statistics import interval

    met = least <= interval(values).median <= most
    print(f"{what}: {_spell(values)}; goal {said}: {'met' if met else 'MISSED'}", flush=True)
    return met


def _spell(values: Sequence[float]) -> str:
    from ftprof.profiler.order_statistics import interval

    found = interval(values)
    return f"{found.median:.3g} ({found.low:.3g} to {found.high:.3g})"


if __name__ == "__main__":
    sys.exit(main())
