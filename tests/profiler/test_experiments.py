"""Waits call by call, rows doubled, a narrow twin, and what a verdict makes of them."""

from __future__ import annotations

import io
import queue
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import given

from ftprof.profiler.diagnosis import Ledger
from ftprof.profiler.doubling import double_rows
from ftprof.profiler.engine import Batch
from ftprof.profiler.interventions import judge, paired_ratio, twin_share
from ftprof.profiler.narrow import narrow_config, narrow_engine, time_twin
from ftprof.profiler.parts import trace_ledger
from ftprof.profiler.pretokenised import skip_tokeniser
from ftprof.profiler.record import (
    Doubling,
    HostTwin,
    OpTotal,
    PhaseWaits,
    Pretokenised,
    RunRecord,
    ThreadGain,
    ThreadScaling,
)
from ftprof.profiler.thread_scaling import scale_threads
from ftprof.profiler.torch_engine import TorchEngine
from ftprof.profiler.waits import classify, trace_waits
from ftprof.profiler.workload import Call, Row
from tests.profiler import tiny_models
from tests.profiler.test_bounds import op
from tests.profiler.test_ledger import OPS, SECONDS, found, record, timing, trace

PAUSE_S = 0.02


def stamp(*parts: Any) -> tuple[int, ...]:
    """Runs the parts in turn, stamped."""
    stamps = [time.perf_counter_ns()]
    for part in parts:
        part()
        stamps.append(time.perf_counter_ns())
    return tuple(stamps)


def read(path: Path) -> None:
    for _ in range(20):
        path.read_bytes()


def test_waits_fall_into_their_phase_and_row(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1 << 20))
    prefill, decode = trace_waits(
        lambda: stamp(lambda: read(path), lambda: time.sleep(PAUSE_S)), scenario="single", phases=("prefill", "decode")
    )
    assert prefill.io_s > 0
    assert prefill.sync_s == 0
    assert decode.sync_s >= 0.9 * PAUSE_S
    assert decode.io_s == 0


def test_a_queue_that_another_thread_fills_is_waited_for() -> None:
    def wait() -> None:
        filled: queue.Queue[int] = queue.Queue()
        threading.Timer(PAUSE_S, lambda: filled.put(1)).start()
        filled.get()

    (waits,) = trace_waits(lambda: stamp(wait), scenario="single", phases=("forward",))
    assert waits.sync_s >= 0.5 * PAUSE_S


def test_computing_waits_for_nothing() -> None:
    x = torch.randn(64, 64)
    (waits,) = trace_waits(
        lambda: stamp(lambda: [torch.mm(x, x) for _ in range(20)]), scenario="s", phases=("forward",)
    )
    assert (waits.io_s, waits.sync_s) == (0.0, 0.0)


def test_a_profile_hook_of_the_users_own_is_put_back() -> None:
    import sys

    seen: list[str] = []

    def own(frame: Any, event: str, argument: Any) -> None:
        del frame, argument
        seen.append(event)

    sys.setprofile(own)
    try:
        trace_waits(lambda: stamp(lambda: None), scenario="single", phases=("forward",))
        assert sys.getprofile() is own
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize(
    ("function", "row"),
    [
        (time.sleep, "sync"),
        (threading.Lock().acquire, "sync"),
        (queue.SimpleQueue[int]().get, "sync"),
        (open, "io"),
        (io.BytesIO(b"x").read, None),
        (torch.mm, None),
        (len, None),
        (threading.Lock().locked, None),
    ],
)
def test_built_in_functions_by_row(function: Any, row: str | None) -> None:
    assert classify(function) == row


class Sized:
    """An engine whose forward takes a pause for each row, or one whatever they are."""

    def __init__(self, *, by_row: bool) -> None:
        self.by_row = by_row

    def pad(self, ids: Any) -> Batch:
        return Batch(inputs={}, tokens=tuple(len(row) for row in ids), length=1)

    def forward(self, batch: Batch) -> None:
        time.sleep(PAUSE_S * (len(batch.tokens) if self.by_row else 1))


@pytest.mark.parametrize(("by_row", "ratio"), [(True, 2.0), (False, 1.0)])
def test_doubled_rows_take_as_much_longer_as_they_cost(by_row: bool, ratio: float) -> None:
    engine: Any = Sized(by_row=by_row)
    (seen,) = double_rows(engine, [[1], [2]], 0, scenario="batch", phases=("forward",))
    assert paired_ratio(seen) == pytest.approx(ratio, rel=0.2)
    assert len(seen.once_s) == len(seen.twice_s) >= 2


def test_time_that_is_up_leaves_two_pairs() -> None:
    engine: Any = Sized(by_row=True)
    (seen,) = double_rows(engine, [[1]], 0, scenario="single", phases=("forward",), budget_s=0.0)
    assert len(seen.once_s) == 2


