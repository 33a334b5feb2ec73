"""Whether the trace can be trusted, before anything is concluded from it."""

from __future__ import annotations

import re

import numpy as np

from ftprof.profiler.traces import schema
from ftprof.profiler.traces.gaps import overdue
from ftprof.profiler.traces.intervals import Ints, distinct
from ftprof.profiler.traces.model import Check, Confidence, Health, Verdict
from ftprof.profiler.traces.partition import seconds, totals
from ftprof.profiler.traces.scope import Scope

# Cost of recording one op on the host (pytorch issue 82793: 4 us), and one Python call with stacks (about 1 us).
OP_COST_NS = 4_000
PYTHON_COST_NS = 1_000
# The share of a window that may stay unexplained before its busy share is withheld.
UNEXPLAINED_LIMIT = 0.10

_CAPTURE = re.compile(r"(?:cuda|hip)StreamBeginCapture")


def health(scope: Scope, steps: int) -> Health:
    """All checks, the worst first. Tables of the window may be trusted as far as `confidence` says."""
    device, host = scope.trace.device, scope.trace.host
    launching = (host.kind == schema.HostKind.RUNTIME) & scope.trace.named(schema.LAUNCH_CALL)
    checks = [_complete(scope), *_sides(scope), _steps(steps)]
    if len(device):
        checks += [_orphans(scope), _zero(scope), _clock(scope), _resolution(scope), *_graphs(scope)]
    if len(device) and launching.any():
        checks += [_missing(scope, np.flatnonzero(launching)), _overdue(scope)]
    if len(host):
        checks += [_overhead(scope), _recorder(scope)]
    if len(device) and len(host):
        checks.append(_unexplained(scope))
    rank: dict[Verdict, int] = {"poor": 0, "note": 1, "ok": 2}
    checks.sort(key=lambda check: rank[check.verdict])
    return Health(
        confidence=_confidence(checks),
        checks=tuple(checks),
        has_device=len(device) > 0,
        has_host=len(host) > 0,
        has_launches=bool(launching.any()),
    )


def _confidence(checks: list[Check]) -> Confidence:
    """low with any poor check, medium with a note on the data itself, else high."""
    if any(check.verdict == "poor" for check in checks):
        return "low"
    harmless = {"graph replay", "several devices"}
    return "medium" if any(check.verdict == "note" and check.name not in harmless for check in checks) else "high"


def _check(name: str, value: float, note: float, poor: float, sentence: str) -> Check:
    """`value` at or above `note` or `poor` gets that verdict; a value of 0 is always ok."""
    verdict: Verdict = "ok"
    if value > 0:
        verdict = "poor" if value >= poor else "note" if value >= note else "ok"
    return Check(name=name, verdict=verdict, value=value, sentence=sentence)


