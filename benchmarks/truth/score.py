"""From the cases on record to what docs/truth.md says: counts, scores and slopes, each with how many it rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log, sqrt
from statistics import median
from typing import Any

from ftprof.advisors.advise import worthwhile
from ftprof.advisors.rule import PredictedRatio

LABELS = ("compute", "memory", "host", "io", "sync", "mixed")
SURE = 0.9
CHANGED = 1.10
"""Smaller measured changes are mostly noise, and their relative error with them."""
Case = Mapping[str, Any]
Summary = dict[str, Any]


def summarise(cases: Mapping[str, Sequence[Case]]) -> Summary:
    """One part for each kind of case that was run."""
    parts: dict[str, Callable[[Sequence[Case]], Summary]] = {
        "limits": limits,
        "verdicts": verdicts,
        "delays": delays,
        "tokeniser": tokeniser,
        "lora": lora,
        "paired": paired,
        "fresh": fresh,
        "damage": damage,
        "predictions": predictions,
    }
    return {name: parts[name](found) | {"measured": _stamps(found)} for name, found in cases.items() if found}


def _stamps(cases: Sequence[Case]) -> list[str]:
    """The days and commits that these cases were run at."""
    return sorted({f"{case['date']} at {case['commit'] or 'an unknown commit'}" for case in cases if "date" in case})


def verdicts(cases: Sequence[Case]) -> Summary:
    """Confusion matrix and macro-F1; an abstention on a clear case counts as wrong."""
    matrix = {label: dict.fromkeys((*LABELS, "unknown"), 0) for label in LABELS}
    for case in cases:
        matrix[case["label"]][case["found"]] += 1
    wrong = [case for case in cases if not right(case)]
    clear = [case for case in cases if case["label"] != "mixed"]
    return {
        "n": len(cases),
        "matrix": matrix,
        "macro_f1": _macro_f1(matrix),
        "right": len(cases) - len(wrong),
        "sure_of_clear": sum((case["confidence"] or 0.0) >= SURE for case in clear) / len(clear),
        "confirmed_of_clear": sum(case["confirmed"] for case in clear) / len(clear),
        "confidently_wrong": sum((case["confidence"] or 0.0) >= SURE for case in wrong),
        "wrong": [
            {key: case[key] for key in ("case", "label", "found", "named", "confidence", "shares")} for case in wrong
        ],
        "unattributed_median": median(case["shares"].get("unattributed", 0.0) for case in cases),
    }


def right(case: Case) -> bool:
    """The label was found; a mixture must name both of its parts."""
    if case["found"] != case["label"]:
        return False
    return case["label"] != "mixed" or sorted(case["named"]) == sorted(case["both"])


def _macro_f1(matrix: Mapping[str, Mapping[str, int]]) -> float:
    """Mean over labels of the harmonic mean of precision and recall."""
    scores = []
    for label in LABELS:
        hits, truths = matrix[label][label], sum(matrix[label].values())
        claims = sum(matrix[other][label] for other in LABELS)
        if truths:
            scores.append(2 * hits / (truths + claims) if hits else 0.0)
    return sum(scores) / len(scores)


def delays(cases: Sequence[Case]) -> Summary:
    """Slope of what was recovered over what was planted, by row, with its standard error."""
    rows: Summary = {}
    for row in ("host", "io", "sync", "op"):
        points = [(case["true"], case["recovered"]) for case in cases if case["row"] == row]
        if len(points) >= 3:
            slope, error, intercept = _line(points)
            rows[row] = {"n": len(points), "slope": slope, "error": error, "intercept": intercept, "points": points}
    return {"n": len(cases), "rows": rows, "unattributed_median": median(case["unattributed"] for case in cases)}


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Slope, its standard error and intercept by least squares."""
    from scipy.stats import linregress

    found = linregress([x for x, _ in points], [y for _, y in points])
    return float(found.slope), float(found.stderr), float(found.intercept)


def limits(cases: Sequence[Case]) -> Summary:
    """How far each limit of the short runs lies from the long ones: the median over rounds, and the worst of those."""
    names = cases[0]["ratios"]
    off = {name: median(case["ratios"][name] for case in cases) - 1 for name in names}
    return {
        "n": len(cases),
        "seconds": median(case["seconds"] for case in cases),
        "off": off,
        "largest": max(map(abs, off.values())),
    }


def tokeniser(cases: Sequence[Case]) -> Summary:
    """Slope of what the phase shows over what was planted, and how often skipping the tokeniser confirmed it."""
    slope, error, _ = _line([(case["true"], case["recovered"]) for case in cases])
    return {
        "n": len(cases),
        "slope": slope,
        "error": error,
        "confirmed": sum(case["confirmed"] is True for case in cases),
        "contradicted": sum(case["confirmed"] is False for case in cases),
    }


def lora(cases: Sequence[Case]) -> Summary:
    """How often the two ways agree within two points, and what no adapter at all reads as."""
    pairs, zero = [], []
    for case in cases:
        for phase in ("prefill", "decode"):
            found = case.get(phase)
            if not found or not found["removed"]:
                continue
            if not case["rank"]:
                zero.append(found["removed"][0])
            elif found["attributed"]:
                pairs.append(
                    {
                        "case": case["case"],
                        "phase": phase,
                        "targets": case["targets"],
                        "rank": case["rank"],
                        "attributed": found["attributed"][0],
                        "removed": found["removed"][0],
                        "agree": found["agree"],
                    }
                )
    off = [abs(pair["attributed"] - pair["removed"]) for pair in pairs]
    return {
        "n": len(pairs),
        "within_two_points": sum(x <= 0.02 for x in off) / len(off) if off else None,
        "agree_within_intervals": sum(bool(pair["agree"]) for pair in pairs) / len(pairs) if pairs else None,
        "median_difference": median(off) if off else None,
        "zero_dose": {"n": len(zero), "largest": max(map(abs, zero), default=None)},
        "pairs": pairs,
    }


