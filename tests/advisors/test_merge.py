"""The one rule that touches weights: its merge is the adapter's mathematics, rounded once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from ftprof.advisors.rules import get_rule
from ftprof.profiler.adapter_merge import merge
from ftprof.profiler.torch_engine import TorchEngine
from ftprof.profiler.workload import Call
from tests.profiler.tiny_models import llama


def tuned(dtype: torch.dtype, **options: Any) -> Any:
    """A tiny Llama with a LoRA that does something; the adapter in fp32, as PEFT loads it."""
    torch.manual_seed(0)
    base: Any = llama(**options)
    model = get_peft_model(base.to(dtype), LoraConfig(r=4, target_modules="all-linear")).eval()
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.05)
    return model


def exact_weights(model: Any) -> dict[str, torch.Tensor]:
    """Base plus update in double precision, by name of the base layer."""
    layers = {name: module for name, module in model.named_modules() if hasattr(module, "lora_A")}
    return {
        name: layer.base_layer.weight.double()
        + layer.scaling["default"] * layer.lora_B["default"].weight.double() @ layer.lora_A["default"].weight.double()
        for name, layer in layers.items()
    }


@torch.inference_mode()
def test_a_merge_in_fp32_gives_the_same_logits() -> None:
    model = tuned(torch.float32)
    ids = torch.arange(24).view(2, 12)
    before = model(input_ids=ids).logits.clone()
    merged = merge(model)
    assert not any("lora" in name for name, _ in merged.named_modules())
    torch.testing.assert_close(merged(input_ids=ids).logits, before, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_merge_into_half_precision_rounds_once(dtype: torch.dtype) -> None:
    model = tuned(dtype)
    wanted = exact_weights(model)
    merged = merge(model)
    found = dict(merged.named_modules())
    for name, exact in wanted.items():
        layer = found[name.removeprefix("base_model.model.")]
        assert layer.weight.dtype == dtype
        nearest = exact.float().to(dtype)
        # fp32 carries the sum, so at most a tie in a thousand falls the other way.
        assert (layer.weight != nearest).float().mean() < 1e-3
    assert {parameter.dtype for parameter in merged.parameters()} == {dtype}


def test_tied_embeddings_stay_tied() -> None:
    merged = merge(tuned(torch.bfloat16, tie_word_embeddings=True))
    assert merged.lm_head.weight.data_ptr() == merged.model.embed_tokens.weight.data_ptr()


def test_the_rule_swaps_the_engines_model_and_keeps_its_call() -> None:
    apply = get_rule("unmerged-adapter").apply
    assert apply
    engine = TorchEngine(tuned(torch.float32), None, Call(batch_size=3), "causal-lm", "adapter")
    merged = apply(engine)
    assert isinstance(merged, TorchEngine)
    assert merged.adapter_dir is None
    assert merged.call == engine.call
    assert merged.adapter() is None


def test_a_broken_adapter_is_not_merged_silently() -> None:
    model = tuned(torch.float32)
    next(parameter for name, parameter in model.named_parameters() if "lora_B" in name).data.fill_(float("nan"))
    with pytest.raises(ValueError, match="NaN"):
        merge(model)
