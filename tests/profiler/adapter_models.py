"""Adapters of any kind on tiny models, as PEFT saves them, and the engines that hold them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ftprof.profiler.load import load_engine
from ftprof.profiler.located import Located
from ftprof.profiler.torch_engine import TorchEngine
from ftprof.profiler.workload import Call, Workload
from tests import tiny_directory

TEXTS = ["the order arrived late", "please help with my refund today"]
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "pad_token_id": 0,
    "eos_token_id": 2,
    "bos_token_id": None,
    "initializer_range": 0.2,
}


def save_base(folder: Path, family: str = "Llama", **options: Any) -> Path:
    """A random causal model of this family with the tiny tokenizer."""
    import transformers

    torch.manual_seed(7)
    words = tiny_directory.tokenizer()
    config = getattr(transformers, f"{family}Config")(vocab_size=len(words), **{**SIZES, **options})
    name = "GPT2LMHeadModel" if family == "GPT2" else f"{family}ForCausalLM"
    getattr(transformers, name)(config).eval().save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def save_adapter(folder: Path, base: Path, kind: str, settings: dict[str, Any], scale: float = 0.05) -> Path:
    """An adapter of this kind with random values, as PEFT saves it."""
    import peft
    from transformers import AutoModelForCausalLM

    config = getattr(peft, f"{kind}Config")(task_type="CAUSAL_LM", **settings)
    torch.manual_seed(12)
    tuned = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(base), config)
    for parameter in tuned.parameters():
        if parameter.requires_grad:
            parameter.data += scale * torch.randn_like(parameter)
    tuned.save_pretrained(str(folder))
    return folder


def loaded(found: Located, tmp_path: Path, dtype: str = "float32") -> TorchEngine:
    """The engine of what inspect() found."""
    workload = Workload(
        model=found.model,
        adapter=found.adapter,
        tokenizer=found.tokenizer,
        task=found.task,
        rows=str(tmp_path / "rows.jsonl"),
        rows_digest="",
        vocab_rows=found.vocab_rows,
        labels=found.labels,
    )
    return load_engine(workload, Call(dtype=dtype))[0]  # type: ignore[arg-type]


@torch.inference_mode()
def outputs(model: Any, engine: TorchEngine) -> torch.Tensor:
    """Logits of two texts."""
    logits: torch.Tensor = model(**engine.pad(engine.tokenise(TEXTS)).inputs).logits.float()
    return logits


@torch.inference_mode()
def rolled(model: Any, ids: torch.Tensor, count: int, end: int = 2) -> torch.Tensor:
    """Greedy tokens, end-of-sequence barred, by whole forward passes without any cache."""
    for _ in range(count):
        last = model(ids).logits[:, -1]
        last[:, end] = -torch.inf
        ids = torch.cat((ids, last.argmax(-1, keepdim=True)), 1)
    return ids
