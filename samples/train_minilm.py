"""Trains the `minilm-tickets` classifier adapter and scores it. About 2 minutes on two idle cores.

python -m ftprof.samples.train_minilm [--out DIR] [--steps N]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ftprof.samples.adapter_files import publish_adapter
from ftprof.samples.evaluate import evaluate
from ftprof.samples.load import classifier_base
from ftprof.samples.prepare import base_weights
from ftprof.samples.progress import show_progress
from ftprof.samples.rows import Row, load_rows
from ftprof.samples.schedule import SEED, endless_batches, train
from ftprof.samples.sources import source
from ftprof.samples.ticket_wording import CATEGORIES

STEPS = 90
BATCH = 16
RATE = 2e-3


def encode(tokenizer: Any, rows: Sequence[Row]) -> dict[str, Any]:
    """Padded inputs, and the number of each row's category."""
    import torch

    inputs = tokenizer([row.prompt for row in rows], return_tensors="pt", padding=True)
    return {**inputs, "labels": torch.tensor([CATEGORIES.index(row.label) for row in rows])}


def train_adapter(out: Path, steps: int = STEPS) -> None:
    """Writes the adapter, with the classifier's head in it, into `out`."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoTokenizer

    torch.manual_seed(SEED)
    with show_progress("minilm") as progress:
        base = base_weights("minilm", progress)
    tokenizer = AutoTokenizer.from_pretrained(base)
    lora = LoraConfig(
        r=8, lora_alpha=16, target_modules="all-linear", modules_to_save=["classifier"], task_type="SEQ_CLS"
    )
    model = get_peft_model(classifier_base(base), lora)
    batches: Iterator[dict[str, Any]] = (encode(tokenizer, rows) for rows in endless_batches(load_rows("train"), BATCH))
    train(model, batches, steps=steps, rate=RATE, say=lambda line: print(line, flush=True))
    model.save_pretrained(str(out))
    publish_adapter(out, source("minilm").hub_id, as_bf16=False)


def main() -> None:
    """Trains, saves and evaluates."""
    parser = argparse.ArgumentParser(prog="python -m ftprof.samples.train_minilm")
    parser.add_argument("--out", type=Path, default=Path("minilm-tickets"))
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    train_adapter(options.out, options.steps)
    evaluate("minilm-tickets", options.out)


if __name__ == "__main__":
    main()
