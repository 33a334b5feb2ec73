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


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-engines", description=__doc__)
    parser.add_argument("--only", action="append", choices=SAMPLES, help="this sample alone")
    parser.add_argument("--quads", type=int, default=8, help="at most so many quads of the decisive scenario")
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--quick", action="store_true", help="one recipe a rule and few samples: does it all run?")
    parser.add_argument("--out", type=Path, default=Path("build/engines"))
    options = parser.parse_args()
    if options.quick:
        options.quads, options.new_tokens = 3, 12
        options.out = options.out.with_name(options.out.name + "-quick")
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    options.out.mkdir(parents=True, exist_ok=True)
    met = [_sample(name, options) for name in options.only or SAMPLES]
    return 0 if all(met) else 1


def _sample(name: str, options: argparse.Namespace) -> bool:
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
    return _report(name, list(_read(path)))


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def _report(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    base = [row for row in rows if row.get("baseline")][-1]
    # An earlier run may have found the other baseline faster; its ratios are not to be mixed with these.
    timed = {row["candidate"]: row for row in rows if row.get("over") == base["candidate"]}
    print(f"\n{name}; baseline: {base['candidate']}, quality {_quality(base)}\n")
    print("| engine | over the baseline | by phase | quality, two splits | on disk | ready after | break-even |")
    print("|---|---|---|---|---|---|---|")
    for row in timed.values():
        print(
            f"| {row['candidate']} | {_ratio(row['speedup'])} | {_phases(row)} | {_quality(row)} | "
            f"{_size(row['size_bytes'])} | {row['ready_s']:.1f} s | {_break_even(row)} |"
        )
    for row in rows:
        if "error" in row:
            print(f"| {row['candidate']} | failed: {row['error']} | | | | | |")
    for peer in ("llama.cpp", "OpenVINO GenAI", "Olive"):
        print(f"| {peer} | not measured: this bench does not run it yet | | | | | |")
    return _goals(timed)


def _goals(timed: Mapping[str, Mapping[str, Any]]) -> bool:
    passing = [row for row in timed.values() if row["quality"] and all(q["verdict"] == "pass" for q in row["quality"])]
    best = max(passing, key=lambda row: float(row["speedup"][0]), default=None)
    loaded = timed.get("PyTorch, as loaded")
    print()
    if best is None or loaded is None:
        print("no variant passed on both splits, or the model as loaded was not timed")
        return False
    over_loaded = best["speedup"][0] / loaded["speedup"][0]
    goals = (
        ("over a competent baseline", best["speedup"][0], OVER_COMPETENT),
        ("over the directory as loaded (from two ratios, not measured directly)", over_loaded, OVER_LOADED),
    )
    for what, found, goal in goals:
        print(f"best passing variant, {best['candidate']}: {found:.2f}x {what}; goal {goal}x: {_met(found >= goal)}")
    split = [row["candidate"] for row in timed.values() if len({q["verdict"] == "pass" for q in row["quality"]}) > 1]
    print(f"variants that pass on one split and not on the other: {', '.join(split) or 'none'}")
    return not split and all(found >= goal for _, found, goal in goals)


def _met(met: bool) -> str:
    return "met" if met else "short"


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
