from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from ftprof.advisors.audit import Audit, Control, PhaseEntry
from ftprof.profiler.diagnosis import Interval
from ftprof.profiler.paired import interval as measured_interval
from ftprof.reports import compare_views
from ftprof.reports.compare import compare
from ftprof.reports.compare_counts import kv_bytes_per_token
from ftprof.reports.compare_document import Compared, CountChange, TimeChange
from ftprof.reports.compare_times import machine_shift
from tests.reports import example
from tests.reports.hostile import CORPUS, filled
from tests.reports.on_console import console_text
from tests.reports.parts import diagnosis, ratio

E2E = ("single", "e2e")


def quiet(seconds: float = 1.5, *, width: float = 0.004, control: float = 0.004, drift: float | None = 0.0) -> Audit:
    """The example audit as a quiet machine would leave it, with this end-to-end time of a single request."""
    audit = example.full()
    assert audit.trust is not None
    entry = PhaseEntry(
        scenario="single",
        name="e2e",
        time_s=Interval(median=seconds, low=seconds * (1 - width), high=seconds * (1 + width), n=24),
        ledger=None,
    )
    alone = Control(scenario="single", phase="e2e", ratio=ratio(1.0, "equivalent", control))
    return replace(audit, phases=(entry,), trust=replace(audit.trust, controls=(alone,), drift=drift, grade="A"))


def row(found: Compared, scenario: str = "single", phase: str = "e2e") -> TimeChange:
    return next(one for one in found.times if (one.scenario, one.phase) == (scenario, phase))


def count(found: Compared, name: str) -> CountChange:
    return next(one for one in found.counts if one.name == name)


@pytest.mark.parametrize(
    ("seconds", "verdict", "outcome", "code"),
    [
        (1.8, "slower", "regression", 1),
        (1.2, "faster", "no regression", 0),
        (1.5, "same", "no regression", 0),
        (1.57, "inconclusive", "inconclusive", 3),
    ],
)
def test_the_four_verdicts(seconds: float, verdict: str, outcome: str, code: int) -> None:
    found = compare(quiet(1.5), quiet(seconds))
    assert (row(found).verdict, found.outcome, found.exit_code) == (verdict, outcome, code)
    change = row(found)
    assert change.change == pytest.approx(seconds / 1.5 - 1)
    assert change.low is not None and change.high is not None and change.change is not None
    assert change.low < change.change < change.high


def test_turning_the_sides_round_turns_the_verdict() -> None:
    there, back = row(compare(quiet(1.5), quiet(2.0))), row(compare(quiet(2.0), quiet(1.5)))
    assert (there.verdict, back.verdict) == ("slower", "faster")
    assert there.low is not None and back.high is not None
    assert (1 + there.low) * (1 + back.high) == pytest.approx(1)


@pytest.mark.parametrize(
    "noise",
    [
        {"control": 0.25},
        {"drift": -0.25},
        {"width": 0.2},
    ],
)
@pytest.mark.parametrize("side", ["base", "head"])
def test_noise_of_either_side_forbids_a_verdict(noise: dict[str, float], side: str) -> None:
    base, head = quiet(1.5, **(noise if side == "base" else {})), quiet(1.8, **(noise if side == "head" else {}))
    found = compare(base, head)
    assert (row(found).verdict, found.exit_code) == ("inconclusive", 3)
    detectable = row(found).detectable
    assert detectable is not None and detectable > 0.2
    assert f"{100 * detectable:.0f}%" in found.headline, "the reader learns what could have been shown"


def test_a_machine_that_slowed_down_between_the_runs_explains_the_slow_down() -> None:
    base, head = quiet(1.5), quiet(1.8)
    assert head.machine is not None
    slower = replace(head.machine, flops_per_s={name: rate / 1.2 for name, rate in head.machine.flops_per_s.items()})
    found = compare(base, replace(head, machine=slower))
    assert machine_shift(base.machine, slower) == pytest.approx(math.log(1.2))
    assert (row(found).verdict, found.exit_code) == ("inconclusive", 3)
    assert "drift" in row(found).why


def test_few_samples_and_missing_controls_prove_nothing() -> None:
    base, head = quiet(1.5), quiet(3.0)
    assert head.trust is not None
    few = replace(head.phases[0], time_s=replace(head.phases[0].time_s, n=5))
    for doctored in (
        replace(head, phases=(few,)),
        replace(head, trust=replace(head.trust, controls=())),
        replace(head, trust=None),
    ):
        found = compare(base, doctored)
        assert (row(found).verdict, found.exit_code) == ("inconclusive", 3)


