"""The diagnosis: exclusive, exhaustive, and silent where nothing was seen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ftprof.profiler.diagnosis import Ledger, PhaseDiagnosis
from ftprof.profiler.ledger import diagnose
from ftprof.profiler.parts import load_ledger, trace_ledger
from ftprof.profiler.record import (
    HostFrame,
    LoadSplit,
    Machine,
    Measurement,
    ModuleTotal,
    ModuleTrace,
    OpTotal,
    OpTrace,
    PhaseTiming,
    RunRecord,
)
from ftprof.profiler.verdict import rule
from ftprof.profiler.workload import Scenario, Workload
from tests.profiler.test_bounds import op
from tests.profiler.tiny_models import machine


def trace(ops: tuple[OpTotal, ...] = (op(),), host_s: float = 0.5, phase: Any = "decode", **changes: Any) -> OpTrace:
    """Untraced time as long as what was seen, unless told otherwise."""
    seen = host_s + sum(one.self_s for one in ops)
    fields: dict[str, Any] = {"traced_s": 1.2 * seen, "untraced_s": seen, "events": 10, "scenario": "single"}
    return OpTrace(ops=ops, host_s=host_s, phase=phase, **{**fields, **changes})


def timing(phase: Any, seconds: float, scenario: str = "single") -> PhaseTiming:
    return PhaseTiming(scenario=scenario, phase=phase, time_s=Measurement(samples=(seconds,) * 6))


WORKLOAD = Workload(
    model="m",
    task="causal-lm",
    rows="rows.jsonl",
    rows_digest="0",
    new_tokens=5,
    prompt_tokens=(10,) * 8,
    scenarios=(Scenario(name="single", units=((0,), (1,))), Scenario(name="batch", units=(tuple(range(8)),))),
)


def record(**changes: Any) -> RunRecord:
    """Decode of 1.5 s a token (1 s of products, 0.5 s host), prefill of 1.5 s, and a run of 8 s."""
    fields: dict[str, Any] = {
        "workload": WORKLOAD,
        "machine": machine(),
        "timing": (timing("tokenise", 0.1), timing("prefill", 1.5), timing("decode", 1.5), timing("e2e", 8.0)),
        "ops": (trace(), trace(phase="prefill")),
    }
    return RunRecord(**{**fields, **changes})


def found(what: RunRecord, phase: str = "decode", scenario: str = "single") -> PhaseDiagnosis:
    phase_found = diagnose(what).phase(scenario, phase)
    assert phase_found is not None
    return phase_found


def groups(ledger: Ledger | None) -> dict[str, float]:
    assert ledger is not None
    return {name: value / ledger.total_s for name, value in ledger.grouped().items()}


OPS = st.lists(
    st.builds(
        lambda kind, calls, self_s, flops, moved: op(kind=kind, calls=calls, self_s=self_s, flops=flops, bytes=moved),
        st.sampled_from(["matmul", "attention", "elementwise", "view", "cast"]),
        st.floats(1, 1e4),
        st.floats(1e-6, 10.0),
        st.one_of(st.none(), st.floats(0, 1e13)),
        st.one_of(st.none(), st.floats(0, 1e12)),
    ),
    max_size=6,
).map(tuple)
SECONDS = st.floats(1e-4, 100.0)


@given(OPS, SECONDS, SECONDS, SECONDS)
def test_the_parts_sum_to_the_untraced_time_and_none_is_negative(
    ops: tuple[OpTotal, ...], host_s: float, untraced_s: float, time_s: float
) -> None:
    parts = trace_ledger(trace(ops, host_s, untraced_s=untraced_s), machine(), time_s)
    assert parts.ledger.total_s == pytest.approx(time_s)
    assert all(getattr(parts.ledger, name) >= 0 for name in Ledger.__struct_fields__)
    assert sum(parts.kinds.values()) <= time_s * (1 + 1e-9)


def slower(limits: Machine, factor: float) -> Machine:
    """The same machine with every limit slower and every cost dearer by a factor."""
    return machine(
        flops_per_s={dtype: rate / factor for dtype, rate in limits.flops_per_s.items()},
        bandwidth=tuple(
            type(point)(
                working_set_bytes=point.working_set_bytes, dtype=point.dtype, bytes_per_s=point.bytes_per_s / factor
            )
            for point in limits.bandwidth
        ),
        dispatch_s=limits.dispatch_s * factor,
    )


@given(OPS, SECONDS, st.floats(0.01, 100.0))
def test_shares_do_not_change_with_the_unit_of_time(ops: tuple[OpTotal, ...], host_s: float, factor: float) -> None:
    plain = trace(ops, host_s)
    scaled = trace(
        tuple(op(**{n: getattr(o, n) for n in o.__struct_fields__} | {"self_s": o.self_s * factor}) for o in ops),
        host_s * factor,
    )
    a = trace_ledger(plain, machine(), plain.untraced_s).ledger
    b = trace_ledger(scaled, slower(machine(), factor), scaled.untraced_s).ledger
    assert groups(b) == pytest.approx(groups(a), abs=1e-6)
    assert rule(b).first == rule(a).first or abs(rule(a).share - rule(a).second_share) < 1e-6


@given(OPS, SECONDS, st.floats(1e-3, 50.0))
def test_more_time_in_an_op_moves_its_row_alone(ops: tuple[OpTotal, ...], host_s: float, more: float) -> None:
    slow = op(name="aten::mm", self_s=20.0)
    before = trace((*ops, slow), host_s)
    after = trace((*ops, op(name="aten::mm", self_s=20.0 + more)), host_s)
    a = trace_ledger(before, machine(), before.untraced_s)
    b = trace_ledger(after, machine(), after.untraced_s)
    assert b.ledger.memory_inefficiency_s - a.ledger.memory_inefficiency_s == pytest.approx(more, rel=1e-6, abs=1e-9)
    for name in Ledger.__struct_fields__:
        if name != "memory_inefficiency_s":
            assert getattr(b.ledger, name) == pytest.approx(getattr(a.ledger, name), abs=1e-9)


def test_decode_limited_by_its_weights() -> None:
    decode = found(record(timing=(timing("decode", 1.5),)))
    assert decode.bound == "memory"
    assert decode.bound_share == pytest.approx(1.0 / 1.5)
    assert decode.second == "host"
    assert decode.headroom == pytest.approx(0.8 / 1.5)
    assert (decode.flops, decode.bytes) == (2e10, 8e9)
    assert decode.traced_ratio == pytest.approx(1.2)
    assert "matmul takes 67% of the time, at 8 of 10 GB/s measured on this machine." in decode.evidence
    assert not decode.confirmed


def test_the_host_is_named_by_its_frames() -> None:
    frames = (HostFrame(function="forward", file="peft/tuners/lora/layer.py", share=0.3),)
    decode = found(record(ops=(trace(host_s=3.0),), timing=(timing("decode", 4.0),), frames=frames))
    assert decode.bound == "host"
    assert any(
        "lies between operations, most often in forward (peft/tuners/lora/layer.py)" in e for e in decode.evidence
    )


def test_close_groups_are_mixed() -> None:
    decode = found(record(ops=(trace(host_s=0.95),), timing=(timing("decode", 1.95),)))
    assert decode.bound == "mixed"
    assert (
        "no single limit (memory 51%, host 49%" in diagnose(record(ops=(trace(host_s=0.95),)), phase="decode").headline
    )


def test_what_the_trace_did_not_see_is_unattributed() -> None:
    decode = found(record(ops=(trace(untraced_s=5.0),), timing=(timing("decode", 5.0),)))
    assert decode.ledger is not None
    assert decode.ledger.unattributed_s == pytest.approx(3.5)
    assert decode.bound == "unknown"
    assert decode.confidence is not None and decode.confidence <= 0.31
    assert "The trace left 70% of the time unexplained." in decode.evidence


def test_what_it_saw_too_much_of_is_scaled_down_and_said() -> None:
    decode = found(record(ops=(trace(untraced_s=1.0),), timing=(timing("decode", 1.0),)))
    assert decode.ledger is not None
    assert decode.ledger.total_s == pytest.approx(1.0)
    assert decode.ledger.host_s == pytest.approx(1 / 3)
    assert any("50% more time than there was" in sentence for sentence in decode.evidence)


def test_ops_far_from_every_limit_lower_the_confidence_and_show_in_the_headline() -> None:
    lame = record(ops=(trace((op(bytes=5e8, flops=1e6),)),), timing=(timing("decode", 1.5),))
    assert (found(lame).confidence or 1) < 0.6
    assert diagnose(lame, phase="decode").headline.endswith("at only 5% of the limit measured here.")


def test_estimated_ops_lower_the_confidence() -> None:
    guessed = record(ops=(trace((op(accuracy="estimated"),)),), timing=(timing("decode", 1.5),))
    assert found(guessed).confidence == pytest.approx((0.5 + 0.5 * 1.0) / 1.5)


@pytest.mark.parametrize(("ratio", "confirmed"), [(1.3, True), (2.0, True), (4.0, False), (8.0, False)])
def test_batching_confirms_weight_streaming(ratio: float, confirmed: bool) -> None:
    both = record(timing=(timing("decode", 1.5), timing("decode", 1.5 * ratio, "batch")))
    assert found(both).confirmed is confirmed
    assert any("Confirmed by batching: 8.0 times the tokens" in e for e in found(both).evidence) is confirmed


@pytest.mark.parametrize(("ratio", "confirmed"), [(7.5, True), (1.5, False)])
def test_growing_with_the_tokens_confirms_arithmetic(ratio: float, confirmed: bool) -> None:
    busy = record(
        ops=(trace((op(flops=9e10),), 0.1, "prefill"),),
        timing=(timing("prefill", 1.1), timing("prefill", 1.1 * ratio, "batch")),
    )
    assert found(busy, "prefill").bound == "compute"
    assert found(busy, "prefill").confirmed is confirmed


def test_end_to_end_is_the_sum_of_its_parts() -> None:
    whole = found(record(), "e2e")
    assert whole.ledger is not None
    assert whole.ledger.total_s == pytest.approx(8.0)
    assert whole.ledger.host_s == pytest.approx(0.1 + 0.5 + 4 * 0.5)
    assert whole.ledger.memory_s == pytest.approx(0.8 + 4 * 0.8)
    assert whole.ledger.unattributed_s == pytest.approx(8.0 - 0.1 - 5 * 1.5)
    assert whole.kinds["matmul"] == pytest.approx(5.0)
    assert whole.flops == pytest.approx(5 * 2e10)
    assert whole.evidence[0] == "Decode is 75% of it."


def test_end_to_end_abstains_where_a_part_was_not_traced() -> None:
    partly = record(ops=(trace(),))
    assert found(partly, "e2e").ledger is None
    assert any(sentence.startswith("single prefill: no trace") for sentence in diagnose(partly).abstained)


def test_without_limits_there_are_times_and_no_verdict() -> None:
    bare = diagnose(record(machine=None))
    assert [phase.name for phase in bare.phases] == ["tokenise", "prefill", "decode", "e2e"]
    assert bare.phases[2].time_s.median == 1.5
    assert bare.phases[2].bound == "unknown"
    assert "no limits of this machine" in bare.abstained[0]


def test_an_empty_record_has_an_empty_diagnosis() -> None:
    assert diagnose(RunRecord()).phases == ()
    assert diagnose(RunRecord()).headline == "Nothing was timed."


def test_modules_are_brought_to_the_untraced_median() -> None:
    seen = ModuleTrace(
        scenario="single",
        phase="decode",
        modules=(
            ModuleTotal(kind="mlp", calls=2, self_s=1.0),
            ModuleTotal(kind="outside modules", calls=1, self_s=1.0),
        ),
        wrapped_s=2.1,
        untraced_s=2.0,
    )
    assert found(record(modules=(seen,))).modules == pytest.approx({"mlp": 0.75, "outside modules": 0.75})
    assert found(record(modules=(seen,)), "e2e").modules == pytest.approx({"mlp": 3.0, "outside modules": 3.0})


def load(**changes: Any) -> LoadSplit:
    fields: dict[str, Any] = {
        "import_s": 2.0,
        "build_s": 1.0,
        "adapter_s": 0.5,
        "first_use_s": 0.5,
        "file_bytes": 200_000_000,
        "evicted": True,
        "disk_bytes_per_s": 1e8,
    }
    return LoadSplit(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "confirmed", "said"),
    [
        ({"disk_bytes_per_s": None, "warm_s": 1.4}, True, "it took 15% less, so reading is not what limits it"),
        ({"import_s": 0.5, "warm_s": 0.2}, True, "Confirmed by loading it again: with its files in the file cache"),
        ({"import_s": 0.5, "warm_s": 1.9}, False, "Contradicted by loading it again"),
        ({"warm_s": None}, False, ""),
        ({"import_s": 0.5, "warm_s": 0.2, "evicted": False}, False, ""),
    ],
)
def test_a_second_load_says_what_reading_cost(changes: dict[str, Any], confirmed: bool, said: str) -> None:
    split = load(**changes)
    time_s = split.import_s + split.build_s + split.adapter_s + split.first_use_s
    seen = found(record(load=split, timing=(timing("load", time_s),)), "load")
    assert seen.confirmed is confirmed
    assert said in " ".join(seen.evidence)
    if said.startswith("Contradicted"):
        assert seen.confidence is not None and seen.confidence <= 0.5


def test_loading_is_split_into_reading_and_the_rest() -> None:
    assert load_ledger(load(), 4.0).ledger == Ledger(io_s=2.0, host_s=2.0)
    assert load_ledger(load(disk_bytes_per_s=1e6), 4.0).ledger.io_s == 2.0
    assert load_ledger(load(disk_bytes_per_s=None), 4.0).ledger.io_s == 0.5
    assert found(record(load=load(), timing=(timing("load", 5.0),)), "load").ledger == Ledger(
        io_s=2.0, host_s=2.0, unattributed_s=1.0
    )
