"""Each rule over traces fires on the fault it is about, with evidence, and is silent on the same work without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from ftprof.advisors.rules import SECTIONS
from ftprof.advisors.trace_evidence import operands
from ftprof.advisors.trace_rule import TraceFinding
from ftprof.advisors.trace_rules import find, load_trace_rules, pages_of, read_trace_rule
from ftprof.cli import app
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.traces.analyse import analyse
from ftprof.profiler.traces.model import FileAnalysis
from tests.profiler.traces.chrome import Json, copy, event, kernel, launch, note, op, write
from tests.profiler.traces.public import BERT, TIMESFORMER, VIT, public

STEP = 1000  # microseconds
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
ALIGN1 = "cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1"
CAST = "void at::native::unrolled_elementwise_kernel<direct_copy_kernel_cuda, LoadWithCast<1>>(int)"
SOFTMAX = "void cunn_SoftMaxForward<8>(float*)"
FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>(Params)"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
BF16 = ["c10::BFloat16", "c10::BFloat16"]
DECODE = "execute_context_0(0)_generation_1(1)"
A100 = [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]

Body = Callable[[float, Iterator[int]], list[Json]]


@dataclass(frozen=True)
class Case:
    """Steps with the fault, the same without it, and what stands in the file's header."""

    rule: str
    sick: list[Json]
    healthy: list[Json]
    sick_header: dict[str, object]
    healthy_header: dict[str, object]


def steps(body: Body, count: int = 4, name: str = "ProfilerStep#{}") -> list[Json]:
    """Steps of STEP microseconds, each with the events of `body`."""
    numbers = iter(range(1, 100_000))
    events: list[Json] = []
    for index in range(count):
        at = index * STEP
        events += [note(name.format(index), at, STEP), *body(at, numbers)]
    return events


def busy(name: str = GEMM, op_name: str = "aten::mm", dims: object = None, types: object = None) -> Body:
    """Nine kernels of 100 us that are queued at the step's start and run without a pause."""

    def body(at: float, numbers: Iterator[int]) -> list[Json]:
        events: list[Json] = []
        for index in range(9):
            number = next(numbers)
            events.append(op(op_name, at + 1 + 8 * index, 7, dims, types=types or BF16))
            events.append(launch(at + 2 + 8 * index, 5, number))
            events.append(kernel(at + 20 + 106 * index, 106, number, name))
        return events

    return body


def late(first: Callable[[float, Iterator[int]], list[Json]], delay: float) -> Body:
    """`first`, while the device waits, and the usual work `delay` microseconds later, cut short to fit."""

    def body(at: float, numbers: Iterator[int]) -> list[Json]:
        events = first(at, numbers)
        for index in range(5):
            number = next(numbers)
            events.append(launch(at + delay + 8 * index, 5, number))
            events.append(kernel(at + delay + 20 + 100 * index, 100, number, GEMM))
        return events

    return body


def copied(kind: str) -> Body:
    def first(at: float, numbers: Iterator[int]) -> list[Json]:
        number = next(numbers)
        call = launch(at + 1, 300, number, "cudaMemcpyAsync")
        return [op("aten::copy_", at, 302), call, copy(at + 20, 280, number, f"Memcpy HtoD ({kind} -> Device)")]

    return late(first, 320)


def called(name: str, op_name: str, dur: float) -> Body:
    return late(
        lambda at, numbers: [op(op_name, at, dur + 2), event("cuda_runtime", name, at + 1, dur, correlation=0)],
        dur + 5,
    )


def small(pace: float) -> Body:
    """Thirty kernels of 3 us, launched one by one."""

    def body(at: float, numbers: Iterator[int]) -> list[Json]:
        events: list[Json] = []
        for index in range(30):
            number, begin = next(numbers), at + 1 + pace * index
            events += [op("aten::add", begin, 15), launch(begin + 5, 5, number), kernel(begin + 14, 3, number, GEMM)]
        return events

    return body


def synchronised(calls: int) -> Body:
    """Kernels, then calls that wait for them one after the other, each with a pause after it."""

    def body(at: float, numbers: Iterator[int]) -> list[Json]:
        events: list[Json] = []
        for index in range(4):
            number, begin = next(numbers), at + 240 * index
            events += [launch(begin + 5, 5, number), kernel(begin + 16, 150, number, GEMM)]
            if index < calls:
                wait = event("cuda_runtime", "cudaStreamSynchronize", begin + 20, 180, correlation=0)
                events += [op("aten::_local_scalar_dense", begin + 15, 190), wait]
        return events

    return body


