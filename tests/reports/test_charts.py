"""Each chart says in its title what its numbers show, and is left out where there are none."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ftprof.advisors.audit import Audit, PhaseEntry
from ftprof.profiler.diagnosis import LoraTarget
from ftprof.reports import units
from ftprof.reports.capacity import capacity
from ftprof.reports.chart_evidence import evidence
from ftprof.reports.chart_limits import limits
from ftprof.reports.chart_request import request
from ftprof.reports.charts import lora
from ftprof.reports.compare_counts import kv_bytes_per_token
from tests.reports.example import bare, encoder, full
from tests.reports.parts import interval


def timed(audit: Audit, **seconds: float) -> Audit:
    entries = tuple(
        PhaseEntry(scenario="single", name=name, time_s=interval(time), ledger=None) for name, time in seconds.items()
    )
    return replace(audit, phases=entries)


def test_a_request_is_the_sum_of_its_phases() -> None:
    # 31 decode steps of 40 ms are 1.24 of 1.5 s.
    chart = request(timed(full(), tokenise=0.002, prefill=0.18, decode=0.04, e2e=1.5))
    assert chart is not None
    assert chart.title == "A request takes 1.50 s: 83% of it is decode of 31 tokens"
    shares = [row[3] for row in chart.table.rows]
    assert shares == ["0.13%", "12%", "83%", "5.2%"]
    assert chart.table.rows[2][4] == "859 ms", "31 steps of 27.7 ms in the best variant"


@pytest.mark.parametrize(
    "audit",
    [bare(), timed(full(), prefill=0.2, decode=0.04), timed(full(), prefill=0.9, decode=0.1, e2e=1.5)],
    ids=["nothing", "no whole", "more than the whole"],
)
def test_phases_that_do_not_make_up_a_request_are_not_drawn_as_one(audit: Audit) -> None:
    assert request(audit) is None


def test_evidence_counts_what_experiments_confirmed() -> None:
    audit = full()
    assert audit.diagnosis is not None
    phases = tuple(replace(phase, confirmed=place == 0) for place, phase in enumerate(audit.diagnosis.phases))
    chart = evidence(replace(audit, diagnosis=replace(audit.diagnosis, phases=phases)))
    assert chart is not None
    drawn = sum(phase.ledger is not None for phase in phases)
    assert chart.title == f"1 of {drawn} verdicts is confirmed by an experiment"
    assert [row[2] for row in chart.table.rows] == ["confirmed", *["suspected"] * (drawn - 1)]
    assert evidence(bare()) is None


def test_limits_are_those_of_this_machine() -> None:
    audit = encoder()
    chart = limits(audit)
    assert chart is not None and audit.machine is not None and audit.diagnosis is not None
    work = next(phase for phase in audit.diagnosis.phases if phase.flops)
    row = next(row for row in chart.table.rows if row[1] == "arithmetic")
    assert row[3] == "268 GFLOP/s", "the model's own dtype"
    assert work.flops is not None
    assert row[4] == f"{100 * work.flops / work.time_s.median / 2.68e11:.0f}%"
    assert chart.title.startswith("Nearest to a limit: ")
    assert limits(replace(audit, machine=None)) is None
    assert limits(bare()) is None


def test_an_end_to_end_cost_shows_each_target_once() -> None:
    audit = full()
    cost = audit.lora
    assert cost is not None
    both = tuple(
        LoraTarget(phase=phase, target=target, base_s=0.001, a_s=extra, b_s=extra, rest_s=extra)
        for phase, extra in (("prefill", 0.002), ("decode", 0.0004))
        for target in ("q_proj", "v_proj")
    )
    chart = lora(replace(audit, lora=replace(cost, phase="e2e", targets=both)))
    assert chart is not None
    # 32 tokens at 2.4 ms are more than one prefill at 12 ms.
    assert chart.title == "LoRA adds most at q_proj: 1.20 ms of decode per token (batch of 1)"
    assert chart.description.count("q_proj") == 1


def test_the_cache_is_computed_from_the_shape_and_held_against_free_memory() -> None:
    audit = full()
    assert audit.machine is not None and audit.model.facts is not None
    shown = capacity(audit)
    assert shown.head == ("Tokens of context", "Batch of 1", "Batch of 8", "Batch of 32")
    a_token = kv_bytes_per_token(audit)
    assert a_token is not None
    assert shown.rows[0][1] == f"{units.size(512 * a_token)}, fits"
    small = replace(audit, machine=replace(audit.machine, memory_bytes=3 * 2**30))
    assert capacity(small).rows[-1][-1].endswith("does not fit")
    on_gpu = replace(audit, machine=replace(audit.machine, device="cuda:0"))
    assert "fit" not in "".join(capacity(on_gpu).rows[0])
    assert capacity(encoder()).rows == capacity(bare()).rows == ()
