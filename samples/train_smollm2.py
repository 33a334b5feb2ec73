"""Trains the `smollm2-tickets` adapter and scores it. About 7 minutes on two idle cores.

python -m ftprof.samples.train_smollm2 [--out DIR] [--steps N]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ftprof.samples.adapter_files import publish_adapter
from ftprof.samples.evaluate import evaluate
from ftprof.samples.prepare import base_weights
from ftprof.samples.progress import show_progress
from ftprof.samples.rows import Row, load_rows
from ftprof.samples.schedule import SEED, endless_batches, train
from ftprof.samples.sources import source

STEPS = 100
BATCH = 8
RATE = 1e-3
IGNORED = -100  # the label of a position that the loss leaves out


def encode(tokenizer: Any, rows: Sequence[Row]) -> dict[str, Any]:
    """Left-padded inputs and labels; only completions and the end-of-sequence token are learnt.

    With the answers at the right edge, the model's head (a third of the arithmetic) need only look at the last columns.
    """
    import torch

    prompts = [tokenizer(row.prompt).input_ids for row in rows]
    answers = [[*tokenizer(row.completion).input_ids, tokenizer.eos_token_id] for row in rows]
    length = max(len(prompt) + len(answer) for prompt, answer in zip(prompts, answers, strict=True))
    ids = torch.full((len(rows), length), tokenizer.pad_token_id)
    labels = torch.full((len(rows), length), IGNORED)
    mask = torch.zeros((len(rows), length), dtype=torch.long)
    for index, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        start = length - len(prompt) - len(answer)
        ids[index, start:] = torch.tensor(prompt + answer)
        labels[index, length - len(answer) :] = torch.tensor(answer)
        mask[index, start:] = 1
    # One more than the longest answer: each position predicts the next.
    keep = 1 + max(len(answer) for answer in answers)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels[:, -keep:], "logits_to_keep": keep}


def train_adapter(out: Path, steps: int = STEPS) -> None:
    """Writes the adapter into `out`."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(SEED)
    with show_progress("smollm2") as progress:
        base = base_weights("smollm2", progress)
    tokenizer = AutoTokenizer.from_pretrained(base)
    lora = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), lora)
    batches: Iterator[dict[str, Any]] = (encode(tokenizer, rows) for rows in endless_batches(load_rows("train"), BATCH))
    train(model, batches, steps=steps, rate=RATE, say=lambda line: print(line, flush=True))
    model.save_pretrained(str(out))
    publish_adapter(out, source("smollm2").hub_id, as_bf16=True)


def main() -> None:
    """Trains, saves and evaluates."""
    parser = argparse.ArgumentParser(prog="python -m ftprof.samples.train_smollm2")
    parser.add_argument("--out", type=Path, default=Path("smollm2-tickets"))
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    train_adapter(options.out, options.steps)
    evaluate("smollm2-tickets", options.out)


if __name__ == "__main__":
    main()
