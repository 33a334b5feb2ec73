"""`python -m benchmarks.engines`: a table of every engine and precision on both samples, and whether goals are met."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SAMPLES = ("smollm2-tickets", "minilm-tickets")
OVER_COMPETENT, OVER_LOADED = 1.8, 2.5
PEERS = ("llama.cpp", "OpenVINO GenAI", "Olive")
INTRODUCTION = """# Engines and precisions

Written by `make bench-engines ARGS=--docs`: every conversion that the rules know, on both samples. Each variant runs in
turns with the baseline (merged, SDPA, the better of fp32 and bf16), in processes of their own, on two threads; the
ratio is that of the objective (end to end for the generator, a forward of the batch for the classifier), with its 95 %
interval. Outputs are judged against the model as loaded, on the held-out rows of the samples' own wording and on those
in other words. "Ready after" is conversion and loading, "break-even" the requests that earn it back."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-engines", description=__doc__)
    parser.add_argument("--only", action="append", choices=SAMPLES, help="this sample alone")
    parser.add_argument("--quads", type=int, default=8, help="at most so many quads of the decisive scenario")
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--quick", action="store_true", help="one recipe a rule and few samples: does it all run?")
    parser.add_argument("--report", action="store_true", help="measure nothing: the table of what earlier runs left")
    parser.add_argument("--docs", action="store_true", help="also write docs/engines.md")
    parser.add_argument("--out", type=Path, default=Path("build/engines"))
    options = parser.parse_args()
    if options.quick:
        options.quads, options.new_tokens = 3, 12
        options.out = options.out.with_name(options.out.name + "-quick")
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    options.out.mkdir(parents=True, exist_ok=True)
    pages, met = [INTRODUCTION], True
    for name in options.only or SAMPLES:
        if not options.report:
            _measure(name, options)
        rows = list(_read(options.out / f"{name}.jsonl"))
        if rows:
            lines, good = _report(name, rows)
            pages.append("\n".join(lines))
            met = met and good
    page = "\n\n".join(pages) + "\n"
    print(page)
    if options.docs:
        Path("docs/engines.md").write_text(page, "utf-8")
    return 0 if met else 1


def _measure(name: str, options: argparse.Namespace) -> None:
    from benchmarks.engines.measure import opened, rows_of

    path = options.out / f"{name}.jsonl"
    done = {(row["over"], row["candidate"]) for row in _read(path) if "over" in row}
    scratch = Path(tempfile.mkdtemp(prefix="ftprof-engines-"))
    sizes = {"quads": options.quads, "new_tokens": options.new_tokens, "first_only": options.quick}
    with opened(name, scratch, seconds=7200.0, **sizes) as bench:
        for row in rows_of(bench, done):
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{name}: {row['candidate']}: {row.get('speedup') or row.get('error') or 'baseline'}", flush=True)


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def _report(name: str, rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], bool]:
    """The table of one sample, and whether its goals are met."""
    base = [row for row in rows if row.get("baseline")][-1]
    # An earlier run may have found the other baseline faster; its ratios are not to be mixed with these.
    timed = {row["candidate"]: row for row in rows if row.get("over") == base["candidate"]}
    lines = [
        f"## {name}",
        "",
        f"Baseline: {base['candidate']}; quality {_quality(base)}.",
        "",
        "| engine | over the baseline | by phase | quality, two splits | on disk | ready after | break-even |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['candidate']} | {_ratio(row['speedup'])} | {_phases(row)} | {_quality(row)} | "
        f"{_size(row['size_bytes'])} | {row['ready_s']:.1f} s | {_break_even(row)} |"
        for row in timed.values()
    ]
    lines += [f"| {row['candidate']} | failed: {row['error']} | | | | | |" for row in rows if "error" in row]
    lines += [f"| {peer} | not measured: this bench does not run it yet | | | | | |" for peer in PEERS]
    said, met = _goals(timed, base)
    return [*lines, "", *(f"* {line}" for line in said)], met


def _goals(timed: Mapping[str, Mapping[str, Any]], base: Mapping[str, Any]) -> tuple[list[str], bool]:
    # The baseline is a variant too, and may be the best one that passes.
    every = [*timed.values(), {**base, "speedup": [1.0, 1.0, 1.0]}]
    passing = [row for row in every if row["quality"] and all(q["verdict"] == "pass" for q in row["quality"])]
    best = max(passing, key=lambda row: float(row["speedup"][0]), default=None)
    loaded = timed.get("PyTorch, as loaded")
    if best is None or loaded is None:
        return ["No variant passed on both splits, or the model as loaded was not timed."], False
    over_loaded = best["speedup"][0] / loaded["speedup"][0]
    goals = (
        ("over the competent baseline", best["speedup"][0], OVER_COMPETENT),
        ("over the directory as loaded (from two ratios, not measured directly)", over_loaded, OVER_LOADED),
    )
    lines = [
        f"Best variant that passed on both splits, {best['candidate']}: {found:.2f}x {what}; goal {goal}x: "
        f"{'met' if found >= goal else '**short**'}."
        for what, found, goal in goals
    ]
    split = [row["candidate"] for row in timed.values() if len({q["verdict"] == "pass" for q in row["quality"]}) > 1]
    lines.append(f"Pass on one split and not on the other: {', '.join(split) or 'none'}.")
    return lines, not split and all(found >= goal for _, found, goal in goals)


def _ratio(ratio: Sequence[float]) -> str:
    return f"{ratio[0]:.2f}x ({ratio[1]:.2f} to {ratio[2]:.2f})"


def _phases(row: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{scenario} {phase} {1e3 * seconds:.1f} ms ({row['ratios'][scenario][phase][0]:.2f}x)"
        for scenario, phases in row["seconds"].items()
        for phase, seconds in phases.items()
        if phase in ("prefill", "decode", "forward")
    )


def _quality(row: Mapping[str, Any]) -> str:
    return (
        " / ".join(
            f"{one['verdict']}"
            + "".join(
                f", {key} {one['figures'][key]:.2g}" for key in ("kl", "label_agreement") if key in one["figures"]
            )
            for one in row["quality"]
        )
        or "the reference itself"
    )


def _size(size: int | None) -> str:
    return "not known" if size is None else f"{size / 2**20:.0f} MiB"


def _break_even(row: Mapping[str, Any]) -> str:
    """Requests after which what it took to get ready is earned back."""
    scenario = row["seconds"].get("single") or next(iter(row["seconds"].values()))
    now = scenario.get("e2e")
    ratio = row["ratios"].get("single", next(iter(row["ratios"].values()))).get("e2e")
    if not now or not ratio or ratio[0] <= 1:
        return "never"
    return f"{row['ready_s'] / (now * (ratio[0] - 1)):.0f} requests"


if __name__ == "__main__":
    sys.exit(main())
