"""Where the time goes by kind of module, and what LoRA layers cost, by timed `forward`s without any profiler.

Method: Verdicts (docs/method.md).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ftprof.profiler.displaced import Seen, Without, without_lora
from ftprof.profiler.forward_timer import Span, spans, timed_forwards
from ftprof.profiler.module_kinds import LORA_A, LORA_B, LORA_REST, OTHER, OUTSIDE, module_kind
from ftprof.profiler.record import LoraKind, Machine, ModuleTotal, ModuleTrace, Phase
from ftprof.profiler.windows import Run, no_collection, windows
from ftprof.profiler.wrapper_cost import inputs_of, warm_ns

if TYPE_CHECKING:
    import torch

LORA_KINDS = frozenset({LORA_A, LORA_B, LORA_REST})


class Site(NamedTuple):
    """A module worth timing: its kind, for a LoRA layer's parts the target (`q_proj`) that they belong to, and its
    place: the qualified name without the layers' numbers."""

    module: torch.nn.Module
    kind: str
    target: str = ""
    place: str = ""


class _Part(NamedTuple):
    """What was seen between two stamps of one run: one prefill, one generated token, one forward.

    `pair` is the run's number, `on` whether the adapter took part in it.
    """

    phase: Phase
    wall_ns: int
    calls: list[Span]
    pair: int = 0
    on: bool = True


def sites(model: torch.nn.Module) -> list[Site]:
    """The modules to time: the fewest that separate the kinds.

    A module of the same kind as the one that holds it adds only cost, so it is left out; those without a kind of
    their own (decoder layers, whole models) are kept, since calls may enter at any of them.
    """
    found: list[Site] = []
    _collect(model, "", OTHER, found, set())
    places = {id(module): re.sub(r"\d+", "#", name) for name, module in model.named_modules()}
    return [site._replace(place=places.get(id(site.module), "")) for site in found]


def _collect(module: torch.nn.Module, name: str, holder: str, found: list[Site], seen: set[int]) -> None:
    if id(module) in seen:
        return
    seen.add(id(module))
    if is_lora_layer(module):
        _collect_lora(module, name, holder, found, seen)
        return
    kind = module_kind(name, type(module).__name__, holder)
    children = list(module.named_children())
    if _timed_apart(module, kind, holder, bool(children)):
        found.append(Site(module, kind))
    for child_name, child in children:
        _collect(child, f"{name}.{child_name}".lstrip("."), kind, found, seen)


def _timed_apart(module: torch.nn.Module, kind: str, holder: str, has_children: bool) -> bool:
    """Whether a module's time must be told from its holder's. Scripted modules take no wrapper."""
    import torch

    if isinstance(module, torch.jit.ScriptModule | torch.nn.ModuleList | torch.nn.ModuleDict):
        return False
    return kind != holder or (kind == OTHER and has_children)


def is_lora_layer(module: torch.nn.Module) -> bool:
    """A PEFT LoRA layer, by what it is made of; PEFT itself need not be importable."""
    return all(hasattr(module, part) for part in ("lora_A", "lora_B", "base_layer"))


def _collect_lora(module: torch.nn.Module, name: str, holder: str, found: list[Site], seen: set[int]) -> None:
    """The layer itself (scale, add, casts, dropout, PEFT's Python), its base, and each adapter's A and B."""
    target = name.rsplit(".", 1)[-1]
    base = module.base_layer
    kind = module_kind(name, type(base).__name__, holder)
    found.append(Site(module, LORA_REST, target))
    for part, part_kind in ((base, kind), *_factors(module)):
        if id(part) not in seen:
            found.append(Site(part, part_kind, target))  # type: ignore[arg-type]
    seen.update(id(part) for part in module.modules())


def _factors(module: torch.nn.Module) -> list[tuple[torch.nn.Module, str]]:
    """A and B of every adapter; embeddings keep theirs as plain parameters, whose time stays with the layer."""
    return [
        (factor, kind)
        for name, kind in (("lora_A", LORA_A), ("lora_B", LORA_B))
        for factor in getattr(module, name).values()
    ]