def paired(cases: Sequence[Case]) -> Summary:
    """False alarms without an effect, coverage and width with one, and power."""
    found: Summary = {"n": len(cases)}
    for name, noisy in (("aa", False), ("aa_noisy", True)):
        same = [case for case in cases if not case["effect"] and case["noisy"] == noisy]
        if same:
            found[name] = {
                "n": len(same),
                "alarms": _share(same, lambda case: case["verdict"] in ("faster", "slower")),
                "equivalent": _share(same, lambda case: case["verdict"] == "equivalent"),
            }
    quiet = [case for case in cases if not case["noisy"]]
    found["coverage"] = {
        "n": len(quiet),
        "covered": _share(quiet, lambda case: case["covered"]),
        "mean_width": sum(case["width"] for case in quiet) / len(quiet),
    }
    found["effects"] = [
        {
            "effect": effect,
            "n": len(same),
            "power": _share(same, lambda case: case["verdict"] == "faster"),
            "seconds": median(case["seconds"] for case in same),
            "error": median(abs(log(case["found"][0] / case["true"])) for case in same),
        }
        for effect in sorted({case["effect"] for case in quiet if case["effect"]})
        if (same := [case for case in quiet if case["effect"] == effect])
    ]
    return found


def fresh(cases: Sequence[Case]) -> Summary:
    """How far a model lies from itself in a new process, with the system's allocator and with a settled one."""
    found: Summary = {"n": len(cases)}
    for name, settled in (("system", False), ("settled", True)):
        off = [case["found"][0] - 1 for case in cases if case["settled"] == settled]
        if off:
            found[name] = {"n": len(off), "median": median(off), "largest": max(off, key=abs)}
    return found


def damage(cases: Sequence[Case]) -> Summary:
    """Damage that did not pass, and harmless changes that did not pass either."""
    harmful = [case for case in cases if case["harmful"]]
    harmless = [case for case in cases if not case["harmful"]]
    return {
        "n": len(cases),
        "tokens": median(case["tokens"] or 0 for case in cases),
        "damage": {"n": len(harmful), "caught": _share(harmful, lambda case: case["verdict"] != "pass")},
        "harmless": {"n": len(harmless), "stopped": _share(harmless, lambda case: case["verdict"] != "pass")},
        "missed": [case["case"] for case in harmful if case["verdict"] == "pass"],
        "stopped": [case["case"] for case in harmless if case["verdict"] != "pass"],
    }


def predictions(cases: Sequence[Case]) -> Summary:
    """Error of predicted speed-ups where the measured change was more than a tenth, and how often the sign was right."""
    trials = [{"model": case["case"], **trial} for case in cases for trial in case["trials"]]
    large = [trial for trial in trials if abs(log(trial["measured"][0])) > log(CHANGED)]
    errors = sorted(abs(log(trial["predicted"][0] / trial["measured"][0])) for trial in large)
    decided = [trial for trial in trials if trial["verdict"] in ("faster", "slower")]
    losing = [trial for trial in decided if trial["verdict"] == "slower"]
    inside = [trial for trial in trials if trial["predicted"][1] <= trial["measured"][0] <= trial["predicted"][2]]
    return {
        "models": len(cases),
        "rules": len({trial["rule"] for trial in trials}),
        "n": len(large),
        "median_error": median(errors) if errors else None,
        "by_rule": _errors_by_rule(large),
        "p90_error": errors[min(len(errors) - 1, int(0.9 * len(errors)))] if errors else None,
        "sign": {
            "n": len(decided),
            "right": _share(decided, lambda trial: (trial["predicted"][0] > 1) == (trial["measured"][0] > 1)),
        },
        "losing": {"n": len(losing), "left_alone": _share(losing, _left_alone)},
        "unattributed": {
            case["case"]: max(case["unattributed"].values()) for case in cases if case["case"].endswith("-tickets")
        },
        "inside": {"n": len(trials), "share": len(inside) / len(trials) if trials else None},
        "trials": trials,
    }


def _left_alone(trial: Case) -> bool:
    """Whether a run would not have tried this fix, going by its prediction."""
    speedup, low, high = trial["predicted"]
    return not worthwhile(PredictedRatio(speedup=speedup, low=low, high=high))


def _errors_by_rule(trials: Sequence[Case]) -> Summary:
    """Median error and median signed error (above 0: promised too much) of each rule's predictions, as log ratios."""
    found: dict[str, list[float]] = {}
    for trial in trials:
        found.setdefault(trial["rule"], []).append(log(trial["predicted"][0] / trial["measured"][0]))
    return {
        rule: {"n": len(logs), "error": median(map(abs, logs)), "bias": median(logs)} for rule, logs in found.items()
    }


def _share(cases: Sequence[Case], is_so: Callable[[Case], bool]) -> float | None:
    return sum(map(is_so, cases)) / len(cases) if cases else None


def wilson(share: float, n: int) -> tuple[float, float]:
    """95 % interval of a share of n cases."""
    z = 1.96
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)
