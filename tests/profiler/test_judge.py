"""The quality gate: what passes, what fails, what stays open, and that bad scores fail closed."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ftprof.profiler.judge import (
    DocScores,
    Floor,
    TaskScores,
    fail_closed,
    generation_check,
    judge_causal,
    judge_classifier,
    judge_embedder,
    task_change,
)
from ftprof.profiler.judge_bounds import cluster_mean
from ftprof.profiler.judge_limits import token_limits
from ftprof.profiler.quality import QualityCheck, Safety


def documents(
    count: int = 60, tokens: int = 40, *, kl: float = 0.0, top1: float = 1.0, ppl: float = 1.0, spread: float = 0.3
) -> list[DocScores]:
    """Scores with the given means; `spread` is the relative difference between documents."""
    rng = np.random.default_rng(3)
    docs = []
    for factor in rng.normal(1, spread, count).clip(0.1):
        base = rng.exponential(0.1, tokens)
        docs.append(
            DocScores(
                kl=rng.exponential(1, tokens) * kl * factor,
                top1_equal=rng.random(tokens) < 1 - (1 - top1) * factor,
                nll_base=base,
                nll_new=base + math.log(ppl) * factor * rng.normal(1, 0.5, tokens),
            )
        )
    return docs


def verdicts(docs: list[DocScores], *classes: Safety) -> list[str]:
    return [judge_causal(safety, docs).verdict for safety in classes]


# --- causal models -----------------------------------------------------------------------------------------------


def test_identical_outputs_pass_every_class() -> None:
    assert verdicts(documents(), "exact", "rounding", "int8", "int4") == ["pass"] * 4


def test_rounding_passes_as_rounding_but_not_as_exact() -> None:
    docs = documents(kl=5e-4, top1=0.997, ppl=1.001)
    assert verdicts(docs, "exact", "rounding", "int8") == ["fail", "pass", "pass"]
    assert judge_causal("rounding", docs, limits="equivalent").verdict == "fail"


def test_damage_fails_everywhere_and_says_by_what() -> None:
    found = judge_causal("int4", documents(kl=0.8, top1=0.7, ppl=1.9))
    assert found.verdict == "fail"
    assert all(f"{name} " in found.why for name in ("kl", "top1", "perplexity ratio"))
    assert [found.figures[name].passed for name in ("kl", "top1", "perplexity_ratio")] == [False] * 3


def test_four_bits_that_keep_divergence_but_not_perplexity() -> None:
    # As measured on a 135M fine-tune's completions: KL 0.032, top-1 99.3 %, perplexity ratio 1.034, upper bound 1.042.
    found = judge_causal("int4", documents(count=60, tokens=20, kl=0.031, top1=0.993, ppl=1.036))
    assert found.verdict == "fail"
    assert {name: figure.passed for name, figure in found.figures.items()} == {
        "kl": True,
        "top1": True,
        "perplexity_ratio": False,
    }
    assert "breaks the limit 1.03" in found.why and "kl" not in found.why


@pytest.mark.parametrize("safety", ["exact", "rounding", "int8", "int4"])
def test_a_perplexity_far_below_one_is_no_gain(safety: Safety) -> None:
    found = judge_causal(safety, documents(ppl=0.46))
    assert found.verdict == "fail" and "perplexity ratio 0.4" in found.why


def test_a_limit_inside_the_interval_stays_open() -> None:
    found = judge_causal("int8", documents(count=8, tokens=60, kl=0.0078, spread=0.6))
    figure = found.figures["kl"]
    assert figure.value <= 0.01 < figure.high
    assert (found.verdict, figure.passed) == ("inconclusive", None)
    assert "may or may not keep the limit 0.01" in found.why


def test_too_little_data_decides_nothing() -> None:
    for docs in (documents(4, 500), documents(30, 6), documents(4, 500, kl=3.0), []):
        found = judge_causal("int8", docs)
        assert found.verdict == "inconclusive" and "too few to judge" in found.why


def test_few_tokens_may_pass_but_say_what_they_leave_open() -> None:
    few, many = judge_causal("exact", documents(20, 30)), judge_causal("exact", documents(100, 30))
    assert few.verdict == many.verdict == "pass"
    assert (few.tokens, few.documents) == (600, 20)
    assert "up to 0.50% of tokens" in few.not_excluded and "fewer than the 2000" in few.not_excluded
    assert "up to 0.10% of tokens" in many.not_excluded and "fewer than" not in many.not_excluded


@pytest.mark.parametrize("field", ["kl", "nll_base", "nll_new"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_fails_closed(field: str, bad: float) -> None:
    docs = documents(10, 40)
    getattr(docs[6], field)[3] = bad
    found = judge_causal("int4", docs)
    assert found.verdict == "fail" and "document 7" in found.why and "not finite on 1 of 40" in found.why


def test_outputs_that_do_not_line_up_fail_closed() -> None:
    whole = documents(10, 40)
    cut = DocScores(
        kl=whole[0].kl, top1_equal=whole[0].top1_equal, nll_base=whole[0].nll_base, nll_new=whole[0].nll_new[:-1]
    )
    found = judge_causal("int8", [cut, *whole])
    assert found.verdict == "fail" and "do not line up" in found.why
    assert fail_closed("int8", "vocabulary of 10 against 12").verdict == "fail"
    uneven = TaskScores(base_right=(True,), new_right=())
    assert judge_causal("int8", whole, task=uneven).verdict == "fail"


def test_prompt_positions_are_shown_and_decide_nothing() -> None:
    docs = [
        DocScores(
            kl=doc.kl,
            top1_equal=doc.top1_equal,
            nll_base=doc.nll_base,
            nll_new=doc.nll_new,
            prompt_kl=np.full(50, 2.0),
            prompt_top1=np.zeros(50, dtype=bool),
        )
        for doc in documents()
    ]
    found = judge_causal("exact", docs)
    assert found.verdict == "pass"
    assert found.figures["prompt_kl"].value == 2.0 and found.figures["prompt_kl"].limit is None
    assert found.figures["prompt_top1"].value == 0.0 and found.figures["prompt_top1"].passed is None


def test_a_noise_floor_raises_limits_but_never_past_the_loosest_row() -> None:
    docs = documents(kl=2e-5)
    assert judge_causal("exact", docs).verdict == "fail"
    found = judge_causal("exact", docs, floor=Floor(kl=1e-5))
    assert (found.verdict, found.floor_kl) == ("pass", 1e-5)
    wild = token_limits("exact", Floor(kl=5.0, top1=0.2, perplexity_ratio=0.3))
    assert wild == token_limits("int4", None)
    assert token_limits("int8", Floor(kl=0.0)) == token_limits("int8", None)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.0, 0.1), st.floats(1.0, 10.0))
def test_more_divergence_never_reads_better(kl: float, times: float) -> None:
    rank = {"pass": 0, "inconclusive": 1, "fail": 2}
    better, worse = (
        judge_causal("int8", documents(12, 20, kl=kl)),
        judge_causal("int8", documents(12, 20, kl=kl * times)),
    )
    assert rank[better.verdict] <= rank[worse.verdict]


def test_every_verdict_survives_json() -> None:
    awful = documents(6, 50, kl=50.0, top1=0.0)
    for doc in awful:
        doc.nll_new[:] = 2_000.0
    task = TaskScores(base_right=(True,) * 8, new_right=(False,) * 8)
    for found in (judge_causal("int4", awful, task=task), judge_causal("exact", []), fail_closed("int8", "x")):
        assert msgspec.json.decode(msgspec.json.encode(found), type=QualityCheck) == found


# --- bounds ------------------------------------------------------------------------------------------------------


def test_bounds_count_documents_not_tokens() -> None:
    by_document = np.repeat([0.0, 1.0], 5)
    _, low, high = cluster_mean(by_document * 1000, np.full(10, 1000.0))
    assert high - low > 0.4  # 10 000 independent tokens would have given 0.02
    assert cluster_mean(np.array([3.0]), np.array([2.0])) == (1.5, 1.5, 1.5)


@pytest.mark.parametrize("clusters", [6, 30])
def test_one_sided_bounds_cover(clusters: int) -> None:
    rng = np.random.default_rng(8)
    above = below = 0
    for _ in range(300):
        _, low, high = cluster_mean(rng.normal(1, 0.5, clusters) * 20, np.full(clusters, 20.0))
        above += high >= 1
        below += low <= 1
    assert min(above, below) / 300 >= 0.92


# --- task --------------------------------------------------------------------------------------------------------


def answers(lost: int, gained: int, same: int) -> tuple[list[bool], list[bool]]:
    return [True] * lost + [False] * gained + [True] * same, [False] * lost + [True] * gained + [True] * same


def test_six_of_sixty_lost_is_proven_harm_and_a_veto() -> None:
    base, new = answers(6, 0, 54)
    change = task_change(base, new)
    assert change.harmed and change.p_harm == pytest.approx(0.5**7)
    found = judge_causal("int4", documents(), task=TaskScores(base_right=tuple(base), new_right=tuple(new)))
    assert found.verdict == "fail" and "6 of 60 answers lost" in found.why
    assert (found.flips, found.flips_lost) == (6, 6)
    assert found.figures["task_score_change"].value == pytest.approx(-0.1)
    assert found.figures["task_score_change"].passed is False


def test_unproven_loss_passes_and_prints_what_is_open() -> None:
    base, new = answers(2, 1, 57)
    found = judge_causal("int8", documents(), task=TaskScores(base_right=tuple(base), new_right=tuple(new)))
    assert found.verdict == "pass"
    assert (found.flips, found.flips_lost) == (3, 2)
    assert found.not_excluded.startswith("an accuracy loss of up to 8.2 points cannot be excluded (n = 60)")


def test_equal_answers_still_leave_room() -> None:
    change = task_change([True] * 60, [True] * 60)
    z = 1.6448536
    assert -change.low == pytest.approx(z * z / (60 + z * z), rel=1e-6)  # closed form of the score bound at no flips
    assert not change.harmed
    assert -task_change([True] * 600, [True] * 600).low < 0.005


def test_gains_are_never_harm_and_nothing_is_no_task() -> None:
    assert not task_change(*answers(0, 9, 20)).harmed
    assert not task_change(*answers(9, 9, 20)).harmed
    with pytest.raises(ValueError, match="same examples"):
        task_change([], [])
    empty = TaskScores(base_right=(), new_right=())
    assert judge_causal("exact", documents(), task=empty).flips is None


@settings(deadline=None)
@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 60))
def test_task_change_is_antisymmetric_and_ordered(lost: int, gained: int, same: int) -> None:
    there, back = task_change(*answers(lost, gained, same)), task_change(*answers(gained, lost, same))
    assert there.low <= there.change <= there.high
    assert (there.change, there.low) == pytest.approx((-back.change, -back.high))
    assert there.p_harm + back.p_harm == pytest.approx(1)
    assert task_change(*answers(lost + 1, gained, same)).p_harm <= there.p_harm


def test_the_loss_bound_covers() -> None:
    draws = np.random.default_rng(2).multinomial(60, [0.06, 0.02, 0.92], size=500)
    low = [task_change(*answers(*(int(x) for x in draw))).low for draw in draws]
    assert np.mean(np.array(low) <= -0.04) >= 0.93


# --- generation --------------------------------------------------------------------------------------------------


def test_generation_counts_where_texts_part() -> None:
    base, new = [[5, 6, 7, 2], [5, 6], [5, 6, 7], []], [[5, 6, 7, 2], [5, 6, 9], [5, 1, 7], []]
    found = generation_check(base, new, 2, batch_same=[True, True, False, True])
    assert found.first_divergence == (None, 2, 1, None)
    assert (found.prompts, found.identical, found.batch_identical) == (4, 2, 3)
    assert (found.eos_baseline, found.eos_candidate) == (1, 1)
    assert found.length_ratio == pytest.approx(10 / 9) and not found.passed
    assert generation_check(base, base, [2, 7]).eos_baseline == 2
    assert generation_check([[]], [[]], None).length_ratio == 1.0


@pytest.mark.parametrize(("length", "passed"), [(89, False), (90, True), (110, True), (111, False)])
def test_generated_length_must_stay(length: int, passed: bool) -> None:
    check = generation_check([[1] * 100], [[1] * length], 2)
    assert check.passed is passed
    found = judge_causal("int8", documents(), check)
    assert found.verdict == ("pass" if passed else "fail")
    assert passed or "generated length" in found.why


def test_generation_needs_the_same_prompts() -> None:
    with pytest.raises(ValueError, match="1 baseline"):
        generation_check([[1]], [], 2)


# --- classifiers -------------------------------------------------------------------------------------------------


def probabilities(rows: int, flips: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Confident rows over six classes, the first `flips` of them with another label in the second array."""
    base = np.full((rows, 6), 0.02)
    base[np.arange(rows), np.arange(rows) % 6] = 0.9
    new = base.copy()
    new[:flips] = np.roll(new[:flips], 1, axis=1)
    return base, new