def trace_modules(
    model: torch.nn.Module,
    run: Run,
    *,
    scenario: str,
    phases: Sequence[Phase],
    untraced: Mapping[str, float],
    machine: Machine,
    repeats: int = 2,
    switch: Callable[[bool], None] | None = None,
) -> tuple[ModuleTrace, ...]:
    """Run `repeats` units with timed modules; the model is left exactly as it was, also where a run fails.

    `switch` turns the model's adapter on and off. With it every unit runs once more with LoRA off, for what other
    layers take more then (`displaced`); it is not called where the model has no LoRA layer.

    Self times are corrected for the wrappers (`machine.wrapper_s` a call) and scaled so that all kinds with "outside
    modules" sum to the untraced seconds of their phase. `lora_shares` compare with a model whose adapter is gone: the
    LoRA layer minus its base layer and what is displaced, over the phase, one share a generated token in decode and
    one a unit otherwise.
    """
    chosen = sites(model)
    switched = switch if any(site.kind in LORA_KINDS for site in chosen) else None
    wrappers = {site.place: site.module for site in chosen if site.kind == LORA_REST} if switched else {}
    parts: list[_Part] = []
    warm: dict[str, float] = {}
    with (
        inputs_of(wrappers) as inputs,
        no_collection(),
        _left_on(switched),
        timed_forwards([site.module for site in chosen]) as log,
    ):
        for number in range(repeats):
            # On, off, off, on: a drift of the machine meets both alike.
            for on in (True,) if switched is None else (True, False) if number % 2 == 0 else (False, True):
                if switched:
                    switched(on)
                log.clear()
                stamps = run()
                found = _parts(stamps, spans(log), phases)
                parts.extend(part._replace(pair=number, on=on) for part in found)
        if switched:
            switched(False)
            warm = warm_ns(wrappers, inputs)
    seen = [phase for phase in phases if any(part.phase == phase for part in parts)]
    return tuple(
        _module_trace(scenario, phase, [part for part in parts if part.phase == phase], chosen, warm, untraced, machine)
        for phase in seen
    )


@contextmanager
def _left_on(switch: Callable[[bool], None] | None) -> Iterator[None]:
    """The adapter is on again afterwards, whatever happened."""
    try:
        yield
    finally:
        if switch:
            switch(True)


def _parts(stamps: Sequence[int], calls: Sequence[Span], phases: Sequence[Phase]) -> list[_Part]:
    """The run cut at its stamps: decode token by token."""
    cuts: list[tuple[Phase, int, int]] = []
    for window in windows(stamps, phases):
        edges = [stamp for stamp in stamps if window.start <= stamp <= window.end]
        if window.occurrences == 1:
            edges = [window.start, window.end]
        cuts.extend((window.phase, start, end) for start, end in pairwise(edges))
    return [
        _Part(phase, end - start, [call for call in calls if start <= call.start < end]) for phase, start, end in cuts
    ]


def _module_trace(
    scenario: str,
    phase: Phase,
    seen: Sequence[_Part],
    chosen: Sequence[Site],
    warm: Mapping[str, float],
    untraced: Mapping[str, float],
    machine: Machine,
) -> ModuleTrace:
    parts = [part for part in seen if part.on]
    without = _without(seen, chosen, warm)
    seconds = [_corrected(part, machine.wrapper_s) for part in parts]
    untraced_s = untraced.get(phase, sum(seconds) / len(seconds))
    scale = untraced_s / sum(seconds)
    wrapped_s = sum(part.wall_ns for part in parts) / 1e9 * scale
    totals = _by_kind(parts, chosen, machine.wrapper_s, scale)
    rest = max(0.0, untraced_s - sum(total.self_s for total in totals))
    return ModuleTrace(
        scenario=scenario,
        phase=phase,
        modules=(*totals, ModuleTotal(kind=OUTSIDE, calls=1.0, self_s=rest)),
        wrapped_s=wrapped_s,
        untraced_s=untraced_s,
        lora_kinds=_by_target(parts, chosen, machine.wrapper_s, scale, phase),
        lora_shares=_shares(parts, seconds, chosen, machine.wrapper_s, without),
        displaced_shares=tuple(one.displaced for one in without.values()),
        wrapper_shares=tuple(one.wrapper for one in without.values()),
    )


