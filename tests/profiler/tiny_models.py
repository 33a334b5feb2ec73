"""Tiny random models, stamped runs of them, and a made-up machine. For unit tests."""

from __future__ import annotations

import time
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    StoppingCriteria,
    StoppingCriteriaList,
)

from ftprof.profiler.record import Bandwidth, Machine
from ftprof.profiler.windows import Run

LAYERS, HIDDEN, INNER, VOCABULARY, HEADS, KV_HEADS = 2, 64, 128, 300, 4, 2


def machine(**changes: Any) -> Machine:
    """100 GFLOP/s float32, 400 bfloat16; 40 GB/s up to 4 MiB, 10 GB/s from memory; 1 microsecond an op."""
    fields: dict[str, Any] = {
        "device": "cpu",
        "cpu": "made up",
        "cores": 2,
        "threads": 1,
        "memory_bytes": 1 << 34,
        "flops_per_s": {"float32": 1e11, "bfloat16": 4e11},
        "bandwidth": tuple(
            Bandwidth(working_set_bytes=size, dtype=dtype, bytes_per_s=rate)
            for dtype in ("float32", "bfloat16")
            for size, rate in ((4 << 20, 4e10), (256 << 20, 1e10))
        ),
        "dispatch_s": 1e-6,
        "trace_in_s": 1e-7,
        "trace_out_s": 9e-7,
        "wrapper_s": 4e-7,
    }
    return Machine(**{**fields, **changes})


def llama(**options: Any) -> LlamaForCausalLM:
    """Two layers, grouped heads, random weights."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        **options,
    )
    model: LlamaForCausalLM = LlamaForCausalLM(config).eval()
    return model


def lora_llama(targets: str | list[str] = "all-linear") -> Any:
    """The same with a rank-4 LoRA."""
    from peft import LoraConfig, get_peft_model

    return get_peft_model(llama(), LoraConfig(r=4, target_modules=targets, task_type="CAUSAL_LM")).eval()


def bert() -> BertForSequenceClassification:
    """Two layers and a classification head, random weights."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
    )
    model: BertForSequenceClassification = BertForSequenceClassification(config).eval()
    return model


class _Clock(StoppingCriteria):
    def __init__(self) -> None:
        self.stamps = [time.perf_counter_ns()]

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor, **_: Any) -> torch.BoolTensor:
        self.stamps.append(time.perf_counter_ns())
        return torch.zeros(input_ids.shape[0], dtype=torch.bool)  # type: ignore[return-value]


def generation(model: Any, new_tokens: int = 5, prompt: int = 8) -> Run:
    """A stamped greedy generation of a fixed number of tokens."""
    ids = torch.arange(prompt).unsqueeze(0)

    @torch.inference_mode()
    def run() -> tuple[int, ...]:
        clock = _Clock()
        model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=new_tokens,
            min_new_tokens=new_tokens,
            pad_token_id=0,
            stopping_criteria=StoppingCriteriaList([clock]),
        )
        return tuple(clock.stamps)

    return run


def forward_pass(model: Any, rows: int = 2, length: int = 8) -> Run:
    """A stamped forward of an encoder."""
    ids = torch.ones(rows, length, dtype=torch.long)

    @torch.inference_mode()
    def run() -> tuple[int, ...]:
        start = time.perf_counter_ns()
        model(input_ids=ids, attention_mask=torch.ones_like(ids))
        return start, time.perf_counter_ns()

    return run


def busy_wait(seconds: float) -> None:
    """Spin: a sleep would be at the scheduler's mercy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
