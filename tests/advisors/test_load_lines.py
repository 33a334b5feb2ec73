"""The lines that load what was measured."""

from __future__ import annotations

import ast

import pytest

from ftprof.advisors.load_lines import load_lines
from ftprof.advisors.worker import Loaded
from ftprof.profiler.workload import Call, Change, Workload
from tests.advisors.records import ADAPTER, SMOLLM2


def lines(task: str, *rules: str, adapter: str | None = None) -> list[str]:
    workload = Workload(
        model="base",
        adapter=adapter,
        task=task,  # type: ignore[arg-type]
        rows="",
        rows_digest="",
        changes=tuple(Change(rule=rule) for rule in rules),
    )
    merged = "unmerged-adapter" in rules
    loaded = Loaded(
        model=SMOLLM2,
        adapter=None if merged or adapter is None else ADAPTER,
        call=Call(),
        import_s=0.0,
        build_s=0.0,
        adapter_s=0.0,
        apply_s=0.0,
        evicted=False,
        read_bytes=None,
        before_bytes=0,
        threads=2,
        eos=(0,),
    )
    source = load_lines(workload, loaded)
    ast.parse(source)
    return source.splitlines()


@pytest.mark.parametrize(
    ("task", "kind"), [("causal-lm", "AutoModelForCausalLM"), ("seq2seq-lm", "AutoModelForSeq2SeqLM")]
)
def test_each_task_has_its_class(task: str, kind: str) -> None:
    assert f"model = {kind}.from_pretrained('base')" in lines(task)


def test_what_no_file_holds_is_a_line_after_the_adapter() -> None:
    found = lines("causal-lm", "frozen-head", adapter="tuned")
    attached = next(number for number, line in enumerate(found) if "PeftModel.from_pretrained" in line)
    assert any("requires_grad_(True)" in line for line in found[attached:])
    assert not any("requires_grad_" in line for line in lines("causal-lm", adapter="tuned"))
