"""`python -m benchmarks.frozen_head`: a 16-bit head on the last position of prompts, with and without a frozen weight."""

from __future__ import annotations

import time
from statistics import median

import torch

HIDDEN, VOCABULARY, LENGTH, RUNS = 576, 49152, 60, 9


def main() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        for rows in (1, 4):
            head = torch.nn.Linear(HIDDEN, VOCABULARY, bias=False).to(dtype)
            hidden = torch.randn(rows, LENGTH, HIDDEN).to(dtype)[:, -1:, :]
            times: dict[bool, list[float]] = {False: [], True: []}
            for number in range(2 * RUNS + 2):
                frozen = number % 2 == 1
                head.weight.requires_grad_(not frozen)
                begin = time.perf_counter()
                with torch.inference_mode():
                    head(hidden)
                if number >= 2:
                    times[frozen].append(time.perf_counter() - begin)
            free, frozen_s = (1e3 * median(times[frozen]) for frozen in (False, True))
            print(f"{dtype}, {rows} prompts: {free:.1f} ms, frozen {frozen_s:.1f} ms")


if __name__ == "__main__":
    main()
