"""Timed modules: what was planted is found in its kind, and the model is left as it was."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from ftprof.profiler.adapter_switch import set_adapter
from ftprof.profiler.forward_timer import spans, timed_forwards
from ftprof.profiler.module_kinds import module_kind
from ftprof.profiler.modules import is_lora_layer, sites, trace_modules
from ftprof.profiler.record import ModuleTrace
from ftprof.profiler.windows import Run
from tests.profiler.tiny_models import (
    LAYERS,
    bert,
    busy_wait,
    forward_pass,
    generation,
    llama,
    lora_llama,
    machine,
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for each other on a busy machine would drown what is planted."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def traced(
    model: Any,
    run: Run,
    untraced: dict[str, float] | None = None,
    repeats: int = 2,
    switch: Callable[[bool], None] | None = None,
) -> tuple[ModuleTrace, ...]:
    return trace_modules(
        model,
        run,
        scenario="single",
        phases=("prefill", "decode"),
        untraced=untraced or {},
        machine=machine(),
        repeats=repeats,
        switch=switch,
    )


def seconds(trace: ModuleTrace) -> dict[str, float]:
    return {total.kind: total.self_s for total in trace.modules}


def slowed(module: torch.nn.Module, wait_s: float | Callable[[], float]) -> None:
    """Make every call of the module's class-level forward wait, as a slow kernel would."""
    original: Callable[..., Any] = module.forward

    def waiting(*args: Any, **kwargs: Any) -> Any:
        busy_wait(wait_s() if callable(wait_s) else wait_s)
        return original(*args, **kwargs)

    module.__dict__["forward"] = waiting


@pytest.mark.parametrize(
    ("qualified", "class_name", "parent", "expected"),
    [
        ("model.layers.0.self_attn", "LlamaAttention", "other", "attention"),
        ("model.layers.0.self_attn.q_proj", "Linear", "attention", "attention"),
        ("model.layers.0.self_attn.q_norm", "Qwen3RMSNorm", "attention", "norm"),
        ("model.layers.0.mlp.act_fn", "SiLUActivation", "mlp", "mlp"),
        ("model.layers.0.input_layernorm", "GemmaRMSNorm", "other", "norm"),
        ("model.layers.0", "MistralDecoderLayer", "other", "other"),
        ("model.rotary_emb", "LlamaRotaryEmbedding", "other", "rotary"),
        ("model.embed_tokens", "Gemma3TextScaledWordEmbedding", "other", "embedding"),
        ("lm_head", "Linear", "other", "head"),
        ("bert.encoder.layer.0.attention.output", "BertSelfOutput", "attention", "attention"),
        ("bert.encoder.layer.0.intermediate", "BertIntermediate", "other", "mlp"),
        ("bert.encoder.layer.0.output", "BertOutput", "other", "mlp"),
        ("bert.pooler", "BertPooler", "other", "pooler"),
        ("classifier", "RobertaClassificationHead", "other", "head"),
        ("classifier.dense", "Linear", "head", "head"),
        ("transformer.h.0.attn", "GPT2Attention", "other", "attention"),
        ("transformer.h.0.ln_1", "LayerNorm", "other", "norm"),
        ("transformer.wte", "Embedding", "other", "embedding"),
        ("model.decoder.layers.0.fc1", "Linear", "other", "mlp"),
        ("model.decoder.layers.0.self_attn_layer_norm", "LayerNorm", "other", "norm"),
        ("model.layers.0.block_sparse_moe", "MixtralSparseMoeBlock", "other", "mlp"),
    ],
)
def test_kinds_across_architectures(qualified: str, class_name: str, parent: str, expected: str) -> None:
    assert module_kind(qualified, class_name, parent) == expected


def test_only_what_separates_kinds_is_timed() -> None:
    kinds = [site.kind for site in sites(llama())]
    assert kinds.count("attention") == LAYERS
    assert kinds.count("mlp") == LAYERS
    assert kinds.count("norm") == 2 * LAYERS + 1
    assert len(sites(llama())) < sum(1 for _ in llama().modules())


def test_lora_layers_are_recognised_by_what_they_are_made_of() -> None:
    found = sites(lora_llama(["q_proj", "down_proj"]))
    assert [site.kind for site in found].count("lora A") == 2 * LAYERS
    assert {site.target for site in found if site.kind == "lora B"} == {"q_proj", "down_proj"}
    bases = {site.target: site.kind for site in found if site.target and "lora" not in site.kind}
    assert bases == {"q_proj": "attention", "down_proj": "mlp"}