def _without(seen: Sequence[_Part], chosen: Sequence[Site], warm: Mapping[str, float]) -> dict[int, Without]:
    """What the runs with LoRA off showed, by pair of runs; empty where it was never off, or its layers not replayed."""
    places = [site.place for site in chosen]
    lora = {site.place: warm.get(site.place, 0.0) for site in chosen if site.kind in LORA_KINDS}
    base = [site.place for site in chosen if site.target and site.kind not in LORA_KINDS]
    found: dict[int, Without] = {}
    for pair in {part.pair: None for part in seen}:
        on, off = (
            [Seen(part.wall_ns, part.calls) for part in seen if part.pair == pair and part.on is on]
            for on in (True, False)
        )
        if without := without_lora(on, off, places, lora, base=base) if off and warm else None:
            found[pair] = without
    return found


def _corrected(part: _Part, wrapper_s: float) -> float:
    """Seconds of the part had nothing been wrapped; never less than a tenth, should the correction be absurd."""
    return max(part.wall_ns / 1e9 - len(part.calls) * wrapper_s, part.wall_ns / 1e10)


def _self_s(call: Span, wrapper_s: float) -> float:
    """Self seconds of one call: a timed call inside it costs it one wrapper."""
    return call.self_ns / 1e9 - call.children * wrapper_s


def _by_kind(parts: Sequence[_Part], chosen: Sequence[Site], wrapper_s: float, scale: float) -> tuple[ModuleTotal, ...]:
    calls: defaultdict[str, int] = defaultdict(int)
    self_s: defaultdict[str, float] = defaultdict(float)
    for part in parts:
        for call in part.calls:
            kind = chosen[call.module].kind
            calls[kind] += 1
            self_s[kind] += _self_s(call, wrapper_s)
    return tuple(
        ModuleTotal(kind=kind, calls=calls[kind] / len(parts), self_s=max(0.0, self_s[kind]) * scale)
        for kind in sorted(self_s, key=lambda kind: -self_s[kind])
    )


def _shares(
    parts: Sequence[_Part],
    seconds: Sequence[float],
    chosen: Sequence[Site],
    wrapper_s: float,
    without: Mapping[int, Without],
) -> tuple[float, ...]:
    """LoRA's share of each part, less what others would pay without it; empty where the model has no LoRA layer."""
    if not any(site.kind in LORA_KINDS for site in chosen):
        return ()
    return tuple(
        sum(_self_s(call, wrapper_s) for call in part.calls if chosen[call.module].kind in LORA_KINDS) / wall
        - (without[part.pair].displaced if part.pair in without else 0.0)
        for part, wall in zip(parts, seconds, strict=True)
    )


def _by_target(
    parts: Sequence[_Part], chosen: Sequence[Site], wrapper_s: float, scale: float, phase: Phase
) -> tuple[LoraKind, ...]:
    """Seconds per occurrence of the phase, by name of target, dearest adapter first."""
    spent: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for part in parts:
        for call in part.calls:
            site = chosen[call.module]
            if site.target:
                role = site.kind if site.kind in LORA_KINDS else "base"
                spent[site.target][role] += max(0.0, _self_s(call, wrapper_s)) * scale / len(parts)
    rows = [
        LoraKind(target=target, base_s=by["base"], a_s=by[LORA_A], b_s=by[LORA_B], rest_s=by[LORA_REST])
        for target, by in spent.items()
    ]
    return tuple(sorted(rows, key=lambda row: -(row.a_s + row.b_s + row.rest_s)))
