"""Sides of a duel: a new worker gets the history of an old one, once, unless both sides are new at every block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ftprof.advisors import variant as module
from ftprof.advisors.budget import Budget
from ftprof.advisors.context import Context, Options
from ftprof.advisors.progress import Silent
from ftprof.advisors.variant import RestartArm, Variant, VariantArm
from ftprof.profiler.workload import Workload


class FakeHandle:
    """Notes what it is asked for."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.alive = True

    def call(self, method: str, *arguments: Any, timeout_s: float | None = None) -> Any:
        del arguments, timeout_s
        self.log.append(method)
        return {} if method == "unit" else None

    def rest(self) -> None:
        self.log.append("rest")

    def close(self) -> None:
        self.alive = False
        self.log.append("close")


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Variant, list[str]]:
    log: list[str] = []
    context = Context(options=Options(), budget=Budget(60.0), progress=Silent(), scratch=tmp_path, device="cpu")
    monkeypatch.setattr(Context, "start", lambda self, name: FakeHandle(log))
    monkeypatch.setattr(module, "settle", lambda: None)
    workload = Workload(model="m", task="causal-lm", rows="rows.jsonl", rows_digest="0")
    return Variant(context, "v", workload), log


def test_a_new_worker_runs_the_largest_batches_before_its_first_sample_and_never_again(
    started: tuple[Variant, list[str]],
) -> None:
    variant, log = started
    arm = VariantArm(variant)
    for _ in range(2):
        arm.enter("single", 0)
        arm.sample("single", 0)
        arm.leave()
    assert log == ["load", "age", "warm", "unit", "rest", "warm", "unit", "rest"]
    variant.close()
    arm.enter("single", 1)
    assert log[8:] == ["close", "load", "age", "warm"], "a worker that was started again is new"


def test_sides_that_start_again_at_every_block_are_alike_anyway(started: tuple[Variant, list[str]]) -> None:
    variant, log = started
    arm = RestartArm(variant)
    arm.enter("single", 0)
    arm.sample("single", 0)
    arm.leave()
    assert log == ["load", "warm", "unit", "close"]
