"""The training loop that both samples share: AdamW, a short warm-up, then a straight line down to zero."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ftprof.samples.rows import Row

WARM_UP_STEPS = 5
SEED = 7


def endless_batches(rows: Sequence[Row], size: int) -> Iterator[list[Row]]:
    """Batches of `size` rows, every row once before any row twice.

    Rows of like length share a batch, because a step costs what its longest row costs; the batches are then shuffled.
    """
    rng = random.Random(SEED)
    while True:
        # Drawn anew in each round, so that rows meet different neighbours.
        order = sorted(rows, key=lambda row: len(row.prompt) * rng.uniform(0.8, 1.2))
        batches = [order[start : start + size] for start in range(0, len(order), size)]
        rng.shuffle(batches)
        yield from batches


def train(
    model: Any, batches: Iterator[dict[str, Any]], *, steps: int, rate: float, say: Callable[[str], None]
) -> None:
    """Changes the trainable weights of `model` in place; each batch holds the model's inputs and labels."""
    import torch

    trainable = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARM_UP_STEPS, (steps - step) / max(1, steps - WARM_UP_STEPS))
    )
    model.train()
    started = time.perf_counter()
    for step, batch in zip(range(1, steps + 1), batches, strict=False):
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trainable, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 10 == 0 or step == steps:
            say(f"step {step}/{steps}  loss {loss.item():.3f}  {time.perf_counter() - started:.0f} s")
    model.eval()
