from __future__ import annotations

import itertools

import pytest
import torch

from ftprof.profiler.sensitivity import decoder_layers, fake_quantised, measure, sample
from ftprof.profiler.workload import Row
from tests import tiny_directory
from tests.profiler.tiny_models import bert, llama


def test_a_block_keeps_its_largest_value_and_sixteen_levels() -> None:
    torch.manual_seed(0)
    weight = torch.randn(6, 80)
    found = fake_quantised(weight)
    assert found.shape == weight.shape
    for row, start in itertools.product(range(6), (0, 32, 64)):
        block, other = weight[row, start : start + 32], found[row, start : start + 32]
        place = block.abs().argmax()
        assert other[place] == pytest.approx(float(block[place]))
        assert len(other.unique()) <= 16
        assert float((block - other).abs().max()) <= float(block.abs().max()) / 8


def test_exact_levels_and_zeros_stay() -> None:
    levels = torch.arange(-8.0, 8.0).repeat(2, 2) * 0.25
    assert torch.equal(fake_quantised(levels), levels)
    assert torch.equal(fake_quantised(torch.zeros(2, 32)), torch.zeros(2, 32))


def test_layers_are_ranked_and_the_model_is_left_as_it_was() -> None:
    model = llama()
    # Weights that 4 bit hold exactly cost nothing; the other layer's do.
    for parameter in decoder_layers(model)[1].parameters():
        if parameter.ndim == 2:
            parameter.data = fake_quantised(parameter.data)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    taken = sample(tiny_directory.tokenizer(), [Row(prompt="the order arrived late"), Row(prompt="my parcel")])
    found = measure(model, taken, budget_s=100)
    assert [one.layer for one in found.layers] == [0, 1]
    assert found.layers[0].kl > 1e-6
    assert found.layers[1].kl == pytest.approx(0.0, abs=1e-7)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_skipping_what_lies_below_changes_no_figure() -> None:
    """Against the plain way: the whole model with one layer quantised."""
    model, taken = llama(), sample(tiny_directory.tokenizer(), [Row(prompt="the order arrived late")])
    found = {one.layer: one.kl for one in measure(model, taken, budget_s=100).layers}
    with torch.inference_mode():
        reference = torch.log_softmax(model(taken.ids).logits[taken.scored], -1)
        for layer in decoder_layers(model)[1].modules():
            if isinstance(layer, torch.nn.Linear):
                layer.weight.data = fake_quantised(layer.weight.data)
        other = torch.log_softmax(model(taken.ids).logits[taken.scored], -1)
    assert found[1] == pytest.approx(float((reference.exp() * (reference - other)).sum(-1).mean()), rel=1e-3)


def test_what_the_budget_leaves_out_is_said() -> None:
    taken = sample(tiny_directory.tokenizer(), [Row(prompt="the order arrived late")])
    ticks = itertools.count(step=10)
    found = measure(llama(), taken, budget_s=5, clock=lambda: float(next(ticks)))
    assert [one.layer for one in found.layers] == [0]
    assert found.left_out == (1,)


def test_completions_are_what_is_scored_where_there_are_some() -> None:
    words = tiny_directory.tokenizer()
    with_one = sample(
        words, [Row(prompt="the order arrived", completion=" late today"), Row(prompt="my lamp is broken")], 2
    )
    # Three prompt tokens, two answers and the end: the positions before the answers and the end predict them.
    assert with_one.scored[0].tolist() == [False, False, True, True, True, False]
    assert with_one.scored[1].tolist() == [True, True, True, False, False, False]
    assert with_one.ids[0, -1] == 2


def test_nothing_to_score_and_no_layers_are_errors() -> None:
    with pytest.raises(ValueError, match="position"):
        measure(llama(), sample(tiny_directory.tokenizer(), [Row(prompt="the")]), budget_s=1)
    model = bert()
    model.config.num_hidden_layers = 5
    with pytest.raises(ValueError, match="5 decoder layers"):
        decoder_layers(model)
