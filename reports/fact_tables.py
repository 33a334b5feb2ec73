"""Tables of facts: adapter, quality, memory, loading, trust, machine and versions."""

from __future__ import annotations

import math

from ftprof.advisors.audit import Audit
from ftprof.advisors.rule import Finding
from ftprof.profiler.diagnosis import Lora
from ftprof.profiler.quality import QualityCheck
from ftprof.reports import clean, units, wording
from ftprof.reports.table import Table, table


def lora_phases(audit: Audit, lora: Lora) -> Table:
    """The adapter's share of each phase, by both ways."""
    rows: list[tuple[str, ...]] = [
        (
            wording.capital(wording.phase(entry.phase)),
            wording.batch(audit, entry.scenario, entry.phase),
            units.share(entry.ablation),
            units.share(entry.attributed),
        )
        for entry in lora.phases
    ]
    head = ("Phase", "Batch", "By ablation", "By attribution")
    caption = f"{wording.adapter(audit)}'s share of each phase by two independent ways, with 95% intervals"
    return table(caption, head, rows, words=2)


def lora_targets(lora: Lora) -> Table:
    """Base layer, A, B and the rest for each kind of target."""
    rows: list[tuple[str, ...]] = [
        (
            clean.name(entry.target),
            wording.phase(entry.phase),
            *map(units.duration, (entry.base_s, entry.a_s, entry.b_s, entry.rest_s)),
        )
        for entry in lora.targets
    ]
    head = ("Target", "Phase", "Base layer", "LoRA A", "LoRA B", "Scale, add, cast")
    return table("Time at each kind of target, per occurrence of the phase", head, rows, words=2)


def adapter(audit: Audit) -> Table:
    """The adapter as it lies on disk and as it was loaded."""
    facts = audit.model.adapter
    if facts is None:
        return table("The adapter", ("What", "Value"), [])
    rows: list[tuple[str, ...]] = [
        ("Kind", clean.name(facts.title or facts.kind)),
        ("Rank", _number(facts.rank)),
        ("Alpha", _number(facts.alpha)),
        ("Targets", clean.name(", ".join(facts.targets))),
        ("Modules", units.count(facts.modules)),
        ("Parameters", units.count(facts.parameters)),
        ("File", f"{units.size(facts.file_bytes)}, {clean.name(facts.file_dtype)}"),
        ("Loaded as", clean.name(facts.loaded_dtype)),
        ("Cannot be merged because", "; ".join(facts.blockers) or "nothing forbids it"),
    ]
    return table("The adapter", ("What", "Value"), rows, words=2)


def _number(value: float | None) -> str:
    return units.ABSENT if value is None else f"{value:g}"


def quality(check: QualityCheck) -> Table:
    """Each figure of a quality check with its bounds and its limit."""
    rows: list[tuple[str, ...]] = []
    for name, bounded in check.figures.items():
        bounds = f"{wording.figure(name, bounded.low)} to {wording.figure(name, bounded.high)}"
        limit = "shown only" if bounded.limit is None else wording.figure(name, bounded.limit)
        verdict = {True: "met", False: "not met", None: ""}[bounded.passed]
        label = wording.capital(wording.FIGURES.get(name, clean.name(name)))
        rows.append((label, wording.figure(name, bounded.value), bounds, limit, verdict))
    rows += _generation(check)
    head = ("Figure", "Value", "One-sided 95% bounds", "Limit", "Verdict")
    seen = f"{units.count(check.documents)} documents, {units.count(check.tokens)} scored tokens"
    return table("Outputs against the model as loaded", head, rows, note=f"From {seen}.")


def _generation(check: QualityCheck) -> list[tuple[str, ...]]:
    generation = check.generation
    if generation is None:
        return []
    verdict = "met" if generation.passed else "not met"
    alike = f"{generation.identical} of {generation.prompts}"
    ends = f"{generation.eos_candidate} against {generation.eos_baseline}"
    return [
        ("Greedy replies identical", alike, "", "", verdict),
        ("Length of the replies", units.percent(generation.length_ratio), "", "", ""),
        ("Replies that end by themselves", ends, "", "", ""),
    ]