def test_a_wait_in_lora_b_is_lora_b() -> None:
    model = lora_llama(["v_proj"])
    for layer in model.base_model.model.model.layers:
        slowed(layer.self_attn.v_proj.lora_B["default"], 3e-3)
    _, decode = traced(model, generation(model))
    assert max(seconds(decode), key=seconds(decode).__getitem__) == "lora B"
    (target,) = decode.lora_kinds
    assert target.target == "v_proj"
    assert target.b_s > max(target.a_s, target.rest_s, target.base_s)
    waited = LAYERS * 3e-3
    assert sorted(decode.lora_shares)[len(decode.lora_shares) // 2] > 0.3
    assert seconds(decode)["lora B"] > 0.5 * waited


def test_a_wait_in_the_base_layer_is_not_loras() -> None:
    model = lora_llama(["v_proj"])
    for layer in model.base_model.model.model.layers:
        slowed(layer.self_attn.v_proj.base_layer, 3e-3)
    _, decode = traced(model, generation(model))
    assert max(seconds(decode), key=seconds(decode).__getitem__) == "attention"
    assert sorted(decode.lora_shares)[len(decode.lora_shares) // 2] < 0.5


def test_kinds_sum_to_the_untraced_time() -> None:
    for trace in traced(lora_llama(), generation(lora_llama()), {"prefill": 2.0, "decode": 3.0}):
        assert sum(seconds(trace).values()) == pytest.approx(trace.untraced_s)


def test_there_is_a_share_for_every_token_and_unit() -> None:
    model = lora_llama()
    prefill, decode = traced(model, generation(model, new_tokens=5), repeats=3)
    assert len(prefill.lora_shares) == 3
    assert len(decode.lora_shares) == 3 * 4
    assert all(0 < share < 1 for share in decode.lora_shares)


def test_what_falls_to_other_layers_is_not_loras() -> None:
    """The layer after LoRA's waits whenever the adapter is off: removing it would gain that much less."""
    model = lora_llama(["down_proj"])
    asked = [True]

    def switch(on: bool) -> None:
        asked.append(on)
        set_adapter(model, on)

    for layer in model.base_model.model.model.layers:
        slowed(layer.mlp.down_proj.lora_B["default"], 3e-3)
        slowed(layer.input_layernorm, lambda: 0.0 if asked[-1] else 2e-3)
    run = generation(model)
    raw, net = traced(model, run)[1], traced(model, run, switch=switch)[1]
    waits = LAYERS * 2e-3 / net.wrapped_s
    assert min(net.displaced_shares) == pytest.approx(waits, rel=0.5)
    assert max(net.lora_shares) < min(raw.lora_shares)
    assert len(net.wrapper_shares) == 2
    assert asked == [True, True, False, False, True, False, True], "the last time off is for the wrappers alone"
    assert not any(layer.disable_adapters for layer in lora_layers(model)), "left on"


def test_an_adapter_is_on_again_after_a_failure() -> None:
    model = lora_llama(["q_proj"])

    def failing() -> tuple[int, ...]:
        if lora_layers(model)[0].disable_adapters:
            raise RuntimeError("out of memory")
        return generation(model)()

    with pytest.raises(RuntimeError, match="out of memory"):
        traced(model, failing, switch=lambda on: set_adapter(model, on))
    assert not any(layer.disable_adapters for layer in lora_layers(model))


def lora_layers(model: Any) -> list[Any]:
    return [module for module in model.modules() if is_lora_layer(module)]


def test_without_an_adapter_there_is_no_share() -> None:
    model = bert()
    (trace,) = trace_modules(
        model, forward_pass(model), scenario="single", phases=("forward",), untraced={}, machine=machine()
    )
    assert trace.lora_shares == ()
    assert trace.lora_kinds == ()
    assert {"attention", "mlp", "norm", "embedding", "pooler", "head", "outside modules"} <= set(seconds(trace))


def forwards(model: torch.nn.Module) -> list[object]:
    return [module.__dict__.get("forward") for module in model.modules()]


def test_wrappers_are_gone_afterwards() -> None:
    model = lora_llama()
    traced(model, generation(model))
    assert forwards(model) == [None] * len(forwards(model))


def test_wrappers_are_gone_after_a_failure_and_own_forwards_are_kept() -> None:
    model = lora_llama()
    own = model.base_model.model.model.layers[1].mlp
    slowed(own, 0.0)
    before = forwards(model)

    def failing() -> tuple[int, ...]:
        generation(model)()
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        traced(model, failing)
    assert forwards(model) == before


def test_an_exception_inside_a_module_is_timed_and_passed_on() -> None:
    inner = torch.nn.Linear(2, 2)
    with timed_forwards([inner]) as log:
        with pytest.raises(RuntimeError):
            inner(torch.zeros(3))
        assert len(spans(log)) == 1
    assert "forward" not in inner.__dict__


def test_parameter_names_stay_readable() -> None:
    model = llama()
    before = inspect.signature(model.forward)
    with timed_forwards([model]):
        assert inspect.signature(model.forward) == before


def test_spans_know_their_self_time() -> None:
    # Module 0 from 0 to 100 calls 1 (10 to 30) and 2 (40 to 90), which calls 1 (50 to 60).
    log = [1, 10, 30, 1, 50, 60, 2, 40, 90, 0, 0, 100]
    found = {(span.module, span.start): span for span in spans(log)}
    assert found[0, 0].self_ns == 100 - 20 - 50
    assert (found[2, 40].self_ns, found[2, 40].children) == (40, 1)
    assert [span.module for span in spans(log) if span.top] == [0]
