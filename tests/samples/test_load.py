"""Both samples load with plain PEFT and do better than their bases. Uses the prepared bases (made if need be)."""

from __future__ import annotations

import pytest

from ftprof.samples import load
from ftprof.samples.demo import demo_sample
from ftprof.samples.rows import load_rows
from ftprof.samples.scores import score_answers, score_labels

ROWS = load_rows("test")[:6]


def test_the_causal_adapter_answers_where_its_base_does_not() -> None:
    sample = demo_sample()
    model, tokenizer = load.causal_base(sample.base), load.tokenizer_of(sample.base)
    base = score_answers(model, tokenizer, ROWS)
    tuned = score_answers(load.with_adapter(model, sample.model), tokenizer, ROWS)
    assert base.exact is not None
    assert tuned.exact is not None
    assert tuned.category > base.category
    assert tuned.exact >= base.exact + 3


def test_the_classifier_adapter_beats_an_untrained_head() -> None:
    sample = demo_sample("minilm-tickets")
    model, tokenizer = load.classifier_base(sample.base), load.tokenizer_of(sample.base)
    base = score_labels(model, tokenizer, ROWS)
    tuned = score_labels(load.with_adapter(model, sample.model), tokenizer, ROWS)
    assert tuned.category >= base.category + 3


def test_a_classifier_adapter_needs_its_label_count() -> None:
    """The trap that users of such adapters meet: their own directory does not say how many labels there are."""
    from transformers import AutoModelForSequenceClassification

    sample = demo_sample("minilm-tickets")
    two_labels = AutoModelForSequenceClassification.from_pretrained(sample.base)
    with pytest.raises(RuntimeError, match="size mismatch"):
        load.with_adapter(two_labels, sample.model)