def memory(audit: Audit) -> Table:
    """Peak memory of the worker and what of it is known."""
    seen = audit.model.memory
    if seen is None:
        return table("Memory", ("What", "Size"), [])
    rows: list[tuple[str, ...]] = [
        ("Peak of the process", units.size(seen.peak_bytes)),
        ("Weights", units.size(seen.weight_bytes)),
        ("Adapter", units.size(seen.adapter_bytes)),
        ("Before the model was loaded", units.size(seen.before_load_bytes)),
    ]
    return table("Memory of the worker process", ("What", "Size"), rows)


def device(audit: Audit) -> Table:
    """What NVML read while the baseline ran; no rows where there was no device."""
    seen = audit.model.device
    if seen is None:
        return table("The GPU while the baseline ran", ("What", "Value"), [])
    held = ", ".join(f"{word} ({units.percent(share)} of readings)" for word, share in seen.held_back.items())
    rows: list[tuple[str, ...]] = [
        ("Readings", f"{units.count(seen.readings)} in {units.duration(seen.seconds)}"),
        ("Mean power", units.ABSENT if seen.power_w is None else f"{seen.power_w:.0f} W"),
        ("Energy", units.ABSENT if seen.energy_j is None else f"{seen.energy_j:.0f} J"),
        ("Energy a token", units.ABSENT if seen.token_energy_j is None else f"{seen.token_energy_j:.3g} J"),
        ("Peak memory in use", units.size(seen.peak_memory_bytes)),
        ("SMs busy (GPM)", units.percent(seen.sm)),
        ("Tensor cores busy (GPM)", units.percent(seen.tensor)),
        ("Memory bandwidth used (GPM)", units.percent(seen.dram)),
        ("Clock held back by", held or "nothing that was read"),
        *(("Note", note) for note in seen.notes),
    ]
    return table("The GPU while the baseline ran, by NVML", ("What", "Value"), rows, words=2)


def loading(audit: Audit) -> Table:
    """The cold load of a fresh process in parts."""
    split = audit.model.load
    if split is None:
        return table("Cold load", ("Part", "Value"), [])
    rows: list[tuple[str, ...]] = [
        ("Import of the libraries", units.duration(split.import_s)),
        ("Building the model", units.duration(split.build_s)),
        ("Attaching the adapter", units.duration(split.adapter_s)),
        ("First use of the weights", units.duration(split.first_use_s)),
        ("Building and attaching again, files in the file cache", units.duration(split.warm_s)),
        ("Size of the files", units.size(split.file_bytes)),
        ("Read from disk", units.size(split.read_bytes)),
        ("Speed of the disk", units.rate(split.disk_bytes_per_s, "B")),
        ("File cache emptied before", "yes" if split.evicted else "no: files may have come from memory"),
    ]
    return table("Cold load in a fresh process", ("Part", "Value"), rows)


def padding(audit: Audit) -> Table:
    """Tokens that the batches really hold."""
    facts = audit.model.padding
    if facts is None:
        return table("Padding", ("What", "Tokens"), [])
    rows: list[tuple[str, ...]] = [
        ("Real tokens", units.count(facts.real_tokens)),
        ("With padding, as called", units.count(facts.padded_tokens)),
        ("With padding, sorted by length", units.count(facts.bucketed_tokens)),
    ]
    return table("Tokens in the batches", ("What", "Tokens"), rows)


def base_difference(audit: Audit) -> Table:
    """What the fine-tune changed against its base, and what that costs where it was measured."""
    rows: list[tuple[str, ...]] = [
        (clean.name(entry.what), clean.name(entry.base), clean.name(entry.tuned), entry.cost or units.ABSENT)
        for entry in audit.base_diff
    ]
    head = ("What", "Base", "This model", "Cost")
    return table("What the fine-tune changed against its base", head, rows, words=4)


def controls(audit: Audit) -> Table:
    """The original against itself."""
    entries = audit.trust.controls if audit.trust else ()
    rows: list[tuple[str, ...]] = [
        (wording.capital(wording.place(audit, entry.scenario, entry.phase)), units.speedup(entry.ratio))
        for entry in entries
    ]
    return table("The original against itself", ("Phase", "Ratio (95% interval)"), rows)


