"""`python -m benchmarks.truth`: run planted cases, go on where the last run stopped, and write docs/truth.*."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

KINDS = {
    "limits": "limits",
    "verdicts": "verdict",
    "delays": "delay",
    "tokeniser": "tokeniser",
    "lora": "lora",
    "paired": "paired",
    "fresh": "fresh",
    "damage": "damage",
    "predictions": "prediction",
}
"""Kinds of case, and the modules that make and run them."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-truth", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=tuple(KINDS), help="this kind of case alone; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="a few cases of each kind, under ten minutes")
    parser.add_argument("--seed", type=int, default=0, help="draws other cases")
    parser.add_argument("--minutes", type=float, default=90.0, help="begin no case after this many")
    parser.add_argument("--out", type=Path, default=Path("build/truth"), help="where cases and the summary go")
    parser.add_argument("--docs", action="store_true", help="also write docs/truth.json, docs/truth.md and pictures")
    options = parser.parse_args()
    _quieten()
    # Earlier runs must not correct the predictions that are scored here.
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="ftprof-truth-")
    name = f"{'quick' if options.quick else 'full'}-{options.seed}.jsonl"
    path = options.out / name
    path.parent.mkdir(parents=True, exist_ok=True)
    _run(path, options.only or tuple(KINDS), options.seed, options.quick, options.minutes)
    return _report(path, options.docs)


def _quieten() -> None:
    """The runtimes' own chatter; the profiler says every start and stop otherwise."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)


def _run(path: Path, kinds: Any, seed: int, quick: bool, minutes: float) -> None:
    from ftprof.advisors.commit import commit
    from ftprof.profiler.machine import measure_machine

    modules = _modules()
    stamp = {"commit": commit(Path.cwd())[:12], "date": time.strftime("%Y-%m-%d", time.gmtime())}
    done = {(case["kind"], case["case"]) for case in _read(path)}
    begun, machine = time.monotonic(), None
    for kind in kinds:
        for number, case in enumerate(modules[kind].cases(seed, quick), 1):
            if (kind, case.name) in done:
                continue
            if time.monotonic() - begun > 60 * minutes:
                print(f"{minutes:g} minutes are over; the same command goes on from here", file=sys.stderr)
                return
            machine = machine or measure_machine(budget_s=10.0)
            begin = time.monotonic()
            result = _one(modules[kind].run, case, machine)
            result |= {"kind": kind, "case": case.name, "took_s": time.monotonic() - begin, **stamp}
            _keep_record(result, path.parent)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
            print(f"{kind} {number}: {_line(result)}", flush=True)


def _keep_record(result: dict[str, Any], folder: Path) -> None:
    """Moves the record of a case that was judged wrong to a file of its own, with the label that it should get."""
    record = result.pop("record", None)
    if record is None:
        return
    (folder / "wrong").mkdir(exist_ok=True)
    name = re.sub(r"[^a-z0-9]+", "-", result["case"].lower()).strip("-")
    kept = {"label": result["label"], "case": result["case"], "record": json.loads(record)}
    (folder / "wrong" / f"{name}.json").write_text(json.dumps(kept), "utf-8")


def _one(run: Callable[[Any, Any], dict[str, Any]], case: Any, machine: Any) -> dict[str, Any]:
    """A case that fails is on record as such and counts against us."""
    try:
        return run(case, machine)
    except Exception as error:  # noqa: BLE001  the others go on
        return {"error": f"{type(error).__name__}: {error}"}


def _line(result: Mapping[str, Any]) -> str:
    keys = ("label", "found", "confidence", "true", "recovered", "verdict", "harmful", "prefill", "decode", "error")
    said = ", ".join(f"{key} {_short(result[key])}" for key in keys if key in result)
    return f"{result['case']}: {said} ({result['took_s']:.1f} s)"


def _short(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _modules() -> dict[str, ModuleType]:
    return {kind: import_module(f"benchmarks.truth.{name}_cases") for kind, name in KINDS.items()}


def _read(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        for line in path.read_text("utf-8").splitlines():
            yield json.loads(line)


def _published() -> dict[str, Any]:
    """The summary that docs/ holds; empty where there is none."""
    path = Path("docs/truth.json")
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def _report(path: Path, docs: bool) -> int:
    from benchmarks.truth.page import page
    from benchmarks.truth.score import summarise

    found = list(_read(path))
    failed = [case for case in found if "error" in case]
    cases = {kind: [case for case in found if case["kind"] == kind and "error" not in case] for kind in KINDS}
    summary = summarise(cases) | {"failed": [f"{case['case']}: {case['error']}" for case in failed]}
    if docs:
        # What was not run again stays, with the commit that it was measured at.
        summary = {key: part for key, part in _published().items() if key in KINDS} | summary
    for folder in (path.parent, *((Path("docs"),) if docs else ())):
        (folder / "truth.json").write_text(json.dumps(summary, indent=1, sort_keys=True) + "\n", "utf-8")
        (folder / "truth.md").write_text(page(summary, folder), "utf-8")
    print(page(summary, None))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
