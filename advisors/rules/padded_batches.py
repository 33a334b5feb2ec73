"""Much of each batch is padding that the model computes and nobody reads.

## What it detects
At least 20 % of the tokens of a batch would vanish if rows were ordered by length and padded to the longest of their
own batch only; or single requests padded to a fixed length.

## Why it is slow
A padding token costs what a real one costs in every linear layer, and attention pays for it once more per real token.
Tickets of 17 tokens padded to 256 ran 9 to 17 times slower than padded to the longest, in every runtime tried.

## Fix
`padding="longest"` (or `True`), no fixed `max_length`, and rows sorted by length before they are cut into batches, with
the answers put back in order afterwards. Masked positions do not change the result beyond rounding.

## When it backfires
- Ordering needs the whole list: for online requests only the padding half of the fix applies.
- Compiled or exported graphs with fixed shapes need fixed lengths; use a few buckets there.
- Where the weights' bytes limit the speed (decode, tiny batches), padding is nearly free: a probe decides.

## Sources
- transformers, padding and truncation (huggingface.co/docs/transformers/pad_truncation).
- QData/TextAttack#737: an epoch from 3 h to 20 min; huggingface/sentence-transformers#2570: sorting by length.
- Krell et al., arXiv:2107.02027: half of the tokens of Wikipedia at length 512 are padding.
"""

from __future__ import annotations

from statistics import median

import msgspec

from ftprof.advisors.predict import Ratios, by_tokens, stake, with_end_to_end
from ftprof.advisors.rule import ALL_ENGINES, ALL_TASKS, Evidence, Finding, Prediction, Rule
from ftprof.advisors.shapes import Batches, both_plans, main_phase, tokens
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.record import ProbeCase, RunRecord
from ftprof.profiler.workload import Call, generates

NAME = "padded-batches"
FIRES = 0.20  # of the computed tokens; below, sorting gained nothing that could be told from noise
POINTS = 4  # batch shapes probed per scenario; times in between are interpolated


def rewrite(call: Call) -> Call:
    return msgspec.structs.replace(call, padding="longest", pad_to=None, order="length")


def _plans(record: RunRecord) -> dict[str, tuple[Batches, Batches]]:
    """Batches as called and as they would be, of the scenarios where that saves tokens."""
    plans = both_plans(record, rewrite(record.workload.call)) if record.workload else {}
    return {name: (now, then) for name, (now, then) in plans.items() if tokens(now) > tokens(then)}


def detect(record: RunRecord, diagnosis: Diagnosis) -> Finding | None:
    waste = {name: 1 - tokens(b) / tokens(a) for name, (a, b) in _plans(record).items()}
    if max(waste.values(), default=0.0) < FIRES:
        return None
    here = waste.get(main_phase(record)[0], 0.0)
    scenario, phase, seconds = stake(record, {"prefill": here, "forward": here})
    return Finding(
        summary=f"{max(waste.values()):.0%} of the tokens computed are avoidable padding",
        scenario=scenario,
        phase=phase,
        at_stake_s=seconds,
        evidence=tuple(
            Evidence(name=f"avoidable tokens, {name}", value=share, condition=f">= {FIRES:.0%} in one scenario")
            for name, share in waste.items()
        ),
    )


def _case(record: RunRecord, rows: int, length: int) -> ProbeCase:
    if record.workload and generates(record.workload.task):
        return ProbeCase(rule=NAME, kind="prefill", shape=(rows, length, 0), variant="cache")
    return ProbeCase(rule=NAME, kind="forward", shape=(rows, length))


def _points(record: RunRecord, pair: tuple[Batches, Batches]) -> tuple[ProbeCase, ...]:
    """Full batches at lengths spread evenly from the shortest to the longest."""
    rows = round(median(rows for shapes in pair for rows, _ in shapes))
    lengths = sorted({length for shapes in pair for _, length in shapes})
    count = min(POINTS, len(lengths))
    picked = {lengths[round(place * (len(lengths) - 1) / max(1, count - 1))] for place in range(count)}
    return tuple(_case(record, rows, length) for length in sorted(picked))


def probes(record: RunRecord, finding: Finding) -> tuple[ProbeCase, ...]:
    return tuple(dict.fromkeys(case for pair in _plans(record).values() for case in _points(record, pair)))


def predict(record: RunRecord, finding: Finding) -> Prediction:
    phase = "prefill" if record.workload and generates(record.workload.task) else "forward"
    ratios: Ratios = {}
    for scenario, pair in _plans(record).items():
        if ratio := by_tokens(record, _points(record, pair), *pair):
            ratios[scenario] = {phase: ratio}
    return Prediction(ratios=with_end_to_end(record, ratios), basis="passes probed at batch shapes of both plans")


RULE = Rule(
    name=NAME,
    title="Pad to the longest of each batch, and batch rows of like length",
    safety="rounding",
    tasks=ALL_TASKS,
    engines=ALL_ENGINES,
    needs=("workload",),
    detect=detect,
    probes=probes,
    predict=predict,
    rewrite=rewrite,
    steps="texts = sorted(texts, key=lambda text: len(tokenizer(text)['input_ids']))  # keep the order to undo it\n"
    "inputs = tokenizer(texts[start:start + 8], padding='longest', return_tensors='pt')",
)
