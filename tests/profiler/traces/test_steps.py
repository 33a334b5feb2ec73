"""Steps, phases and the steady window: found by annotations, by module calls, by embeddings, by optimiser steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from ftprof.profiler.traces.analyse import analyse
from ftprof.profiler.traces.model import FileAnalysis
from ftprof.profiler.traces.steady import choose
from ftprof.profiler.traces.steps import Window
from tests.profiler.traces.chrome import Json, kernel, launch, note, op, python, write


def analysed(tmp_path: Path, events: list[Json]) -> FileAnalysis:
    """The analysis of these events."""
    return analyse(write(tmp_path / "t.json", events)).files[0]


def passes(starts: list[int], lengths: list[int], tokens: list[int] | None) -> list[Json]:
    """Forward passes of a decoder: a module call, a token embedding with its shape, a launch and a kernel each."""
    events: list[Json] = []
    for number, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        events.append(python("nn.Module: LlamaForCausalLM_0", start, length))
        events.append(python(f"nn.Module: LlamaModel_{number}", start + 1, length - 2))
        if tokens:
            dims = [[32000, 64], [2, tokens[number]], [], [], []]
            events.append(op("aten::embedding", start + 2, 2, dims))
            events.append(op("aten::embedding", start + 5, 2, [[512, 64], [2, 1]]))
        events.append(launch(start + 8, 2, 1000 + start))
        events.append(kernel(start + 12, length - 14, 1000 + start))
    return events


def test_generate_is_prefill_and_decode(tmp_path: Path) -> None:
    events = passes([0, 100, 160, 220, 280], [90, 50, 50, 50, 50], [64, 1, 1, 1, 1])
    file = analysed(tmp_path, events)
    assert file.step_source == "model calls"
    assert [step.phase for step in file.steps] == ["prefill", "decode", "decode", "decode", "decode"]
    assert {phase.phase: phase.passes for phase in file.phases} == {"prefill": 1, "decode": 4}
    assert (file.window.steps, file.window.first) == (4, "pass 2")
    decode = next(phase for phase in file.phases if phase.phase == "decode")
    assert decode.times_s == pytest.approx([50e-6] * 4) and decode.kernels == 4
    assert decode.partition is not None and decode.partition.total_s == pytest.approx(200e-6)


def test_phases_inside_a_profiler_step(tmp_path: Path) -> None:
    events = [note("ProfilerStep#1", 0, 400), *passes([0, 100, 160], [90, 50, 50], [64, 1, 1])]
    file = analysed(tmp_path, events)
    assert file.step_source == "ProfilerStep" and len(file.steps) == 1
    assert {phase.phase: phase.passes for phase in file.phases} == {"prefill": 1, "decode": 2}


def test_without_shapes_passes_are_only_forward(tmp_path: Path) -> None:
    file = analysed(tmp_path, passes([0, 100], [90, 50], None))
    assert [step.phase for step in file.steps] == ["forward", "forward"]


def test_embeddings_tell_the_passes_where_no_stack_was_recorded(tmp_path: Path) -> None:
    events = [e for e in passes([0, 100, 160, 220], [90, 50, 50, 50], [64, 1, 1, 1]) if e["cat"] != "python_function"]
    file = analysed(tmp_path, events)
    assert file.step_source == "embedding calls"
    assert [step.phase for step in file.steps] == ["prefill", "decode", "decode", "decode"]
    assert [round(step.start_s * 1e6) for step in file.steps] == [0, 100, 160, 220]


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("execute_context_1(888_788544)_generation_0(0)", "prefill"),
        ("execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk5508)", "decode"),
        ("execute_8192_context_9(sq8155sk8430)_generation_23(sq23)", "mixed"),
        ("step[DECODE bs=32]", "decode"),
        ("step[EXTEND bs=15 toks=15360]", "prefill"),
        ("step[TARGET_VERIFY bs=2]", "mixed"),
    ],
)
def test_engine_annotations(tmp_path: Path, name: str, phase: str) -> None:
    file = analysed(tmp_path, [note(name, 0, 50), launch(1, 1, 1), kernel(3, 9, 1)])
    assert [(step.name, step.phase) for step in file.steps] == [(name, phase)]
    assert file.step_source == "engine annotation"


def test_nested_engine_annotations_count_once(tmp_path: Path) -> None:
    outer = "execute_32_context_0(a)_generation_32(b)"
    file = analysed(tmp_path, [note(outer, 0, 50), note("step[DECODE bs=32]", 5, 40), kernel(3, 9, 1)])
    assert [step.name for step in file.steps] == [outer]


def test_a_step_lasts_until_its_device_work_is_done_but_not_into_the_next(tmp_path: Path) -> None:
    events = [
        note("ProfilerStep#1", 0, 20),
        note("ProfilerStep#2", 20, 20),
        launch(5, 1, 1),
        kernel(8, 30, 1),
        launch(25, 1, 2),
        kernel(40, 60, 2),
    ]
    steps = analysed(tmp_path, events).steps
    assert [(round(step.start_s * 1e6), round(step.end_s * 1e6)) for step in steps] == [(0, 20), (20, 100)]


def test_optimiser_steps_stand_in(tmp_path: Path) -> None:
    events = [note("Optimizer.step#SGD.step", at, 5) for at in (0, 100, 200)] + [
        kernel(at, 9, at) for at in (10, 110, 210)
    ]
    file = analysed(tmp_path, events)
    assert file.step_source == "optimiser steps" and [step.phase for step in file.steps] == ["training", "training"]


def test_no_steps_is_said(tmp_path: Path) -> None:
    file = analysed(tmp_path, [launch(0, 1, 1), kernel(2, 9, 1)])
    check = file.health.check("steps")
    assert file.steps == () and check is not None and check.verdict == "note"
    assert "warm-up and tail included" in file.window.reason
    assert file.window.end_s == file.duration_s


def windows(lengths: list[int], phases: list[str | None] | None = None) -> list[Window]:
    """Steps one after another."""
    made: list[Window] = []
    at = 0
    for number, length in enumerate(lengths):
        phase = phases[number] if phases else None
        made.append(Window(f"s{number}", at, at + length, phase, "ProfilerStep"))  # type: ignore[arg-type]
        at += length
    return made


def test_warm_up_and_torn_tail_are_left_out_but_slow_steps_stay() -> None:
    steady = choose(windows([900, 300, 100, 100, 190, 100, 100, 40]), [50, 50, 50, 50, 50, 50, 50, 10])
    assert steady is not None and (steady.first, steady.last) == (2, 6)
    assert steady.reason.startswith("steps 3 to 7 of 8")


def test_the_longest_stretch_of_decode_steps_is_chosen() -> None:
    phases: list[str | None] = ["prefill", "decode", "prefill", "decode", "decode", "decode"]
    steady = choose(windows([500, 10, 500, 10, 10, 10], phases), [9] * 6)
    assert steady is not None and (steady.first, steady.last) == (3, 5)


def test_steps_without_device_work_are_not_chosen() -> None:
    steady = choose(windows([100, 100]), [12, 0])
    assert steady is not None and (steady.first, steady.last) == (0, 0)
    assert choose([], []) is None