def machine(audit: Audit) -> Table:
    """Limits measured on this machine."""
    limits = audit.machine
    if limits is None:
        return table("Limits of this machine", ("What", "Value"), [])
    rows: list[tuple[str, ...]] = [
        ("Processor", clean.name(limits.cpu)),
        ("Device", limits.device),
        ("Cores, threads used", f"{limits.cores}, {limits.threads}"),
        ("Memory", units.size(limits.memory_bytes)),
        ("Instruction sets", clean.name(", ".join(limits.isa)) or "not known"),
    ]
    rows += [
        (f"Matrix multiplication, {clean.name(dtype)}", units.rate(rate, "FLOP"))
        for dtype, rate in limits.flops_per_s.items()
    ]
    rows += [
        (
            f"Reading {units.size(entry.working_set_bytes)}, {clean.name(entry.dtype)}",
            units.rate(entry.bytes_per_s, "B"),
        )
        for entry in limits.bandwidth
    ]
    rows.append(("Dispatch of one small operation", units.duration(limits.dispatch_s)))
    return table("This machine and its limits, measured before the model", ("What", "Value"), rows, words=2)


def environment(audit: Audit) -> Table:
    """Versions and settings that move the figures."""
    env = audit.environment
    rows: list[tuple[str, ...]] = [("Python", env.python), ("Platform", clean.name(env.platform))]
    rows += [(clean.name(package), clean.name(version)) for package, version in sorted(env.packages.items())]
    rows += [(clean.name(variable), clean.name(value)) for variable, value in sorted(env.variables.items())]
    rows += [("Start of workers", env.start_method)] if env.start_method else []
    return table("Versions and settings", ("What", "Value"), rows, words=2)


def model(audit: Audit) -> Table:
    """The model as it was really built."""
    facts = audit.model.facts
    if facts is None:
        return table("The model", ("What", "Value"), [])
    rows: list[tuple[str, ...]] = [
        ("Architecture", clean.name(facts.architecture)),
        ("Base", clean.name(audit.model.base or "not known")),
        ("Layers, width", f"{facts.layers}, {facts.hidden_size}"),
        ("Heads, key-value heads", f"{_number(facts.heads)}, {_number(facts.kv_heads)}"),
        ("Vocabulary", units.count(facts.vocabulary)),
        ("Parameters", units.count(facts.parameters)),
        ("Weights", f"{units.size(facts.weight_bytes)}, {clean.name(facts.dtype)}"),
        ("Attention", clean.name(facts.attention)),
        ("Key-value cache", {True: "on", False: "off", None: "does not apply"}[facts.use_cache]),
        ("Runtime", clean.name(facts.engine)),
    ]
    return table("The model as it was built", ("What", "Value"), rows, words=2)


def evidence(finding: Finding) -> Table:
    """The numbers that a rule saw, with its conditions."""
    rows = [
        (clean.name(entry.name), _evidence_value(entry.value, entry.unit), clean.name(entry.condition))
        for entry in finding.evidence
    ]
    return table("What the rule saw", ("What", "Value", "Condition"), rows, words=3)


def _evidence_value(value: float | str, unit: str) -> str:
    if isinstance(value, str):
        return clean.name(f"{value} {unit}".strip())
    shown = units.count(value) if float(value).is_integer() else units.significant(value)
    return clean.name(f"{shown} {unit}".strip())


def frames(audit: Audit) -> Table:
    """The Python functions behind the host's share."""
    rows = [(clean.name(frame.function), clean.name(frame.file), units.percent(frame.share)) for frame in audit.frames]
    return table("Share of the sampled self time", ("Function", "File", "Share"), rows, words=2)


def prediction_errors(audit: Audit) -> str:
    """How far this audit's predictions were from what was measured, as factors."""
    errors = audit.trust.predictions if audit.trust else ()
    if not errors:
        return "none"
    factors = ", ".join(units.factor(math.exp(abs(error))) for error in errors)
    return f"{len(errors)}; predicted and measured differ by {factors}"