def _some(number: int, noun: str) -> str:
    """`1 piece`, `2 pieces`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}es" if noun.endswith("ch") else f"{number} {noun}s"


_NEVER = float("inf")


def _complete(scope: Scope) -> Check:
    facts = scope.trace.facts
    lost = facts.damaged / max(facts.events + facts.damaged, 1)
    if facts.truncated:
        sentence = f"the file breaks off after {_some(facts.events, 'event')}; what came after is missing"
        return Check(name="complete", verdict="note", value=max(lost, 1e-9), sentence=sentence)
    return _check(
        "complete",
        lost,
        1e-9,
        0.05,
        f"{facts.damaged} of {_some(facts.events + facts.damaged, 'event')} cannot be read",
    )


def _sides(scope: Scope) -> list[Check]:
    """What the trace lacks altogether, and device work that is not analysed."""
    facts, checks = scope.trace.facts, []
    if not len(scope.trace.device):
        found = "no GPU work in this trace"
        if facts.device_dropped:
            found = f"no usable GPU work: {_some(facts.device_dropped, 'piece')} with an impossible time left out"
        if facts.foreign_events:
            found += f"; {_some(facts.foreign_events, 'event')} of another accelerator not analysed"
        if facts.counter_ranges:
            found += f"; {_some(facts.counter_ranges, 'counter range')} without times of kernels"
        sentence = f"{found}: only the host side is reported"
        checks.append(Check(name="device side", verdict="poor", value=1.0, sentence=sentence))
    if not len(scope.trace.host):
        sentence = "no host side in this trace: idle time cannot be explained"
        checks.append(Check(name="host side", verdict="poor", value=1.0, sentence=sentence))
    devices = len(distinct(scope.trace.device.device))
    if devices > 1:
        sentence = f"{devices} devices did work; the busiest, {scope.timeline.device}, is analysed"
        checks.append(Check(name="several devices", verdict="note", value=float(devices), sentence=sentence))
    return checks


def _steps(steps: int) -> Check:
    if steps:
        return Check(name="steps", verdict="ok", value=float(steps), sentence=f"{_some(steps, 'step')} found")
    sentence = "no steps in this trace: the window is all of it, warm-up and tail included"
    return Check(name="steps", verdict="note", value=0.0, sentence=sentence)


def _orphans(scope: Scope) -> Check:
    lost = int((scope.links.launch < 0).sum())
    whole = len(scope.trace.device)
    return _check(
        "orphan device work",
        lost / whole,
        0.02,
        0.5,
        f"{lost} of {_some(whole, 'piece')} of device work without a launch in the trace (launched before it began, or dropped)",
    )


def _missing(scope: Scope, launching: Ints) -> Check:
    """Launch calls of kernels without device work."""
    host = scope.trace.host
    calls = launching[scope.trace.named(schema.KERNEL_LAUNCH_CALL)[launching]]
    used = np.zeros(len(host), dtype=np.bool_)
    used[scope.links.launch[scope.links.launch >= 0]] = True
    lost = int((~used[calls]).sum())
    captured = scope.trace.named(_CAPTURE).any()
    reason = (
        "graph capture records launches that do not run" if captured else "kernels were dropped or ran after the end"
    )
    return _check(
        "launches without work",
        lost / max(len(calls), 1),
        0.02,
        _NEVER if captured else 0.3,
        f"{lost} of {_some(len(calls), 'kernel launch')} without a kernel in the trace ({reason})",
    )


def _zero(scope: Scope) -> Check:
    device = scope.trace.device
    empty = int((device.end == device.start).sum())
    return _check(
        "zero-length events",
        empty / len(device),
        1e-9,
        0.2,
        f"{empty} of {_some(len(device), 'piece')} of device work without length (a clock too coarse for them)",
    )


def _clock(scope: Scope) -> Check:
    """Work before its launch, inverted times, times of another epoch, two pieces at once on one stream."""
    device, facts = scope.trace.device, scope.trace.facts
    launch = scope.links.launch
    known = launch >= 0
    early = int((device.start[known] < scope.trace.host.start[launch[known]]).sum())
    order = np.lexsort((device.start, device.stream, device.device))
    same = (np.diff(device.stream[order]) == 0) & (np.diff(device.device[order]) == 0)
    overlap = int((same & (device.end[order][:-1] > device.start[order][1:])).sum())
    wrong = early + facts.negative_durations + facts.clock_outliers
    return _check(
        "clock",
        (wrong + overlap) / len(device),
        1e-9,
        0.1 if wrong > overlap else _NEVER,
        f"{_some(early, 'piece')} of work before launch, {overlap} overlapping another on the stream, "
        f"{facts.negative_durations} with a negative length, {facts.clock_outliers} at an absurd time (left out)",
    )


def _resolution(scope: Scope) -> Check:
    device = scope.trace.device
    median = float(np.median(device.end - device.start))
    step = 1 if scope.trace.facts.fractional else 1000
    return _check(
        "clock resolution",
        step / max(median, 1.0),
        0.1,
        _NEVER,
        f"times are in steps of {step} ns; the median piece of device work takes {median / 1000:.1f} us",
    )


def _graphs(scope: Scope) -> list[Check]:
    device, host = scope.trace.device, scope.trace.host
    checks = []
    graph = scope.trace.named(schema.GRAPH_LAUNCH) & (host.kind == schema.HostKind.RUNTIME)
    if graph.any():
        launch = scope.links.launch
        owned = int(np.where(launch >= 0, graph[launch], False).sum())
        sentence = (
            f"{_some(int(graph.sum()), 'graph launch')} with {_some(owned, 'piece')} of device work; ops and modules "
            "inside a replay are those around the launch"
        )
        checks.append(Check(name="graph replay", verdict="note", value=float(graph.sum()), sentence=sentence))
    whole = int((device.kind == schema.DeviceKind.GRAPH).sum())
    if whole:
        sentence = f"{_some(whole, 'graph')} traced as one piece: what runs inside is not in this trace"
        checks.append(Check(name="graphs in one piece", verdict="note", value=float(whole), sentence=sentence))
    return checks


def _overdue(scope: Scope) -> Check:
    """Queued work that did not start although the device looks idle: it ran something that was not recorded."""
    spans = overdue(scope)
    longest = int((spans.end - spans.start).max(initial=0))
    share = longest / max(scope.length, 1)
    return _check(
        "false idle",
        share,
        0.02,
        UNEXPLAINED_LIMIT,
        f"queued work waited up to {seconds(longest) * 1e3:.3f} ms while the device looks idle: it ran work that the "
        "trace does not hold, or waited for another stream",
    )


def _unexplained(scope: Scope) -> Check:
    part = totals(scope.timeline, [(scope.low, scope.high)])[0]
    share = part["unexplained"] / max(scope.length, 1)
    return _check(
        "unexplained idle",
        share,
        0.03,
        UNEXPLAINED_LIMIT,
        f"{share:.1%} of the window is idle for reasons not in this trace",
    )


def _recorder(scope: Scope) -> Check:
    """Time that the recorder itself wrote down as its own (buffers, resources)."""
    facts = scope.trace.facts
    share = facts.overhead_ns / max(scope.trace.end, 1)
    return _check(
        "recorder's own time",
        share,
        0.02,
        _NEVER,
        f"the recorder noted {_some(facts.overhead_events, 'interruption')} of its own, {seconds(facts.overhead_ns) * 1e3:.3f} ms in all",
    )


def _overhead(scope: Scope) -> Check:
    """Time that recording itself took on the main thread: an upper estimate from counts."""
    host = scope.trace.host
    mine = scope.calls[host.thread[scope.calls] == scope.main]
    ops = int((host.kind[mine] == schema.HostKind.OP).sum())
    python = int((host.kind[mine] == schema.HostKind.PYTHON).sum())
    cost = ops * OP_COST_NS + python * PYTHON_COST_NS
    share = cost / max(scope.length, 1)
    return _check(
        "profiler overhead",
        share,
        0.05,
        _NEVER,
        f"recording {_some(ops, 'op')} and {_some(python, 'Python call')} costs the host up to {min(share, 1.0):.0%} of the window: host "
        "times are too long by that much",
    )
