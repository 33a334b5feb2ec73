"""The models that faults are planted in: random ones of several families and widths, and the two real samples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.truth.observe import Subject
from ftprof.profiler.torch_engine import TorchEngine
from ftprof.profiler.workload import Call

VOCABULARY = 4096


def engine_of(model: Any, task: str, adapter_dir: str | None = None) -> TorchEngine:
    """The engine around a model; ids are given, so the tokenizer only says which ones are special."""
    tokenizer = SimpleNamespace(eos_token_id=2, pad_token_id=0, model_max_length=1 << 20)
    return TorchEngine(model.eval(), tokenizer, Call(batch_size=64), task, adapter_dir)  # type: ignore[arg-type]


def ids(rows: int, length: int, seed: int) -> list[list[int]]:
    drawn = torch.randint(3, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))
    found: list[list[int]] = drawn.tolist()
    return found


def encoder(hidden: int, layers: int, dtype: torch.dtype = torch.float32) -> TorchEngine:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64 or 1,
    )
    model: Any = BertModel(config)
    return engine_of(model.to(dtype), "embedding")


def decoder(hidden: int, layers: int, dtype: torch.dtype = torch.float32, family: str = "llama") -> TorchEngine:
    from transformers import AutoConfig, AutoModelForCausalLM

    heads = hidden // 64 or 1
    sizes: dict[str, Any] = (
        {"n_embd": hidden, "n_layer": layers, "n_head": heads, "n_positions": 2048}
        if family == "gpt2"
        else {
            "hidden_size": hidden,
            "intermediate_size": 3 * hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": heads,
        }
    )
    config = AutoConfig.for_model(family, vocab_size=VOCABULARY, eos_token_id=2, bos_token_id=1, **sizes)
    return engine_of(AutoModelForCausalLM.from_config(config).to(dtype), "causal-lm")


@lru_cache(maxsize=1)
def sample_decoder() -> TorchEngine:
    """SmolLM2-135M, as the sample's base has it."""
    return _sample("smollm2-tickets", "causal-lm")


@lru_cache(maxsize=1)
def sample_encoder() -> TorchEngine:
    """all-MiniLM-L6-v2, as the sample's base has it."""
    return _sample("minilm-tickets", "embedding")


def _sample(name: str, task: str) -> TorchEngine:
    from transformers import AutoModel, AutoModelForCausalLM

    from ftprof.samples.demo import demo_sample

    kind: Any = AutoModelForCausalLM if task == "causal-lm" else AutoModel
    return engine_of(kind.from_pretrained(demo_sample(name).base, dtype=torch.float32), task)


def with_lora(model: Any, rank: int, targets: str | list[str], seed: int) -> Any:
    """The model under PEFT with a random LoRA that changes its outputs."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=rank, lora_alpha=rank, target_modules=targets, task_type="CAUSAL_LM")
    tuned = get_peft_model(model, config).eval()
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in tuned.named_parameters():
        if "lora_B" in name:
            parameter.data = 0.01 * torch.randn(parameter.shape, generator=generator)
    return tuned


def layers_of(engine: TorchEngine) -> Sequence[torch.nn.Module]:
    """The modules that delays are planted before: the list of layers."""
    return max((module for module in engine.model.modules() if isinstance(module, torch.nn.ModuleList)), key=len)[:]  # type: ignore[return-value]


def forward(engine: TorchEngine, rows: int, length: int, seed: int) -> Subject:
    return Subject(engine, ids(rows, length, seed))


def generate(engine: TorchEngine, rows: int, length: int, seed: int, new_tokens: int = 6) -> Subject:
    return Subject(engine, ids(rows, length, seed), new_tokens)
