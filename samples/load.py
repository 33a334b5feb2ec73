"""Loads the samples with nothing but transformers and PEFT, the way their users would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ftprof.samples.ticket_wording import CATEGORIES


def causal_base(base: Path) -> Any:
    """SmolLM2 in fp32, as it is before fine-tuning."""
    import torch
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    return model.eval()


def classifier_base(base: Path) -> Any:
    """MiniLM in fp32 with a fresh, untrained head.

    An adapter directory says nowhere how many labels there are, so whoever loads it has to know.
    """
    import torch
    from transformers import AutoModelForSequenceClassification

    labels = dict(enumerate(CATEGORIES))
    return AutoModelForSequenceClassification.from_pretrained(
        base,
        dtype=torch.float32,
        num_labels=len(CATEGORIES),
        id2label=labels,
        label2id={name: index for index, name in labels.items()},
    ).eval()


def with_adapter(base_model: Any, adapter: Path) -> Any:
    """`base_model` with the adapter attached; PEFT changes it in place."""
    from peft import PeftModel

    return PeftModel.from_pretrained(base_model, str(adapter)).eval()


def tokenizer_of(base: Path) -> Any:
    """The base's own tokenizer: the samples add no token and ship none."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(base)