def test_a_phase_that_only_informs_fails_nothing() -> None:
    base, head = quiet(1.5), quiet(1.5)
    slow = [replace(audit.phases[0], name="tokenise") for audit in (base, quiet(15.0))]
    assert base.trust is not None
    controls = (
        *base.trust.controls,
        Control(scenario="single", phase="tokenise", ratio=ratio(1.0, "equivalent", 0.004)),
    )
    sides = [
        replace(audit, phases=(*audit.phases, extra), trust=replace(base.trust, controls=controls))
        for audit, extra in zip((base, head), slow, strict=True)
    ]
    found = compare(*sides)
    assert row(found, phase="tokenise").verdict == "slower"
    assert found.exit_code == 0


def _simulated(rng: random.Random, effect: float, *, process_sd: float, drift_sd: float) -> Audit:
    """An audit of two processes on a machine whose speed wanders; true time 1 s times `effect`."""
    speed = math.exp(rng.gauss(0, drift_sd))
    samples: list[Sequence[float]] = [
        [effect * speed * math.exp(offset + rng.gauss(0, 0.01)) for _ in range(12)]
        for offset in (rng.gauss(0, process_sd), rng.gauss(0, process_sd))
    ]
    both = measured_interval([sample for process in samples for sample in process])
    stray = statistics.median(samples[0]) / statistics.median(samples[1])
    audit = quiet(1.0)
    assert audit.trust is not None and audit.machine is not None
    control = replace(ratio(stray, "equivalent", 0.008, pairs=12))
    return replace(
        audit,
        phases=(replace(audit.phases[0], time_s=both),),
        trust=replace(audit.trust, controls=(Control(scenario="single", phase="e2e", ratio=control),)),
        # The limits that are measured before the run see the same speed, but for their own noise.
        machine=replace(audit.machine, flops_per_s={"float32": 2e11 / speed * math.exp(rng.gauss(0, 0.005))}),
    )


@pytest.mark.parametrize(("process_sd", "drift_sd"), [(0.0, 0.0), (0.01, 0.0), (0.02, 0.0), (0.01, 0.1)])
def test_identical_models_rarely_alarm(process_sd: float, drift_sd: float) -> None:
    """Simulated: hardly a comparison of a model with itself may call it slower (2.5 % of them, if all assumptions hold)."""
    rng = random.Random(7)
    noise = {"process_sd": process_sd, "drift_sd": drift_sd}
    alarms = sum(
        compare(_simulated(rng, 1.0, **noise), _simulated(rng, 1.0, **noise)).exit_code == 1 for _ in range(50)
    )
    assert alarms <= 2


def test_a_real_slow_down_is_found_on_a_quiet_machine() -> None:
    rng = random.Random(11)
    noise = {"process_sd": 0.005, "drift_sd": 0.0}
    found = [compare(_simulated(rng, 1.0, **noise), _simulated(rng, 1.12, **noise)).exit_code for _ in range(40)]
    assert found.count(1) >= 32, "12 % slower, four times in five"


def _machine(audit: Audit) -> Audit:
    assert audit.machine is not None
    return replace(audit, machine=replace(audit.machine, cpu="AMD EPYC 9654"))


def _torch(audit: Audit) -> Audit:
    return replace(
        audit, environment=replace(audit.environment, packages={**audit.environment.packages, "torch": "2.14.0"})
    )


DIFFERENT: dict[str, Callable[[Audit], Audit]] = {
    "cpu": _machine,
    "torch": _torch,
    "data sha256": lambda audit: replace(audit, workload=replace(audit.workload, rows_digest="00" * 32)),
    "prompt tokens": lambda audit: replace(audit, workload=replace(audit.workload, prompt_tokens=(1, 2, 3, 4))),
    "call.pad_to": lambda audit: replace(
        audit, workload=replace(audit.workload, call=replace(audit.workload.call, pad_to=256, padding="max_length"))
    ),
}


@pytest.mark.parametrize("field", DIFFERENT)
def test_other_conditions_are_named_and_times_not_compared(field: str) -> None:
    found = compare(quiet(1.5), DIFFERENT[field](quiet(3.0)))
    assert row(found).verdict == "not compared"
    assert field in [one.field for one in found.differences]
    assert field in found.headline
    assert found.exit_code == 0, "what was counted is the same"
    assert compare(quiet(1.5), DIFFERENT[field](quiet(3.0)), require_times=True).exit_code == 5


def test_a_patch_release_is_named_and_compared_and_a_minor_one_on_request() -> None:
    base, head = quiet(1.5), quiet(3.0)
    patch = replace(
        head, environment=replace(head.environment, packages={**head.environment.packages, "torch": "2.13.1"})
    )
    assert "torch" in [one.field for one in compare(base, patch).differences]
    assert compare(base, patch).exit_code == 1
    assert compare(base, _torch(head), allow=["torch"]).exit_code == 1
    assert row(compare(base, _machine(head), allow=["torch", "call"])).verdict == "not compared"


def test_another_way_to_call_is_named_and_compared() -> None:
    head = quiet(3.0)
    eager = replace(head, workload=replace(head.workload, call=replace(head.workload.call, attention="eager")))
    found = compare(quiet(1.5), eager)
    assert [one.field for one in found.differences] == ["call.attention"]
    assert found.exit_code == 1