def test_one_thread_and_all_leave_the_setting_as_it_was() -> None:
    engine: Any = Sized(by_row=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        (seen,) = scale_threads(engine, engine.pad([[1]]), 0, scenario="batch", phases=("forward",), budget_s=0.0)
        assert torch.get_num_threads() == 2
        torch.set_num_threads(1)
        assert scale_threads(engine, engine.pad([[1]]), 0, scenario="batch", phases=("forward",)) == ()
    finally:
        torch.set_num_threads(before)
    assert seen.threads == 2
    assert len(seen.one_s) == len(seen.all_s) == 2


class Tokenising(Sized):
    """Half of a request is the tokeniser's."""

    call = Call(batch_size=1)

    def tokenise(self, texts: Any) -> list[list[int]]:
        time.sleep(PAUSE_S)
        return [[1] for _ in texts]


def test_requests_whose_tokens_are_ready_are_shorter_by_the_tokenisers_time() -> None:
    engine: Any = Tokenising(by_row=True)
    seen = skip_tokeniser(engine, "embedding", [Row(prompt="a")], 0, scenario="single", budget_s=0.5)
    assert len(seen.whole_s) == len(seen.without_s) == len(seen.tokenise_s) >= 2
    assert min(seen.tokenise_s) >= PAUSE_S
    assert min(seen.whole_s) >= 2 * PAUSE_S > max(seen.without_s) * 0.9


def engine_of(model: Any, task: Any, adapter_dir: str | None = None) -> TorchEngine:
    tokenizer = SimpleNamespace(eos_token_id=2, pad_token_id=0, model_max_length=512)
    return TorchEngine(model, tokenizer, Call(), task, adapter_dir)


def test_a_twin_has_the_layers_and_the_adapter_but_not_the_width() -> None:
    original = engine_of(tiny_models.lora_llama(), "causal-lm", "adapter")
    twin = narrow_engine(original)
    assert len(twin.model.base_model.model.model.layers) == tiny_models.LAYERS
    names = {name.replace(".default", "") for name, _ in original.model.named_parameters()}
    assert names == {name.replace(".default", "") for name, _ in twin.model.named_parameters()}
    assert sum(p.numel() for p in twin.model.parameters()) < sum(p.numel() for p in original.model.parameters())
    phases = time_twin(twin, 3, phases=("prefill", "decode"), budget_s=0.1)
    assert [one.phase for one in phases] == ["prefill", "decode"]
    assert all(seconds > 0 for one in phases for seconds in one.time_s)


def test_an_encoders_twin_runs_forward() -> None:
    (forward,) = time_twin(
        narrow_engine(engine_of(tiny_models.bert(), "embedding")), 0, phases=("forward",), budget_s=0.1
    )
    assert len(forward.time_s) >= 4


def test_making_a_twin_draws_no_random_numbers_of_the_users() -> None:
    original = engine_of(tiny_models.lora_llama(), "causal-lm", "adapter")
    before = torch.get_rng_state()
    narrow_engine(original)
    assert torch.equal(before, torch.get_rng_state())


def test_a_config_without_widths_has_no_twin() -> None:
    with pytest.raises(ValueError, match="no width"):
        narrow_config(SimpleNamespace(vocab_size=10))


def doubled(ratio: float, phase: Any = "prefill") -> Doubling:
    return Doubling(scenario="single", phase=phase, once_s=(1.0, 1.1), twice_s=(ratio, 1.1 * ratio))


@pytest.mark.parametrize(
    ("bound", "phase", "ratio", "verdict"),
    [
        ("compute", "prefill", 1.9, True),
        ("compute", "prefill", 1.2, False),
        ("compute", "prefill", 1.5, None),
        ("memory", "decode", 1.2, True),
        ("memory", "decode", 1.9, None),
        ("host", "decode", 1.05, True),
        ("host", "decode", 1.9, False),
        ("io", "decode", 1.0, None),
    ],
)
def test_doubling_confirms_or_contradicts(bound: Any, phase: Any, ratio: float, verdict: bool | None) -> None:
    proof = judge(RunRecord(doubling=(doubled(ratio, phase),)), "single", phase, bound, 0.2)
    assert proof.verdict is verdict
    assert bool(proof.sentences) is (verdict is not None)


@pytest.mark.parametrize(
    ("bound", "ratio", "verdict"),
    [
        ("compute", 1.95, True),
        ("compute", 1.5, None),
        ("memory", 1.55, True),
        ("memory", 1.9, None),
        ("memory", 1.05, None),
        ("host", 1.05, True),
        ("host", 1.5, None),
    ],
)
def test_threads_confirm_what_grows_with_them(bound: Any, ratio: float, verdict: bool | None) -> None:
    seen = ThreadScaling(scenario="single", phase="forward", threads=2, one_s=(ratio, 2 * ratio), all_s=(1.0, 2.0))
    gain = ThreadGain(compute={"float32": 1.95}, memory={"float32": 1.5})
    machine = msgspec.structs.replace(tiny_models.machine(), thread_gain=gain)
    assert judge(RunRecord(machine=machine, threads=(seen,)), "single", "forward", bound, 0.2).verdict is verdict


@pytest.mark.parametrize("gain", [None, ThreadGain(compute={"float32": 1.9}, memory={"float32": 1.8})])
def test_threads_say_nothing_where_their_gains_are_alike(gain: ThreadGain | None) -> None:
    seen = ThreadScaling(scenario="single", phase="forward", threads=2, one_s=(1.9,), all_s=(1.0,))
    machine = msgspec.structs.replace(tiny_models.machine(), thread_gain=gain)
    assert judge(RunRecord(machine=machine, threads=(seen,)), "single", "forward", "compute", 0.8).verdict is None


@pytest.mark.parametrize(
    ("tokenise_s", "saved", "verdict"),
    [
        (0.1, (0.1, 0.11, 0.09), True),
        (0.1, (0.01, 0.02, 0.0), False),
        (0.1, (0.3, -0.2, 0.1), None),
        (0.1, (0.06,) * 3, None),
    ],
)
def test_what_skipping_the_tokeniser_says(tokenise_s: float, saved: tuple[float, ...], verdict: bool | None) -> None:
    seen = Pretokenised(
        scenario="batch",
        tokenise_s=(tokenise_s,) * len(saved),
        whole_s=tuple(1.0 + one for one in saved),
        without_s=(1.0,) * len(saved),
    )
    assert judge(RunRecord(pretokenised=seen), "batch", "tokenise", "host", 0.0).verdict is verdict
    assert judge(RunRecord(pretokenised=seen), "single", "tokenise", "host", 0.0).verdict is None


@pytest.mark.parametrize(
    ("bound", "twin_s", "verdict"),
    [("host", 0.9, True), ("host", 0.2, False), ("host", 0.4, None), ("memory", 0.9, False), ("memory", 0.3, None)],
)
def test_a_twin_tells_the_hosts_part(bound: Any, twin_s: float, verdict: bool | None) -> None:
    seen = RunRecord(timing=(timing("decode", 1.0),), twin=(HostTwin(phase="decode", time_s=(twin_s,)),))
    assert twin_share(seen, "single", "decode") == pytest.approx(twin_s)
    assert judge(seen, "single", "decode", bound, 0.2).verdict is verdict


def test_a_contradiction_outweighs_a_confirmation_and_lowers_the_confidence() -> None:
    plain = record(timing=(timing("decode", 1.5),))
    against = record(
        timing=(timing("decode", 1.5),),
        doubling=(doubled(1.1, "decode"),),
        twin=(HostTwin(phase="decode", time_s=(1.4,)),),
    )
    assert found(plain).bound == found(against).bound == "memory"
    assert not found(against).confirmed
    assert (found(against).confidence or 1) <= 0.5 < (found(plain).confidence or 0)
    assert any(sentence.startswith("Contradicted by a narrow twin") for sentence in found(against).evidence)


def test_waits_have_rows_of_their_own_and_never_more_than_there_is() -> None:
    waits = PhaseWaits(scenario="single", phase="decode", io_s=2.0, sync_s=0.5)
    waiting = found(record(ops=(trace(host_s=3.0),), timing=(timing("decode", 4.0),), waits=(waits,)))
    assert waiting.ledger is not None
    assert (waiting.ledger.io_s, waiting.ledger.sync_s, waiting.ledger.host_s) == pytest.approx((2.0, 0.5, 0.5))
    assert waiting.bound == "io"
    assert any("reading or writing files" in sentence for sentence in waiting.evidence)
    crowded = found(record(ops=(trace(host_s=1.0),), timing=(timing("decode", 2.0),), waits=(waits,)))
    assert crowded.ledger is not None
    assert crowded.ledger.total_s == pytest.approx(2.0)
    assert crowded.ledger.host_s == pytest.approx(0.0)


def test_a_disturbed_trace_stretches_the_work_and_not_the_waits() -> None:
    """Once judged compute-bound: planted reads of three quarters of the time, traced while another process computed."""
    waits = PhaseWaits(scenario="single", phase="decode", io_s=3.0, sync_s=0.0)
    disturbed = trace((op(self_s=6.0),), host_s=3.2, untraced_s=4.0)
    judged = found(record(ops=(disturbed,), timing=(timing("decode", 4.0),), waits=(waits,)))
    assert judged.ledger is not None
    assert judged.ledger.io_s == pytest.approx(3.0)
    assert judged.ledger.total_s == pytest.approx(4.0)
    assert judged.bound == "io"
    assert judged.confidence is not None
    assert judged.confidence < 0.5, "the trace saw far more time than there was"


@given(OPS, SECONDS, SECONDS, SECONDS, SECONDS, SECONDS)
def test_with_waits_the_parts_still_sum(
    ops: tuple[OpTotal, ...], host_s: float, untraced_s: float, time_s: float, io_s: float, sync_s: float
) -> None:
    waits = PhaseWaits(scenario="single", phase="decode", io_s=io_s, sync_s=sync_s)
    one = trace(ops, host_s, untraced_s=untraced_s)
    parts = trace_ledger(one, tiny_models.machine(), time_s, RunRecord(waits=(waits,)))
    assert parts.ledger.total_s == pytest.approx(time_s)
    assert all(getattr(parts.ledger, name) >= -1e-12 for name in Ledger.__struct_fields__)
