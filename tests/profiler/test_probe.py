"""Probes: what they run, in which order, and how they keep to their budget."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ftprof.profiler.engine import Batch, Generated
from ftprof.profiler.probe import SAMPLE_S, Bench, _groups, run_probes
from ftprof.profiler.record import ModelFacts, ProbeCase
from ftprof.profiler.workload import Call
from tests.advisors.records import SMOLLM2


class FakeEngine:
    """Notes what it is asked for, slowly enough for one call to be a sample."""

    def __init__(self, call: Call, log: list[tuple[Any, ...]]) -> None:
        self.call = call
        self.log = log

    def with_call(self, call: Call) -> FakeEngine:
        return FakeEngine(call, self.log)

    def facts(self) -> ModelFacts:
        return msgspec.structs.replace(SMOLLM2, vocabulary=50)

    def pad(self, ids: Sequence[Sequence[int]]) -> Batch:
        assert all(0 <= token < 50 for row in ids for token in row)
        length = self.call.pad_to or max(len(row) for row in ids)
        return Batch(inputs={}, tokens=tuple(len(row) for row in ids), length=length)

    def forward(self, batch: Batch) -> None:
        time.sleep(SAMPLE_S)
        self.log.append(("forward", len(batch.tokens), batch.length))

    def generate(self, batch: Batch, new_tokens: int, *, exact: bool = True) -> Generated:
        time.sleep(SAMPLE_S)
        self.log.append(("generate", len(batch.tokens), batch.length, new_tokens, self.call.use_cache))
        # The first token takes 5 ms, each further one 2.
        stamps = tuple(1_000_000 * (5 + 2 * token) for token in range(new_tokens))
        return Generated(tokens=(), stamps_ns=(0, *stamps))


def case(kind: str, shape: tuple[int, ...], variant: str = "") -> ProbeCase:
    return ProbeCase(rule="r", kind=kind, shape=shape, variant=variant)  # type: ignore[arg-type]


def fake() -> Any:
    return FakeEngine(Call(padding="max_length", pad_to=64), [])


def test_whole_passes_run_at_the_length_asked_for_without_fixed_padding() -> None:
    engine = fake()
    run_probes([case("forward", (2, 9)), case("forward", (2, 5))], engine, repeats=1)
    assert engine.log == [("forward", 2, 9), ("forward", 2, 5)] * 2


def test_the_cache_is_switched_through_the_call() -> None:
    engine = fake()
    cases = [case("decode", (1, 7, 2), variant) for variant in ("cache", "no-cache")]
    results = run_probes(cases, engine, repeats=2)
    assert engine.log[-4:] == [("generate", 1, 7, 3, True), ("generate", 1, 7, 3, False)] * 2
    assert [len(result.samples_s) for result in results] == [2, 2]


def test_one_run_answers_prefill_and_decode() -> None:
    engine = fake()
    cases = [case("prefill", (1, 7, 4)), case("decode", (1, 7, 4)), case("prefill", (1, 9, 0))]
    found = {result.case: result.samples_s for result in run_probes(cases, engine, repeats=1)}
    assert [found[one][0] for one in cases] == pytest.approx([5e-3, 2e-3, 5e-3])
    assert {entry[2:4] for entry in engine.log} == {(7, 5), (9, 1)}


@pytest.mark.parametrize("use_cache", [None, False])
def test_states_are_compared_as_the_model_is_called(use_cache: bool | None) -> None:
    engine: Any = FakeEngine(Call(use_cache=use_cache), [])
    run_probes([case("decode", (1, 7, 2))], engine, repeats=1)
    assert set(engine.log) == {("generate", 1, 7, 3, use_cache)}


def test_few_rows_come_first_and_states_of_the_same_shapes_take_turns() -> None:
    single, longer, other = case("forward", (1, 4)), case("forward", (1, 8)), case("forward", (1, 4), "attention:sdpa")
    batch, tokens = case("forward", (8, 4)), case("decode", (2, 4, 3), "cache")
    assert _groups([batch, single, tokens, longer, other, single]) == [[single, longer, other], [tokens], [batch]]


def test_batches_carry_a_mask_and_single_rows_none() -> None:
    engine = fake()
    bench = Bench(engine)
    assert bench._batch(engine, 3, 6).tokens == (5, 6, 6)
    assert bench._batch(engine, 1, 6).tokens == (6,)


def test_a_spent_budget_costs_samples_first_and_cases_last() -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.25
        return now

    cases = [case("forward", (rows, 8)) for rows in (1, 2, 3, 4)]
    results = run_probes(cases, fake(), repeats=8, budget_s=2.5, clock=clock)
    assert 0 < len(results) < len(cases)
    assert all(1 <= len(result.samples_s) < 8 for result in results)


def test_a_second_copy_that_does_not_fit_is_said_and_costs_only_its_case(monkeypatch: pytest.MonkeyPatch) -> None:
    import psutil

    from ftprof.profiler.torch_engine import TorchEngine
    from tests.profiler.tiny_models import llama

    engine = TorchEngine(llama(), SimpleNamespace(pad_token_id=0, eos_token_id=0), Call(), "causal-lm")
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    plain, cast = (case("forward", (1, 4), state) for state in ("", "weights:bfloat16"))
    found = {result.case: result for result in run_probes([plain, cast], engine, repeats=1)}
    assert found[plain].samples_s
    assert not found[cast].samples_s
    assert "does not fit" in (found[cast].error or "")


def test_a_real_engine_answers_whole_passes_with_and_without_cache() -> None:
    from ftprof.profiler.torch_engine import TorchEngine
    from tests.profiler.tiny_models import llama

    tokenizer = SimpleNamespace(pad_token_id=0, eos_token_id=0)
    engine = TorchEngine(llama(), tokenizer, Call(padding="max_length", pad_to=64), "causal-lm")
    cases = [case("decode", (2, 6, 3), "cache"), case("decode", (2, 6, 3), "no-cache"), case("forward", (2, 6))]
    results = run_probes(cases, engine, repeats=1, budget_s=30.0)
    assert [result.case for result in results] == cases
    assert engine.call.use_cache is None


def test_a_model_is_turned_over_for_a_pass_and_put_back() -> None:
    from ftprof.profiler.model_facts import adapter_marks, is_adapter_weight
    from ftprof.profiler.torch_engine import TorchEngine
    from tests.profiler.tiny_models import lora_llama

    tokenizer = SimpleNamespace(pad_token_id=0, eos_token_id=0)
    engine = TorchEngine(lora_llama(), tokenizer, Call(), "causal-lm", "adapter")
    base, marks = engine.model.get_base_model(), adapter_marks(engine.model)
    weights = {name: p for name, p in engine.model.named_parameters() if is_adapter_weight(name, marks)}
    before = {name: parameter.data.clone() for name, parameter in weights.items()}
    seen: set[tuple[str, str]] = set()
    forward = engine.forward

    def watched(batch: Batch) -> None:
        of_base = next(p for name, p in engine.model.named_parameters() if not is_adapter_weight(name, marks))
        dtypes = f"{next(iter(weights.values())).dtype} on {of_base.dtype}".replace("torch.", "")
        assert not any(parameter.is_inference() for parameter in engine.model.parameters()), "they run other kernels"
        seen.add((base.config._attn_implementation, dtypes))
        forward(batch)

    engine.forward = watched  # type: ignore[method-assign]
    engine.with_call = lambda call: engine  # type: ignore[method-assign]
    was = base.config._attn_implementation
    other = "eager" if was != "eager" else "sdpa"
    states = ["", f"attention:{other}", "adapter:bfloat16", "weights:bfloat16"]
    results = run_probes([case("forward", (2, 6), state) for state in states], engine, repeats=2, budget_s=30.0)
    assert all(result.samples_s for result in results)
    assert seen == {
        (was, "float32 on float32"),
        (other, "float32 on float32"),
        (was, "bfloat16 on float32"),
        (was, "float32 on bfloat16"),
    }
    assert base.config._attn_implementation == was
    assert all(parameter.data.equal(before[name]) for name, parameter in weights.items())
    head = base.get_output_embeddings().weight
    assert not head.requires_grad, "PEFT freezes the base"
    thawed: list[bool] = []
    engine.forward = lambda batch: thawed.append(head.requires_grad)  # type: ignore[method-assign]
    run_probes([case("forward", (2, 6), "head:thawed")], engine, repeats=1)
    assert all(thawed)
    assert not head.requires_grad
    with pytest.raises(ValueError, match="no state"):
        run_probes([case("forward", (2, 6), "weather:fine")], engine)