@pytest.mark.parametrize(
    ("rows", "flips", "exact", "rounding", "int8"),
    [
        (60, 0, "pass", "pass", "pass"),
        (60, 1, "inconclusive", "inconclusive", "pass"),
        (60, 3, "fail", "fail", "inconclusive"),
        (60, 12, "fail", "fail", "fail"),
        (600, 5, "fail", "pass", "pass"),
        (10, 0, "inconclusive", "inconclusive", "inconclusive"),
    ],
)
def test_label_agreement(rows: int, flips: int, exact: str, rounding: str, int8: str) -> None:
    base, new = probabilities(rows, flips)
    classes: tuple[Safety, ...] = ("exact", "rounding", "int8")
    assert [judge_classifier(safety, base, new).verdict for safety in classes] == [exact, rounding, int8]


def test_a_pass_on_few_rows_claims_no_proof() -> None:
    few, many = (judge_classifier("rounding", *probabilities(rows)) for rows in (60, 600))
    assert "too few rows prove it" in few.why and "95% confidence" in many.why
    assert "another label on up to 4.9% of rows" in few.not_excluded
    assert many.figures["label_agreement"].low > 0.99


def test_accuracy_loss_is_a_veto_even_where_labels_agree_enough() -> None:
    base, new = probabilities(600, 15)
    labels = [int(x) for x in base.argmax(1)]
    assert judge_classifier("int8", base, new).verdict == "pass"
    found = judge_classifier("int8", base, new, labels)
    assert found.verdict == "fail" and "15 of 600 lost" in found.why
    assert (found.flips, found.flips_lost) == (15, 15)
    better = judge_classifier("int8", base, new, [int(x) for x in new.argmax(1)])
    assert better.verdict == "pass" and better.figures["accuracy_change"].value == pytest.approx(0.025)


