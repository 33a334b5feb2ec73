"""What is known of the public traces from reading them by hand comes out of the analysis."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from ftprof.profiler.traces.analyse import analyse
from ftprof.profiler.traces.model import FileAnalysis
from ftprof.profiler.traces.tables import DeviceSide
from tests.profiler.traces.public import (
    B200,
    BERT,
    FFMA,
    OWL,
    QWEN,
    SGLANG_DECODE,
    TIMESFORMER,
    VIT,
    VLLM_DECODE,
    public,
)

NO_DEVICE = [
    "hta/cpu_only/*",
    "hta/rank_non_gpu/*",
    "hta/distributed_info_unavailable/*",
    "hta/cupti_profiler/*",
    "hta/mtia_inference_trace/*",
]


@lru_cache(maxsize=8)
def analysed(path: Path) -> FileAnalysis:
    """The analysis of one file."""
    return analyse(path).files[0]


def device_of(file: FileAnalysis) -> DeviceSide:
    """The device side, which must be there."""
    assert file.device is not None
    return file.device


@pytest.mark.parametrize(("pattern", "share"), [(BERT, 0.079), (VIT, 0.162), (QWEN, 0.919), (TIMESFORMER, 0.990)])
def test_device_span_is_as_busy_as_known(pattern: str, share: float) -> None:
    span = analysed(public(pattern)).device_span
    assert span is not None and span.busy_share == pytest.approx(share, abs=0.0006)


def test_host_bound_encoder_waits_for_the_host() -> None:
    file = analysed(public(BERT))
    part = file.window.partition
    assert part is not None and part.host_wait_s > 0.8 * part.total_s
    launches = device_of(file).launches
    assert launches is not None and launches.bound == "launch"
    assert launches.kernel_median_s == pytest.approx(4.3e-6, rel=0.5)


def test_orphans_are_counted_and_lower_the_confidence() -> None:
    file = analysed(public(QWEN))
    check = file.health.check("orphan device work")
    assert check is not None and check.sentence.startswith("509 of 1707 ")
    assert check.verdict == "note" and file.health.confidence != "high"
    launches = device_of(file).launches
    assert launches is not None and launches.bound == "device"
    assert launches.delay_median_s == pytest.approx(1.2e-3, rel=0.05)


def test_eager_attention_and_misaligned_products_of_timesformer() -> None:
    device = device_of(analysed(public(TIMESFORMER)))
    assert device.class_share("softmax") == pytest.approx(0.444, abs=0.005)
    assert device.misaligned_share == pytest.approx(0.279, abs=0.002)
    assert device.attention is not None and device.attention.eager_share > 0.6
    assert device.attention.flash_s == 0.0


def test_host_time_before_the_first_kernel_counts() -> None:
    """99 % busy from first to last kernel, but the images were prepared for 218 ms before."""
    file = analysed(public(TIMESFORMER))
    part = file.window.partition
    assert part is not None and file.window.busy_share is not None
    assert file.window.busy_share < 0.45
    assert part.data_loading_s > 0.4 * part.total_s


def test_mixed_bound_of_owl() -> None:
    """The largest fixture: half the step prepares images, and the device half is misaligned products and softmax."""
    file = analysed(public(OWL))
    device = device_of(file)
    assert file.device_span is not None and file.device_span.busy_share == pytest.approx(0.5256, abs=0.0005)
    assert device.misaligned_share == pytest.approx(0.417, abs=0.001)
    assert device.class_share("softmax") == pytest.approx(0.476, abs=0.001)
    assert file.window.partition is not None
    assert file.window.partition.data_loading_s > 0.5 * file.window.partition.total_s


def test_matrix_units_of_blackwell_names() -> None:
    cores = device_of(analysed(public(B200))).tensor_cores
    assert cores is not None and cores.share >= 0.53


def test_fp32_kernels_named_xmma_use_no_matrix_units() -> None:
    file = analysed(public(FFMA))
    cores = device_of(file).tensor_cores
    assert cores is not None and cores.share < 0.01 and cores.unknown_s < 0.01 * cores.no_s
    assert cores.eligible_no_s > 0.8 * cores.no_s


def test_false_idle_gives_no_busy_share() -> None:
    """One hole of 463 ms between queued work: the device ran a graph that began before the trace."""
    file = analysed(public(SGLANG_DECODE))
    assert file.device_span is not None and file.device_span.busy_share == pytest.approx(0.0206, abs=0.0005)
    assert file.window.busy_share is None and file.health.confidence == "low"
    check = file.health.check("false idle")
    assert check is not None and check.verdict == "poor" and "463." in check.sentence
    launches = device_of(file).launches
    assert launches is not None and launches.bound is None


def test_graph_replay_owns_its_kernels() -> None:
    file = analysed(public(VLLM_DECODE))
    launches = device_of(file).launches
    assert launches is not None and (launches.graph_launches, launches.graph_kernels) == (1, 421)
    assert file.device_span is not None and file.device_span.busy_share == pytest.approx(0.998, abs=0.0005)
    assert [phase.phase for phase in file.phases] == ["decode"]
    orphans = file.health.check("orphan device work")
    assert orphans is not None and orphans.value == 0.0


@pytest.mark.parametrize("pattern", NO_DEVICE)
def test_trace_without_gpu_says_so_and_reports_the_host(pattern: str) -> None:
    file = analysed(public(pattern))
    assert not file.health.has_device and file.health.confidence == "low"
    check = file.health.check("device side")
    assert check is not None and "no GPU work" in check.sentence
    assert file.device is None and file.whole is None and file.device_span is None
    assert file.window.partition is None and file.window.busy_share is None
    assert file.host is not None and file.host.span_s > 0.0


def test_modules_ops_and_lines_are_attributed() -> None:
    device = device_of(analysed(public(BERT)))
    assert device.modules and device.modules[0].module == "Linear"
    assert device.modules[0].path.startswith("BertLMHeadModel > BertModel > BertEncoder > BertLayer")
    assert device.ops and device.ops[0].name == "aten::addmm" and device.ops[0].outer == "aten::linear"
    assert device.ops[0].shapes == "[ [ 512 ], [ 141, 512 ], [ 512, 512 ], [], [] ]"
    assert device.lines and device.lines[0].line.startswith("transformers/models/bert/modeling_bert.py(364)")
    for rows in (device.ops, device.modules, device.lines):
        assert sum(row.share for row in rows) == pytest.approx(1.0, abs=0.02)


def test_places_are_evidence_for_misaligned_products() -> None:
    device = device_of(analysed(public(TIMESFORMER)))
    worst = next(place for place in device.places if place.misaligned)
    assert (worst.kind, worst.tensor_core, worst.op) == ("gemm", "yes", "aten::bmm")
    assert worst.module and worst.line and "timesformer" in worst.line
    kernels = sum(row.total_s for row in device.classes if row.share_of_kernels is not None)
    misaligned = sum(place.total_s for place in device.places if place.misaligned)
    assert misaligned / kernels == pytest.approx(device.misaligned_share, abs=1e-6)
    assert 0.9 < sum(place.share for place in device.places) <= 1.0 + 1e-9


def test_step_phases_of_engines() -> None:
    assert [step.phase for step in analysed(public(B200)).steps] == ["prefill"]
    assert [step.phase for step in analysed(public(SGLANG_DECODE)).steps] == ["decode"]


def test_old_schema_knows_the_loader() -> None:
    """The sample of 2021: one loading call, pageable copies, times in whole microseconds."""
    file = analysed(public("kineto/test/*"))
    assert file.source.schema == "2021" and file.source.clock_step_s == 1e-6
    part = file.window.partition
    assert part is not None and part.data_loading_s > 0.0 and part.pageable_s > 0.0
    assert [(row.direction, row.pageable, row.calls) for row in device_of(file).copies] == [("HtoD", True, 2)]