def adapted(op_name: str = "aten::mm") -> Body:
    return lambda at, numbers: [*busy(GEMM, op_name)(at, numbers), note("lora_A", at + 0.5, 30)]


def attention(at: float, numbers: Iterator[int]) -> list[Json]:
    events = busy(GEMM, "aten::bmm", [[8, 128, 64], [8, 64, 128]])(at, numbers)
    events[-1] = {**events[-1], "name": SOFTMAX}
    events[-3 * 2 - 1] = {**events[-3 * 2 - 1], "name": SOFTMAX}
    return events


def case(rule: str, sick: list[Json], healthy: list[Json], device: object = A100, other: object = None) -> Case:
    return Case(rule, sick, healthy, {"deviceProperties": device}, {"deviceProperties": other or device})


BACKWARD = "autograd::engine::evaluate_function: MmBackward0"
CASES = [
    case(
        "misaligned-gemm",
        steps(busy(ALIGN1, "aten::bmm", [[96, 3137, 64], [96, 64, 3137]])),
        steps(busy(ALIGN1.replace("align1", "align8"), "aten::bmm", [[96, 3136, 64], [96, 64, 3136]])),
    ),
    case("eager-attention", steps(attention), steps(busy(FLASH, "aten::_flash_attention_forward"))),
    case("redundant-casts", steps(busy(CAST, "aten::copy_")), steps(busy())),
    case("fp32-on-tensor-cores", steps(busy("ampere_sgemm_128x64_tn")), steps(busy("ampere_sgemm_128x64_tn")),
         other=[{"id": 0, "name": "NVIDIA GeForce GTX 1080"}]),
    case("input-starved", steps(late(lambda at, numbers: [op(LOADER, at + 1, 390)], 400)), steps(busy())),
    case("pageable-copies", steps(copied("Pageable")), steps(copied("Pinned"))),
    case("allocator-churn", steps(called("cudaMalloc", "aten::empty", 200)), steps(called("cudaMalloc", "aten::empty", 200), 1)),
    case("launch-bound-decode", steps(small(32), name=DECODE), steps(busy(), name=DECODE)),
    case("per-token-sync", steps(synchronised(4), name=DECODE), steps(synchronised(0), name=DECODE)),
    case("unmerged-adapter", steps(adapted(), name=DECODE), steps(adapted(BACKWARD))),
]  # fmt: skip