def test_classifier_faults_fail_closed() -> None:
    base, new = probabilities(40)
    assert "shapes (40, 6) and (40, 5)" in judge_classifier("int8", base, new[:, :5]).why
    new[3, 2] = math.nan
    found = judge_classifier("int8", base, new)
    assert found.verdict == "fail" and "candidate's output is not finite on 1 of 40" in found.why
    assert judge_classifier("int8", base[:0], base[:0]).verdict == "fail"


# --- embedders ---------------------------------------------------------------------------------------------------


def vectors(rows: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    base = rng.normal(0, 1, (rows, 64))
    return base, base + rng.normal(0, noise, (rows, 64))


@pytest.mark.parametrize(
    ("noise", "exact", "rounding", "int8"),
    [(1e-6, "pass", "pass", "pass"), (0.01, "fail", "pass", "pass"), (0.6, "fail", "fail", "fail")],
)
def test_embeddings(noise: float, exact: str, rounding: str, int8: str) -> None:
    base, new = vectors(80, noise)
    classes: tuple[Safety, ...] = ("exact", "rounding", "int8")
    assert [judge_embedder(safety, base, new).verdict for safety in classes] == [exact, rounding, int8]


def test_embedder_ignores_length_and_sees_mixed_up_rows() -> None:
    base, _ = vectors(80, 0)
    assert judge_embedder("exact", base, base * 7).verdict == "pass"
    found = judge_embedder("int4", base, base[::-1])
    assert found.verdict == "fail" and found.figures["cosine"].value < 0.2


def test_neighbours_are_not_trivially_shared_on_few_rows() -> None:
    rng = np.random.default_rng(1)
    base, new = rng.normal(size=(2, 18, 32))
    assert judge_embedder("int8", base, new).figures["neighbour_overlap"].value < 0.6
    assert judge_embedder("int8", *vectors(8, 0.0)).verdict == "inconclusive"


def test_equal_texts_may_change_places() -> None:
    base, new = vectors(80, 1e-6)
    base[40:], new[40:] = base[39], new[39]  # 41 rows that are each other's nearest
    assert judge_embedder("exact", base, new).figures["neighbour_overlap"].value == 1.0


def test_embedder_faults_fail_closed() -> None:
    base, new = vectors(40, 0)
    new[5] = 0
    assert "1 vectors are zero" in judge_embedder("int8", base, new).why
    new[5] = math.inf
    assert judge_embedder("int8", base, new).verdict == "fail"
    assert judge_embedder("int8", base, base[:, :32]).verdict == "fail"
