"""Scores a sample on its held-out rows: the base alone, with the adapter, and merged.

    python -m ftprof.samples.evaluate [smollm2-tickets minilm-tickets]

Prints a line for each and writes `evaluation.json` into the adapter's directory.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

from ftprof.samples import load
from ftprof.samples.demo import BASES, HERE
from ftprof.samples.prepare import base_weights
from ftprof.samples.progress import show_progress
from ftprof.samples.schedule import SEED
from ftprof.samples.scores import held_out, score_answers, score_labels


def evaluate(name: str, adapter: Path) -> None:
    """Scores the adapter directory `adapter`, which is a training of the sample `name`, and records the result."""
    import torch

    with show_progress(BASES[name]) as progress:
        base = base_weights(BASES[name], progress)
    torch.manual_seed(SEED)  # the bare classifier's head is random
    generates = name == "smollm2-tickets"
    score = score_answers if generates else score_labels
    model: Any = load.causal_base(base) if generates else load.classifier_base(base)
    tokenizer = load.tokenizer_of(base)
    report = {"base": held_out("base", partial(score, model, tokenizer))}
    model = load.with_adapter(model, adapter)
    report["adapter"] = held_out("adapter", partial(score, model, tokenizer))
    model = model.merge_and_unload(safe_merge=True)
    report["merged"] = held_out("merged", partial(score, model, tokenizer))
    (adapter / "evaluation.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Evaluates the named samples, both by default."""
    parser = argparse.ArgumentParser(prog="python -m ftprof.samples.evaluate")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of: {', '.join(BASES)} (all)")
    for name in parser.parse_args().names or list(BASES):
        evaluate(name, HERE / name)


if __name__ == "__main__":
    main()