def judged(path: Path, events: list[Json], **header: object) -> tuple[FileAnalysis, dict[str, TraceFinding]]:
    file = analyse(write(path, events, **header)).files[0]
    return file, {finding.rule: finding for finding in find(file)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_rule_fires_on_the_fault_only(case: Case, tmp_path: Path) -> None:
    _, sick = judged(tmp_path / "sick.json", case.sick, **case.sick_header)
    _, healthy = judged(tmp_path / "healthy.json", case.healthy, **case.healthy_header)
    assert case.rule in sick and case.rule not in healthy
    finding = sick[case.rule]
    assert finding.evidence and finding.summary and finding.advice
    assert 0.02 <= finding.severity <= 1
    assert all(row.what and 0 <= row.share <= 1 for row in finding.evidence)


def test_every_rule_has_a_case() -> None:
    assert {case.rule for case in CASES} == {rule.name for rule in load_trace_rules()}


def test_busy_trace_has_no_findings(tmp_path: Path) -> None:
    assert judged(tmp_path / "t.json", steps(busy()))[1] == {}


def test_severity_is_the_share_of_the_step(tmp_path: Path) -> None:
    file, found = judged(tmp_path / "t.json", steps(busy(CAST, "aten::copy_")))
    spent, length = 9 * 106 * file.window.steps, STEP * file.window.steps
    assert found["redundant-casts"].severity == pytest.approx(spent / length, rel=0.03)


def test_sizes_that_force_unaligned_kernels_are_named(tmp_path: Path) -> None:
    _, found = judged(tmp_path / "t.json", steps(busy(ALIGN1, "aten::bmm", [[96, 3137, 64], [96, 64, 3137]])))
    assert "3137" in found["misaligned-gemm"].summary and "64" not in found["misaligned-gemm"].summary
    even = ALIGN1.replace("align1", "align2")
    _, found = judged(tmp_path / "u.json", steps(busy(even, "aten::mm", [[141, 512], [512, 30522]])))
    assert "30522" in found["misaligned-gemm"].summary and "141" not in found["misaligned-gemm"].summary


@pytest.mark.parametrize(("name", "tf32"), [("Tesla V100-SXM2-32GB", False), ("NVIDIA H100 80GB HBM3", True)])
def test_tf32_is_advised_only_where_the_device_has_it(name: str, tf32: bool, tmp_path: Path) -> None:
    _, found = judged(
        tmp_path / "t.json", steps(busy("volta_sgemm_64x64_tn")), deviceProperties=[{"id": 0, "name": name}]
    )
    assert ("TF32" in found["fp32-on-tensor-cores"].advice) == tf32


def test_products_of_a_vector_are_not_held_against_the_tensor_cores(tmp_path: Path) -> None:
    vector = "void gemv2T_kernel_val<int, int, float, float, float>(float)"
    _, found = judged(tmp_path / "t.json", steps(busy(vector, types=["float", "float"])))
    assert "fp32-on-tensor-cores" not in found


def test_long_pauses_are_not_launching(tmp_path: Path) -> None:
    slow = [{**made, "ts": made["ts"] * 20, "dur": made["dur"] * (20 if "Profiler" in made["name"] else 1)} for made in steps(small(32))]  # fmt: skip
    _, found = judged(tmp_path / "t.json", slow)
    assert "launch-bound-decode" not in found


def test_queued_work_is_no_cost_of_synchronising(tmp_path: Path) -> None:
    """Work that waits long in the queue must not make a call at the step's end look dear."""

    def body(at: float, numbers: Iterator[int]) -> list[Json]:
        wait = event("cuda_runtime", "cudaStreamSynchronize", at + 110, 864, correlation=0)
        return [*busy()(at, numbers), op("aten::item", at + 105, 870), wait]

    _, found = judged(tmp_path / "t.json", steps(body, name=DECODE))
    assert "per-token-sync" not in found or found["per-token-sync"].severity < 0.06


@lru_cache(maxsize=4)
def public_findings(pattern: str) -> dict[str, TraceFinding]:
    return {finding.rule: finding for finding in find(analyse(public(pattern)).files[0])}


@pytest.mark.parametrize(
    ("pattern", "rules"),
    [
        (BERT, {"launch-bound-decode"}),
        (VIT, {"launch-bound-decode"}),
        (TIMESFORMER, {"input-starved", "eager-attention", "misaligned-gemm"}),
        ("hta/cpu_only/*", set()),
        ("hta/critical_path/alexnet/*", set()),
    ],
)
def test_public_traces_have_the_findings_that_reading_them_gives(pattern: str, rules: set[str]) -> None:
    assert set(public_findings(pattern)) == rules


def test_evidence_names_module_and_line_where_the_trace_has_them() -> None:
    rows = public_findings(TIMESFORMER)["eager-attention"].evidence
    assert "SoftMax" in rows[0].what and "in TimesformerSelfAttention at transformers/" in (rows[0].where or "")


def test_pages_have_every_section() -> None:
    for rule in load_trace_rules():
        assert all(section in rule.page.splitlines() for section in SECTIONS), rule.name


def test_file_that_is_no_rule_is_named() -> None:
    with pytest.raises(FtprofError, match=r"stray\.py: its last statement"):
        read_trace_rule("stray", ModuleType("stray"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (None, None),
        ("[[], [32, 3], [], [3, 4]]", "[32, 3] [3, 4]"),
        ("[[[1, 2], [3, 4]]]", "[[1, 2], [3, 4]]"),
        ("not json", "not json"),
        ("[]", None),
        ('{"a": 1}', None),
    ],
)
def test_operands(text: str | None, shown: str | None) -> None:
    assert operands(text) == shown


def test_rules_and_explain_know_both_kinds() -> None:
    runner = CliRunner()
    listed = runner.invoke(app, ["rules"]).stdout
    models, _, traces = listed.partition("In traces")
    assert "int4-weights" in models and "misaligned-gemm" in traces and "misaligned-gemm" not in models
    only = runner.invoke(app, ["explain", "misaligned-gemm"]).stdout
    assert only.startswith("# misaligned-gemm, in traces: ") and "## When it backfires" in only
    both = runner.invoke(app, ["explain", "eager-attention"]).stdout
    assert both.startswith("# eager-attention: ") and "\n# eager-attention, in traces: " in both


def test_an_unknown_rule_is_refused_with_the_nearest_of_either_kind() -> None:
    with pytest.raises(FtprofError, match="misaligned_gem") as refused:
        pages_of("misaligned_gem")
    assert refused.value.hint == "did you mean misaligned-gemm?"
