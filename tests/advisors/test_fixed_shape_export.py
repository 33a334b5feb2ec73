"""Graphs fixed to a shape: when the rule speaks, what it promises, and that its fix is the checked rewriting."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from ftprof.advisors.advise import advise, applies
from ftprof.advisors.rules.fixed_shape_export import RULE
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.ort_engine import OrtEngine, open_onnx
from ftprof.profiler.record import OpTotal, OpTrace, RunRecord
from ftprof.profiler.workload import Call
from tests.advisors.records import MINILM, diagnosis, encoder, timing
from tests.profiler.onnx_graphs import directory, expected, model

SHORT = (16, 17, 17, 18, 18, 19, 20, 21) * 8


def fixed(
    shape: tuple[int | None, int | None] | None, lengths: tuple[int, ...] = SHORT, call: Call | None = None
) -> RunRecord:
    """Tickets on a MiniLM graph, eight rows a batch unless the call says otherwise."""
    facts = msgspec.structs.replace(MINILM, engine="ort", attention="graph", fixed_shape=shape)
    record = encoder(call or Call(), facts, lengths)
    times = {"single": {"forward": 0.055, "e2e": 0.056}, "batch": {"forward": 3.6, "e2e": 3.61}}
    return msgspec.structs.replace(record, timing=timing(times))


def test_it_speaks_where_the_shape_is_mostly_filling() -> None:
    record = fixed((8, 256))
    finding = RULE.detect(record, diagnosis(record))
    assert finding is not None
    assert finding.summary.startswith("the graph is fixed to batch 8 and length 256: 9")
    waste = {entry.name: entry.value for entry in finding.evidence}
    assert waste["filling, batch"] == pytest.approx(1 - 21 / 256)
    assert waste["filling, single"] == pytest.approx(1 - (16 + 17) / (2 * 8 * 256)), "seven of eight rows are copies"
    assert 0 < finding.at_stake_s < 3.6


@pytest.mark.parametrize(
    ("shape", "lengths"), [(None, SHORT), ((None, 256), (250,) * 64), ((None, 24), (20,) * 64), ((1, None), SHORT)]
)
def test_it_is_silent_where_nothing_is_wasted(
    shape: tuple[int | None, int | None] | None, lengths: tuple[int, ...]
) -> None:
    record = fixed(shape, lengths)
    assert RULE.detect(record, diagnosis(record)) is None


def test_it_is_for_graphs_only() -> None:
    record = fixed((1, 256))
    assert applies(RULE, record)
    assert record.model
    assert not applies(
        RULE, msgspec.structs.replace(record, model=msgspec.structs.replace(record.model, engine="torch"))
    )


def test_the_promise_holds_what_was_measured_at_eleven_fold_padding() -> None:
    # 160 tickets in batches of eight, 3736 tokens padded to the longest and 40,960 to 256: 13 to 17 times in fp32.
    lengths = (23,) * 64
    record = fixed((None, 256), lengths)
    finding = RULE.detect(record, diagnosis(record))
    assert finding is not None
    prediction = RULE.predict(record, finding)
    ratio = prediction.get("batch", "forward")
    assert ratio is not None
    assert 256 / 23 * 0.7 < ratio.speedup <= 256 / 23
    assert ratio.low < 256 / 23 < ratio.high
    single = prediction.get("single", "forward")
    assert single is not None and single.speedup < ratio.speedup, "one short row still streams all weights"
    assert prediction.get("batch", "e2e") is not None


def test_copies_to_and_from_the_device_are_named() -> None:
    copy = OpTotal(name="MemcpyToHost", kind="copy", shapes="8x256", dtype="int64", calls=3, self_s=1e-4)
    trace = OpTrace(scenario="batch", phase="forward", ops=(copy,), host_s=0.0, traced_s=0.1, untraced_s=0.1, events=3)
    record = msgspec.structs.replace(fixed((8, 256)), ops=(trace,))
    finding = RULE.detect(record, diagnosis(record))
    assert finding is not None and finding.where == ("MemcpyToHost",)


def test_its_advice_survives_the_document() -> None:
    record = fixed((8, 256))
    advised = advise(record, diagnosis(record), [RULE], ("batch", "forward"), now="now")
    assert [(entry.rule, entry.fixable, entry.error) for entry in advised.entries] == [(RULE.name, True, None)]
    assert msgspec.json.decode(msgspec.json.encode(advised), type=type(advised)) == advised


def test_the_fix_is_the_checked_rewriting(tmp_path: Path) -> None:
    assert RULE.apply is not None
    rows = [[3, 4, 5], [6], [7, 8]]
    engine = RULE.apply(open_onnx(directory(tmp_path, model(2, 8)), Call()))
    assert isinstance(engine, OrtEngine)
    np.testing.assert_allclose(engine.logits(rows), expected(rows), atol=1e-4)
    assert engine.facts().fixed_shape is None
    with pytest.raises(FtprofError, match="already takes any batch"):
        RULE.apply(engine)


def test_the_lines_to_apply_by_hand_are_python() -> None:
    compile(RULE.steps, "steps", "exec")
    assert "OnnxExporter().export" in RULE.steps