def test_other_numbers_of_new_tokens_leave_the_parts_to_compare() -> None:
    base, head = quiet(1.5), quiet(1.5)
    assert base.trust is not None
    parts = [
        replace(
            audit,
            phases=(
                audit.phases[0],
                replace(audit.phases[0], name="decode", time_s=Interval(median=t, low=t, high=t, n=9)),
            ),
            trust=replace(
                base.trust,
                controls=(Control(scenario="single", phase="decode", ratio=ratio(1.0, "equivalent", 0.004)),),
            ),
        )
        for audit, t in ((base, 0.04), (head, 0.05))
    ]
    parts[1] = replace(parts[1], workload=replace(parts[1].workload, new_tokens=24))
    found = compare(*parts)
    assert row(found).verdict == "not compared"
    assert row(found, phase="decode").decisive
    assert (row(found, phase="decode").verdict, found.exit_code) == ("slower", 1)


def test_counts_decide_on_another_machine() -> None:
    base, head = quiet(1.5), _machine(quiet(1.5))
    assert base.model.facts is not None
    merged = replace(base, model=replace(base.model, adapter=None))
    found = compare(merged, head)
    assert (count(found, "adapter modules not merged").verdict, found.exit_code) == ("worse", 1)
    assert "0 to 210" in found.headline
    assert count(found, "peak memory").verdict == "not compared"
    assert compare(head, replace(merged, machine=head.machine)).exit_code == 0


@pytest.mark.parametrize(("factor", "verdict"), [(1.04, "same"), (1.06, "worse"), (0.9, "better")])
def test_peak_memory_has_its_tolerance(factor: float, verdict: str) -> None:
    base = quiet()
    assert base.model.memory is not None
    peak = int(base.model.memory.peak_bytes * factor)
    head = replace(base, model=replace(base.model, memory=replace(base.model.memory, peak_bytes=peak)))
    assert count(compare(base, head), "peak memory").verdict == verdict


def test_operations_and_casts_are_compared_exactly() -> None:
    base = quiet()
    assert base.diagnosis is not None

    def with_casts(casts: float) -> Audit:
        phases = tuple(replace(one, calls={"matmul": 210.0, "cast": casts}) for one in diagnosis().phases)
        return replace(base, diagnosis=replace(diagnosis(), phases=phases))

    found = compare(with_casts(0.0), with_casts(420.0))
    assert count(found, "casts, decode per token (batch of 1)").verdict == "worse"
    assert count(found, "operations, decode per token (batch of 1)").head == 630
    assert compare(with_casts(420.0), with_casts(420.0)).exit_code == 0


def test_key_value_bytes_by_hand() -> None:
    assert kv_bytes_per_token(example.full()) == 2 * 30 * 3 * 64 * 4
    assert kv_bytes_per_token(example.encoder()) is None
    assert kv_bytes_per_token(example.bare()) is None


def test_findings_that_appear_and_go() -> None:
    base = quiet()
    found = compare(replace(base, advice=base.advice[:1]), replace(base, advice=base.advice[1:]))
    assert (found.appeared, found.fixed) == (("slow-weight-load",), ("unmerged-adapter",))
    assert found.exit_code == 0, "a rule's threshold rests on times, which are noisy"


@pytest.mark.parametrize(("base", "head"), [("full", "encoder"), ("bare", "full"), ("bare", "bare")])
def test_nothing_to_compare(base: str, head: str) -> None:
    found = compare(example.VARIANTS[base](), example.VARIANTS[head]())
    assert (found.outcome, found.exit_code) == ("nothing to compare", 5)


def test_an_objective_that_was_not_timed_is_no_clean_bill() -> None:
    head = quiet()
    other = replace(head, phases=(replace(head.phases[0], name="decode"),))
    assert compare(other, other).exit_code == 3


@pytest.mark.parametrize("text", CORPUS)
def test_hostile_names_break_no_view(text: str) -> None:
    found = compare(filled(quiet(1.5), text), filled(quiet(1.8), text))
    json.loads(compare_views.as_json(found))
    comment = compare_views.as_markdown(found)
    assert "<script" not in comment and comment.count("<details>") == comment.count("</details>") == 1
    assert "\x1b" not in comment
    assert "REGRESSION" in console_text(lambda console: compare_views.render(found, console))


def test_views_agree() -> None:
    found = compare(quiet(1.5), quiet(1.8))
    document: dict[str, Any] = json.loads(compare_views.as_json(found))
    assert document["outcome"] == "regression"
    comment = compare_views.as_markdown(found)
    text = console_text(lambda console: compare_views.render(found, console))
    assert "+20.0%" in comment and "+20.0%" in text
    assert max(map(len, text.splitlines())) <= 80
