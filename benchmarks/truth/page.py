"""docs/truth.md from the summary: what was planted, what was found, and where it fell short."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.truth.score import LABELS, wilson

Summary = Mapping[str, Any]


def page(summary: Summary, folder: Path | None) -> str:
    """The whole page; pictures are written beside it where there is a folder."""
    return "\n".join([*_head(), *_bars(summary), *_measured(summary), *_body(summary, folder), ""])


def _head() -> Iterator[str]:
    yield "# How often ftprof is right"
    yield ""
    yield "Written by `make bench-truth`, which plants bottlenecks with known truth into bare stacks of operations and into"
    yield "real models, and runs the same measuring and diagnosing code on them that `ftprof diagnose` runs. `SEED=` draws"
    yield "other cases. What is not listed was not measured."
    yield ""


KINDS = {
    "limits": "limits",
    "verdicts": "verdicts",
    "delays": "planted delays",
    "tokeniser": "slow tokenisers",
    "lora": "LoRA",
    "paired": "comparisons and known effects",
    "fresh": "new processes",
    "damage": "the quality gate",
    "predictions": "predictions",
}


def _measured(summary: Summary) -> Iterator[str]:
    """When each part was run, and with which code."""
    found = [
        f"{said} on {', '.join(part['measured'])}"
        for kind, said in KINDS.items()
        if (part := summary.get(kind)) and part.get("measured")
    ]
    if found:
        yield f"Measured: {'; '.join(found)}."
        yield ""


class Bar(NamedTuple):
    """One goal that was measured: over how many cases, and whether it was met."""

    what: str
    goal: str
    found: str
    n: int
    met: bool


def _bars(summary: Summary) -> Iterator[str]:
    yield "| what | goal | found | n | |"
    yield "|---|---|---|---|---|"
    for bar in bars(summary):
        yield f"| {bar.what} | {bar.goal} | {bar.found} | {bar.n} | {'met' if bar.met else '**short**'} |"
    yield ""


def bars(summary: Summary) -> Iterator[Bar]:
    """Every goal that was measured."""
    makers: dict[str, Callable[[Summary], Iterator[Bar]]] = {
        "limits": _limit_bars,
        "verdicts": _verdict_bars,
        "delays": _delay_bars,
        "tokeniser": _tokeniser_bars,
        "lora": _lora_bars,
        "paired": _paired_bars,
        "damage": _damage_bars,
        "predictions": _prediction_bars,
    }
    for kind, maker in makers.items():
        if kind in summary:
            yield from maker(summary[kind])


def _limit_bars(found: Summary) -> Iterator[Bar]:
    n, seconds, largest = found["n"], found["seconds"], found["largest"]
    yield Bar("limits of the machine are measured in", "at most 3 s", f"{seconds:.1f} s", n, seconds <= 3)
    yield Bar("and lie from those of 30 s at most", "5 %", _percent(largest), n, largest <= 0.05)


def _tokeniser_bars(found: Summary) -> Iterator[Bar]:
    slope = f"{found['slope']:.3f} (standard error {found['error']:.3f})"
    near = abs(found["slope"] - 1) <= 0.1
    yield Bar("planted tokeniser delay comes back, slope", "1.0 ± 0.1", slope, found["n"], near)


def _verdict_bars(found: Summary) -> Iterator[Bar]:
    n, sure, wrong = found["n"], found["sure_of_clear"], found["confidently_wrong"]
    score = found["macro_f1"]
    yield Bar("macro-F1 over six classes", "at least 0.97", f"{score:.3f}", n, score >= 0.97)
    yield Bar("clear cases with confidence of 0.9 or more", "at least 60 %", _percent(sure), n, sure >= 0.6)
    yield Bar("wrong with confidence of 0.9 or more", "0", str(wrong), n, wrong == 0)


def _delay_bars(found: Summary) -> Iterator[Bar]:
    for row, line in found["rows"].items():
        slope = f"{line['slope']:.3f} (standard error {line['error']:.3f})"
        near = abs(line["slope"] - 1) <= 0.05
        yield Bar(f"planted {row} delay comes back, slope", "1.00 ± 0.05", slope, line["n"], near)


def _lora_bars(found: Summary) -> Iterator[Bar]:
    share, zero = found["within_two_points"], found["zero_dose"]
    if share is not None:
        yield Bar("LoRA by two ways within 2 points", "at least 95 %", _percent(share), found["n"], share >= 0.95)
    if zero["n"]:
        largest = zero["largest"]
        seen = f"{100 * largest:.2f} points"
        yield Bar("no adapter reads as, at most", "0.5 points", seen, zero["n"], largest <= 0.005)


def _damage_bars(found: Summary) -> Iterator[Bar]:
    caught, stopped = found["damage"], found["harmless"]
    if caught["caught"] is not None:
        share = caught["caught"]
        yield Bar("damage stopped by the gate", "at least 99 %", _percent(share), caught["n"], share >= 0.99)
    if stopped["stopped"] is not None:
        share = stopped["stopped"]
        yield Bar("harmless changes stopped", "at most 1 %", _percent(share), stopped["n"], share <= 0.01)


def _prediction_bars(found: Summary) -> Iterator[Bar]:
    sign = found["sign"]
    if found["n"]:
        middle, high = found["median_error"], found["p90_error"]
        yield Bar("predicted speed-ups, median error", "at most 5 %", _percent(middle), found["n"], middle <= 0.05)
        yield Bar("predicted speed-ups, 90th percentile", "at most 15 %", _percent(high), found["n"], high <= 0.15)
    if found["n"] and sign["n"]:
        yield Bar(
            "sign of the change right", "at least 95 %", _percent(sign["right"]), sign["n"], sign["right"] >= 0.95
        )
    if losing := found.get("losing", {}).get("n"):
        share = found["losing"]["left_alone"]
        yield Bar("fixes that lose, left alone by their prediction", "all", _percent(share), losing, share == 1)
    for sample, share in found.get("unattributed", {}).items():
        yield Bar(f"time without a name, {sample}, worst phase", "at most 3 %", _percent(share), 1, share <= 0.03)


def _paired_bars(found: Summary) -> Iterator[Bar]:
    for key, what in (("aa", "A/A"), ("aa_noisy", "A/A beside another process")):
        if same := found.get(key):
            alarms, n = same["alarms"], same["n"]
            yield Bar(f"{what}: faster or slower", "at most 5 %", _with_interval(alarms, n), n, alarms <= 0.05)
            if key == "aa":
                share = same["equivalent"]
                yield Bar(f"{what}: equivalent", "at least 80 %", _with_interval(share, n), n, share >= 0.8)
    if same := found.get("coverage"):
        share, n = same["covered"], same["n"]
        yield Bar("95 % intervals that cover the truth", "at least 94 %", _with_interval(share, n), n, share >= 0.94)
    for effect in found.get("effects", ()):
        if effect["effect"] in (0.03, 0.05) and effect["seconds"] > 1:
            what = f"power for {100 * effect['effect']:g} % in {effect['seconds']:.0f} s"
            power, n = effect["power"], effect["n"]
            yield Bar(what, "at least 80 %", _with_interval(power, n), n, power >= 0.8)


def _body(summary: Summary, folder: Path | None) -> Iterator[str]:
    if found := summary.get("limits"):
        yield from _limits(found)
    if found := summary.get("verdicts"):
        yield from _verdicts(found)
    if found := summary.get("delays"):
        yield from _delays(found, folder)
    if found := summary.get("lora"):
        yield from _lora(found, folder)
    if found := summary.get("paired"):
        yield from _effects(found)
    if found := summary.get("fresh"):
        yield from _fresh(found)
    if found := summary.get("damage"):
        yield "## The quality gate"
        yield ""
        yield f"Changes to the sample's fine-tune, judged over {found['tokens']:.0f} completion tokens each."
        yield f"Missed: {', '.join(found['missed']) or 'none'}. Harmless and stopped: {', '.join(found['stopped']) or 'none'}."
        yield ""
    if found := summary.get("predictions"):
        yield from _predictions(found)
    if summary.get("failed"):
        yield "## Cases that failed to run"
        yield ""
        yield from (f"* {case}" for case in summary["failed"])
        yield ""


def _limits(found: Summary) -> Iterator[str]:
    yield "## Limits"
    yield ""
    yield f"As a run measures them, against {found['n']} runs of 30 s in turns with them:"
    yield ""
    yield "| limit | off by |"
    yield "|---|---|"
    yield from (f"| {name} | {100 * off:+.1f} % |" for name, off in found["off"].items())
    yield ""


def _verdicts(found: Summary) -> Iterator[str]:
    yield "## Verdicts"
    yield ""
    yield "Rows are the truth, columns what was found."
    yield ""
    columns = (*LABELS, "unknown")
    yield "| | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for label in LABELS:
        yield f"| **{label}** | " + " | ".join(str(found["matrix"][label][name] or "") for name in columns) + " |"
    yield ""
    yield (
        f"{_percent(found['confirmed_of_clear'])} of the clear cases were also confirmed by an experiment; the median "
        f"unattributed share is {_percent(found['unattributed_median'])}."
    )
    yield ""
    for case in found["wrong"]:
        yield (
            f"* Wrong: {case['case']} is {case['label']}, found {case['found']} ({', '.join(case['named'])}) with "
            f"confidence {case['confidence']:.2f}."
        )
    if found["wrong"]:
        yield ""


def _delays(found: Summary, folder: Path | None) -> Iterator[str]:
    yield "## Planted delays"
    yield ""
    yield "| row | n | slope | standard error | intercept (points) |"
    yield "|---|---|---|---|---|"
    for row, line in found["rows"].items():
        yield f"| {row} | {line['n']} | {line['slope']:.3f} | {line['error']:.3f} | {100 * line['intercept']:.2f} |"
    yield ""
    yield f"The median unattributed share with a delay planted is {_percent(found['unattributed_median'])}."
    yield ""
    if folder is not None and found["rows"]:
        _picture(
            folder / "truth-delays.svg",
            {row: line["points"] for row, line in found["rows"].items()},
            "planted share of the phase",
            "share found in the row",
        )
        yield "![Delays found in their row against delays planted: points lie on the diagonal where all comes back](truth-delays.svg)"
        yield ""


def _lora(found: Summary, folder: Path | None) -> Iterator[str]:
    yield "## LoRA in known doses"
    yield ""
    if found["n"]:
        yield (
            f"{found['n']} phases of SmolLM2 with adapters of rank 1 to 256 at 1 to 7 kinds of layer: attribution and removal "
            f"differ by {100 * found['median_difference']:.1f} points in the median; their intervals agree in "
            f"{_percent(found['agree_within_intervals'])}."
        )
        yield ""
    if folder is not None and found["pairs"]:
        points: dict[str, list[tuple[float, float]]] = {}
        for pair in found["pairs"]:
            points.setdefault(f"{pair['targets']} targets", []).append((pair["removed"], pair["attributed"]))
        _picture(folder / "truth-lora.svg", points, "share by removing the adapter", "share by attribution")
        yield "![LoRA's share by attribution against its share by removal](truth-lora.svg)"
        yield ""


def _effects(found: Summary) -> Iterator[str]:
    yield "## Known effects"
    yield ""
    yield "| effect | sessions | found faster | median error of the ratio | seconds a session |"
    yield "|---|---|---|---|---|"
    for effect in found["effects"]:
        yield (
            f"| {100 * effect['effect']:g} % | {effect['n']} | {_percent(effect['power'])} | "
            f"{100 * effect['error']:.2f} % | {effect['seconds']:.1f} |"
        )
    yield ""
    width = found["coverage"]["mean_width"]
    yield f"The mean width of the 95 % intervals is {100 * width:.1f} %."
    yield ""


def _fresh(found: Summary) -> Iterator[str]:
    yield "## New processes"
    yield ""
    yield "The same model in a process that has been traced, and in a new one, on batches:"
    yield ""
    yield "| the allocator of both | comparisons | speed of the new one against the old one's, median | furthest off |"
    yield "|---|---|---|---|"
    for key, said in (("system", "as the system has it"), ("settled", "settled, as in every run of ftprof")):
        if part := found.get(key):
            yield f"| {said} | {part['n']} | {100 * part['median']:+.1f} % | {100 * part['largest']:+.1f} % |"
    yield ""


def _predictions(found: Summary) -> Iterator[str]:
    yield "## Predictions"
    yield ""
    inside = found["inside"]
    yield (
        f"{found['models']} models, {found['rules']} kinds of fix, each applied alone, single requests and batches: "
        f"{_percent(inside['share'])} of {inside['n']} measured speed-ups lie inside the predicted 80 % interval. Fixes "
        "that a run would leave alone are among them."
    )
    yield ""
    if by_rule := found.get("by_rule"):
        yield "| rule | changes above 10 % | median error | bias: above 0 promises too much |"
        yield "|---|---|---|---|"
        for rule, part in sorted(by_rule.items()):
            yield f"| {rule} | {part['n']} | {_percent(part['error'])} | {100 * part['bias']:+.1f} % |"
        yield ""
    yield "| model | rule | scenario | predicted | measured | |"
    yield "|---|---|---|---|---|---|"
    for trial in found["trials"]:
        predicted, measured = (
            f"{x[0]:.2f}x ({x[1]:.2f} to {x[2]:.2f})" for x in (trial["predicted"], trial["measured"])
        )
        yield (
            f"| {trial['model']} | {trial['rule']} | {trial['scenario']} | {predicted} | {measured} | {trial['verdict']} |"
        )
    yield ""


def _picture(path: Path, points: Mapping[str, Sequence[Sequence[float]]], x: str, y: str) -> None:
    """Points against the diagonal, one marker a group."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "ftprof", "svg.fonttype": "none"}):
        figure = Figure(figsize=(5.2, 4.2), layout="constrained")
        axes = figure.subplots()
        for (name, found), marker in zip(points.items(), "osD^vPX*", strict=False):
            axes.plot([p[0] for p in found], [p[1] for p in found], marker, ms=5, mfc="none", label=name)
        limit = max((max(p) for found in points.values() for p in found), default=1.0)
        axes.plot([0, limit], [0, limit], color="0.6", lw=1, zorder=0)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.legend(frameon=False)
        figure.savefig(path, metadata={"Date": None})


def _percent(share: float | None) -> str:
    return "not measured" if share is None else f"{100 * share:.1f} %"


def _with_interval(share: float, n: int) -> str:
    low, high = wilson(share, n)
    return f"{_percent(share)} ({100 * low:.0f} to {100 * high:.0f})"
