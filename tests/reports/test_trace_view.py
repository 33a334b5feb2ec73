"""A trace report says what limits the device, with figures that add up, in every form, whatever the names hold."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from ftprof.profiler.traces.analyse import analyse
from ftprof.profiler.traces.model import PARTS, Partition
from ftprof.reports import trace_html, trace_markdown, trace_names, trace_terminal
from ftprof.reports.trace_document import TraceReport, as_json, report
from ftprof.reports.trace_verdict import judge, percentages
from ftprof.reports.trace_view import BRIEF, FileView, view
from tests.profiler.traces.chrome import Json, kernel, launch, note, op, python, write
from tests.profiler.traces.public import BERT, FFMA, QWEN, SGLANG_DECODE, TIMESFORMER, public
from tests.reports.hostile import CORPUS
from tests.reports.on_console import console_text
from tests.reports.page import parse


def split(**parts: float) -> Partition:
    """A partition with these parts in seconds."""
    names = [f"{name}_s" for name in PARTS]
    more = ("pageable_s", "allocator_s", "runtime_calls_s", "ops_s", "python_s", "unrecorded_s")
    values = dict.fromkeys((*names, *more), 0.0) | {f"{name}_s": value for name, value in parts.items()}
    return Partition(total_s=sum(parts.values()), **values)


@lru_cache(maxsize=8)
def reported(pattern: str) -> TraceReport:
    return report(analyse(public(pattern)), "0")


def shown(pattern: str) -> FileView:
    return view(reported(pattern), BRIEF).files[0]


def steps(names: list[str], dur: float = 60, count: int = 3) -> list[Json]:
    """Steps of 100 us with one kernel each; everything is called by the names in turn."""
    events: list[Json] = []
    for number in range(count * max(1, len(names))):
        at, name = 100 * number, names[number % len(names)]
        events += [note(f"ProfilerStep#{number}", at, 100), python(name, at + 1, 30), op(name, at + 2, 20)]
        events += [launch(at + 5, 5, number + 1), kernel(at + 12, dur, number + 1, name)]
    return events


@pytest.mark.parametrize(
    "parts",
    [
        {"compute": 1.0},
        {"compute": 1.0, "copies": 1.0, "host_wait": 1.0},
        dict.fromkeys(PARTS, 1.0),
        {"compute": 0.99949, "host_wait": 0.00051},
        {name: 1e-9 * (index + 1) for index, name in enumerate(PARTS)},
    ],
)
def test_percentages_sum_to_a_hundred(parts: dict[str, float]) -> None:
    found = percentages(split(**parts))
    assert round(sum(found.values()), 6) == 100 and set(found) == set(PARTS)
    whole = sum(parts.values())
    assert all(abs(found[name] - 100 * parts.get(name, 0) / whole) < 0.1 + 1e-9 for name in found)


def test_no_time_has_no_percentages() -> None:
    assert percentages(split()) == {}


@pytest.mark.parametrize(
    ("pattern", "limit", "words"),
    [
        (BERT, "launches", "idle 93.0% of the step: it waits for the host"),
        (QWEN, "kernels", "busy 91.9% of the step"),
        (TIMESFORMER, "data loading", "mostly waiting for input data"),
        (SGLANG_DECODE, "unknown", "cannot be said"),
        (FFMA, "copies", "Copies, and the calls that wait for them"),
        ("hta/cpu_only/*", "no device", "Only the host side can be judged"),
        ("hta/cupti_profiler/*", "no device", "Only the host side can be judged"),
    ],
)
def test_verdict_names_the_limit(pattern: str, limit: str, words: str) -> None:
    verdict = reported(pattern).files[0].verdict
    assert verdict.limit == limit and words in verdict.sentences[0] and len(verdict.sentences) <= 2
    figures = re.findall(r"([\d.]+)%", verdict.sentences[1]) if verdict.percentages else ["100"]
    assert round(sum(map(float, figures)), 6) == 100


def test_poor_health_stands_beside_the_verdict() -> None:
    text = console_text(lambda console: trace_terminal.render(reported(SGLANG_DECODE), console))
    assert "Confidence: low." in text and "Queued work waited up to 463.152 ms" in text


def test_what_the_trace_lacks_is_said() -> None:
    assert "GPU kernels and copies" in shown("hta/cpu_only/*").absent
    assert "shapes" in shown(FFMA).absent and "shapes" not in shown(TIMESFORMER).absent.replace("without shapes", "")


def test_tables_of_a_real_trace() -> None:
    tables = {table.caption: table for table in shown(TIMESFORMER).tables}
    assert tables["Where the time goes"].rows[-1][:2] == ("Total", "100.0%")
    assert tables["Classes of device work"].rows[0][:2] == ("Softmax", "43%")
    assert "On tensor cores: 35%" in tables["Classes of device work"].note
    top = tables["Top places"].rows[0]
    assert top[0] == "cunn_SoftMaxForward" and top[1].startswith("_softmax [8, 12, 3137, 3137]")
    assert top[2] == "TimesformerSelfAttention, modeling_timesformer.py(200): forward"
    assert tables["Largest gaps"].rows[0][0] == "Data loading"


def test_json_holds_the_analysis_and_the_verdict() -> None:
    found = json.loads(as_json(reported(BERT)))
    (file,) = found["files"]
    assert found["diff"] is None and file["verdict"]["limit"] == "launches"
    assert file["analysis"]["window"]["partition"]["total_s"] == pytest.approx(0.004426, rel=1e-3)
    assert file["findings"][0]["rule"] == "launch-bound-decode" and file["findings"][0]["evidence"]
    assert msgspec.json.decode(as_json(reported(BERT)), type=TraceReport) == reported(BERT)


def test_before_and_after(tmp_path: Path) -> None:
    before = write(tmp_path / "before.json", steps(["gemm_kernel"], 80), deviceProperties=[{"id": 0, "name": "H100"}])
    after = write(tmp_path / "after.json", steps(["gemm_kernel"], 40), deviceProperties=[{"id": 0, "name": "H100"}])
    document = report(analyse(before, after), "0", compare=True)
    found = view(document, BRIEF).diff
    assert found is not None and found.headline.startswith("A step took 100 µs before and 100 µs after")
    changed = next(table for table in found.tables if table.caption == "Kernels that changed most")
    assert changed.rows[0] == ("gemm_kernel", "1", "1", "80.0 µs", "40.0 µs", "-40.0 µs")
    for text in (
        console_text(lambda console: trace_terminal.render(document, console)),
        trace_markdown.render(document),
    ):
        assert text.casefold().index("before and after") < text.index("before.json") < text.index("after.json")


def test_unlike_traces_are_no_speed_up(tmp_path: Path) -> None:
    before = write(tmp_path / "a.json", steps(["gemm_kernel"]), deviceProperties=[{"id": 0, "name": "H100"}])
    after = write(tmp_path / "b.json", steps(["gemm_kernel"]), deviceProperties=[{"id": 0, "name": "A100"}])
    found = view(report(analyse(before, after), "0", compare=True), BRIEF).diff
    assert found is not None and "not to be read as a speed-up" in found.headline
    assert found.notes[0] == "Different devices: H100 and A100."


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        write(tmp_path / side / "t.json", steps(["gemm_kernel"]))
    names = [
        file.name for file in view(report(analyse(tmp_path / "a/t.json", tmp_path / "b/t.json"), "0"), BRIEF).files
    ]
    assert len(set(names)) == 2


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> TraceReport:
    """A trace in which kernels, ops, Python calls and the device have the names of the corpus."""
    path = tmp_path_factory.mktemp("hostile") / "<b>&amp;{{7*7}}.json"
    names = [name.encode("utf-8", "replace").decode() for name in CORPUS]
    return report(analyse(write(path, steps(names), deviceProperties=[{"id": 0, "name": names[0]}])), "0")


def test_page_holds_hostile_names_as_text(hostile: TraceReport) -> None:
    page = trace_html.render(hostile)
    tags = {element.tag for element in parse(page).all()}
    assert not tags & {"script", "img", "svg", "iframe", "link", "object", "base", "form", "b"}
    assert "<script>alert(1)</script>" in parse(page).text() and "\x1b" not in page and "\u202e" not in page
    assert not any(name.startswith("on") for element in parse(page).all() for name in element.attributes)


def test_page_asks_for_nothing_and_needs_no_script() -> None:
    page = trace_html.render(reported(TIMESFORMER))
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    checksum = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = [e.attributes["content"] for e in parse(page).all("meta") if "http-equiv" in e.attributes]
    assert policy.startswith("default-src 'none'") and f"'sha256-{checksum}'" in policy
    assert not re.search(r"(?:https?:)?//\w", re.sub(r"/\*.*?\*/", "", page)) and "style=" not in page
    ids = [element.attributes["id"] for element in parse(page).all() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    levels = [int(element.tag[1]) for element in parse(page).all() if re.fullmatch(r"h\d", element.tag)]
    assert levels[0] == 1 and all(after - before <= 1 for before, after in pairwise(levels))


def test_terminal_and_markdown_obey_no_name(hostile: TraceReport) -> None:
    text = console_text(lambda console: trace_terminal.render(hostile, console))
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text
    assert not any(line.strip().startswith(("::", "##[")) for line in text.splitlines())
    marked = trace_markdown.render(hostile)
    assert "<script>" not in marked and "<img" not in marked and "@octocat" not in marked and "\x1b" not in marked


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_align2>(cutlass_80::Params)", "cutlass_80_tensorop_bf16_align2"),
        ("sm90_xmma_gemm_bf16", "sm90_xmma_gemm_bf16"),
        ("void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float>(int)", "cunn_SoftMaxForward"),
        ("_ZN5aiter18add_rmsnorm_kernelIDF16_EvPT_", "add_rmsnorm_kernel"),
        ("_ZN", "_ZN"),
        ("_ZN9999x", "x"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
        ("void <", "void <"),
        ("", ""),
    ],
)  # fmt: skip
def test_kernel_names_are_short(name: str, short: str) -> None:
    assert trace_names.kernel(name) == short


@pytest.mark.parametrize(
    ("dur", "limit", "words"), [(90, "kernels", "busy 90.3%"), (10, "unknown", "without a host side")]
)
def test_trace_without_a_host_side(dur: float, limit: str, words: str, tmp_path: Path) -> None:
    kernels = [kernel(100 * number, dur, number + 1) for number in range(3)] + [kernel(299, 1, 9)]
    verdict = judge(analyse(write(tmp_path / "t.json", kernels)).files[0])
    assert verdict.limit == limit and words in verdict.sentences[0]


def test_time_without_length_is_not_judged(tmp_path: Path) -> None:
    events = [note("ProfilerStep#0", 0, 0), launch(0, 0, 1), kernel(0, 0, 1)]
    verdict = judge(analyse(write(tmp_path / "t.json", events)).files[0])
    assert verdict.limit == "unknown" and verdict.sentences == (
        "The judged time has no length, so nothing can be said of it.",
    )


def test_verdict_of_a_whole_window_speaks_of_the_recorded_time(tmp_path: Path) -> None:
    events = [event for event in steps(["gemm_kernel"]) if not event["name"].startswith("ProfilerStep")]
    verdict = judge(analyse(write(tmp_path / "t.json", events)).files[0])
    assert "of the recorded time" in verdict.sentences[0]
    assert any(text.startswith("steps (call profiler.step()") for text in verdict.absent)
