"""Conversion to ONNX Runtime and the engine on it, beside the PyTorch engine of the same model."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from ftprof.advisors.worker import serve
from ftprof.profiler import ort_build, ort_session
from ftprof.profiler.built import Built, Precision, Recipe, Source, build, open_built, read_manifest
from ftprof.profiler.engine import Engine
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.load import load_engine
from ftprof.profiler.ort_engine import OrtEngine
from ftprof.profiler.ort_export import culprit, narrowing
from ftprof.profiler.processes import Handle, prepare
from ftprof.profiler.torch_engine import TorchEngine
from ftprof.profiler.workload import Call, Row, Scalar, Scenario, Task, Workload
from tests.profiler.tiny_models import machine
from tests.tiny_directory import WORDS

FP32 = Recipe(runtime="ort", precision="fp32")
INT8 = Recipe(runtime="ort", precision="int8")
Pair = namedtuple("Pair", "directory built source torch")


def _torch(directory: Path, task: Task) -> TorchEngine:
    return load_engine(Workload(model=str(directory), task=task, rows="", rows_digest=""), Call())[0]


def _source(directory: Path, torch: TorchEngine) -> Source:
    rows = [Row(prompt=" ".join(WORDS[start : start + 5])) for start in range(0, 40, 5)]
    return Source(directory=str(directory), facts=torch.facts(), task=torch.task, eos_ids=torch.eos_ids, rows=rows)


@pytest.fixture(scope="session")
def converted(
    tmp_path_factory: pytest.TempPathFactory, tiny_embedder: Path, tiny_classifier: Path
) -> dict[Precision, Pair]:
    """The embedder in fp32 and the classifier in int8; both children at once, since each mostly imports."""
    folder = tmp_path_factory.mktemp("ort")
    tasks: list[tuple[Recipe, Path, Task]] = [
        (FP32, tiny_embedder, "embedding"),
        (INT8, tiny_classifier, "sequence-classification"),
    ]
    engines = [_torch(directory, task) for _, directory, task in tasks]
    sources = [_source(directory, engine) for (_, directory, _), engine in zip(tasks, engines, strict=True)]
    with ThreadPoolExecutor() as pool:
        made = [
            pool.submit(build, recipe, source, folder / recipe.precision, 1)
            for (recipe, *_), source in zip(tasks, sources, strict=True)
        ]
        built: list[Built] = [future.result() for future in made]
    return {
        one.recipe.precision: Pair(folder / one.recipe.precision, one, source, engine)
        for one, source, engine in zip(built, sources, engines, strict=True)
    }


@pytest.fixture(scope="session")
def fp32(converted: dict[Precision, Pair]) -> Pair:
    return converted["fp32"]


@pytest.fixture(scope="session")
def int8(converted: dict[Precision, Pair]) -> Pair:
    return converted["int8"]


def _rows(count: int, length: int) -> list[list[int]]:
    """Random ids of up to this length, the last row full."""
    draw = np.random.default_rng(count * 1000 + length)
    sizes = [*draw.integers(1, length + 1, count - 1).tolist(), length]
    return [draw.integers(1, 50, size).tolist() for size in sizes]


@pytest.mark.parametrize(("count", "length"), [(1, 1), (1, 2), (3, 7), (64, 5), (2, 128)])
def test_fp32_is_the_same_model_at_any_batch_and_length(fp32: Pair, count: int, length: int) -> None:
    ids = _rows(count, length)
    found = open_built(fp32.directory, Call()).embed(ids)
    np.testing.assert_allclose(found, fp32.torch.embed(ids), atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-5)


def test_text_becomes_the_same_tokens_and_batches(fp32: Pair) -> None:
    texts = ["order parcel refund", "help", "never arrived " * 100]
    call = Call(padding="max_length", pad_to=60)
    ours, theirs = open_built(fp32.directory, call), fp32.torch.with_call(call)
    ids = ours.tokenise(texts)
    assert ids == theirs.tokenise(texts)
    assert max(map(len, ids)) == 128, "cut to the model's context"
    batch, other = ours.pad(ids[:2]), theirs.pad(ids[:2])
    assert (batch.tokens, batch.length) == (other.tokens, other.length) == ((3, 1), 60)
    for name, values in other.inputs.items():
        np.testing.assert_array_equal(batch.inputs[name], values.numpy())


def test_int8_answers_alike_in_a_quarter_of_the_bytes(int8: Pair) -> None:
    engine, ids = open_built(int8.directory, Call()), _rows(64, 40)
    agreed = engine.logits(ids).argmax(1) == int8.torch.logits(ids).argmax(1)
    assert agreed.mean() >= 0.95
    facts = engine.facts()
    assert (facts.engine, facts.dtype, facts.attention) == ("ort", "int8", "graph")
    assert facts.weight_bytes < 0.4 * int8.source.facts.weight_bytes
    assert facts.providers == ("CPUExecutionProvider",)
    assert facts.fixed_shape is None
    assert engine.adapter() is None


def test_the_directory_is_whole_and_says_where_it_came_from(int8: Pair) -> None:
    assert read_manifest(int8.directory) == int8.built
    assert int8.built.source == int8.source.facts
    assert {"torch", "onnxruntime-gpu"} & set(int8.built.versions)
    assert {"config.json", "export.json", "tokenizer.json"} <= {path.name for path in int8.directory.iterdir()}
    assert [path.name for path in int8.directory.parent.iterdir() if "part" in path.name] == []


def test_transformers_opens_it_too(fp32: Pair) -> None:
    import torch
    from transformers.exporters.base import ExportedModel

    batch = fp32.torch.pad(_rows(3, 9))
    found = ExportedModel.from_pretrained(str(fp32.directory), device="cpu")(**batch.inputs).last_hidden_state
    with torch.inference_mode():
        expected = fp32.torch.model(**batch.inputs).last_hidden_state
    assert torch.allclose(found, expected, atol=1e-4)


def test_a_saved_copy_answers_the_same(int8: Pair, tmp_path: Path) -> None:
    engine, ids = open_built(int8.directory, Call()), _rows(4, 12)
    engine.save(tmp_path / "copy")
    np.testing.assert_array_equal(open_built(tmp_path / "copy", Call()).logits(ids), engine.logits(ids))


def test_its_profile_becomes_the_phase_of_the_record(int8: Pair) -> None:
    engine = open_built(int8.directory, Call())
    (trace,) = engine.op_traces(
        engine.pad(_rows(4, 20)), 0, scenario="batch", untraced={"forward": 0.02}, machine=machine(), repeats=3
    )
    assert (trace.scenario, trace.phase, trace.untraced_s) == ("batch", "forward", 0.02)
    products = [op for op in trace.ops if op.kind == "matmul" and op.dtype == "int8"]
    assert sum(op.calls for op in products) == 14, "six a layer, the pooler and the head"
    assert sum(op.self_s for op in trace.ops) <= trace.traced_s
    assert trace.events % 2 == 0, "the quieter two of three passes"
    assert trace.host_s >= 0


def test_what_ran_elsewhere_or_was_inserted_is_named(int8: Pair) -> None:
    engine = open_built(int8.directory, Call())
    assert isinstance(engine, OrtEngine)
    assert engine.foreign_nodes(engine.pad(_rows(1, 4))) == ((), ())


def test_a_call_changes_threads_only_with_a_new_session(int8: Pair) -> None:
    engine: Any = open_built(int8.directory, Call(threads=1))
    assert engine.with_call(Call(threads=1, batch_size=2))._session is engine._session
    other = engine.with_call(Call(threads=2))
    assert other._session.get_session_options().intra_op_num_threads == 2
    assert engine._session.get_session_options().intra_op_num_threads == 1


def test_threads_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    assert ort_session.thread_count(None) == 3
    assert ort_session.thread_count(7) == 7


def test_a_gpu_is_never_believed_from_the_build(int8: Pair) -> None:
    assert ort_session.providers("cpu") == ["CPUExecutionProvider"]
    if not _has_gpu():
        with pytest.raises(FtprofError, match="no cuda:0"):
            ort_session.providers("cuda:0")
    with pytest.raises(FtprofError, match="no CUDA kernels for int8"):
        OrtEngine(int8.directory, int8.built, Call(), "cuda:0")


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def test_workers_run_it_and_may_be_stopped(fp32: Pair, int8: Pair, tiny_rows: Path, tmp_path: Path) -> None:
    prepare("cpu", offline=True)
    scenario = Scenario(name="batch", units=((0, 1, 2, 3),))
    answers = {}
    with (
        Handle(serve, "embedder", tmp_path / "a.log", "cpu") as a,
        Handle(serve, "classifier", tmp_path / "b.log", "cpu") as b,
    ):
        for worker, pair in ((a, fp32), (b, int8)):
            work = Workload(
                model=pair.source.directory,
                task=pair.source.task,
                rows=str(tiny_rows),
                rows_digest="",
                scenarios=(scenario,),
                built=str(pair.directory),
            )
            assert worker.call("load", work).model.engine == "ort"
        for worker, other in ((a, b), (b, a), (a, b)):
            other.rest()
            assert set(worker.call("unit", "batch", 0, timeout_s=60)) == {"tokenise", "forward", "e2e"}
            answers[worker.name] = worker.call("fingerprint")
    texts = [msgspec.json.decode(line)["prompt"] for line in tiny_rows.read_text().splitlines()[:4]]
    expected = fp32.torch.embed(fp32.torch.tokenise(texts))
    np.testing.assert_allclose(np.reshape(answers["embedder"], expected.shape), expected, atol=1e-4)
    assert len(answers["classifier"]) == 4 * 3


def test_it_generates_nothing(int8: Pair) -> None:
    engine: Engine = open_built(int8.directory, Call())
    with pytest.raises(FtprofError, match="does not generate text"):
        engine.generate(engine.pad([[3, 4]]), 5)


@pytest.mark.parametrize(
    ("recipe", "changes", "said", "code"),
    [
        (Recipe(runtime="ort", precision="int4"), {}, "no int4", Exit.USAGE),
        (Recipe(runtime="ort", precision="int8", options={"quantisation": "magic"}), {}, "magic", Exit.USAGE),
        (Recipe(runtime="ort", precision="int8", options={"colour": True}), {}, "colour=True", Exit.USAGE),
        (Recipe(runtime="ort", precision="int8", options={"quantisation": "static"}), {"rows": ()}, "rows", 4),
        (FP32, {"task": "causal-lm"}, "generates text", 4),
        (FP32, {"architecture": "BertForTokenClassification"}, "BertForTokenClassification", 4),
        (FP32, {"directory": "/nowhere"}, "no tokenizer in /nowhere", 4),
    ],
)
def test_what_cannot_be_converted_is_refused_at_once(
    int8: Pair, tmp_path: Path, recipe: Recipe, changes: dict[str, Any], said: str, code: int
) -> None:
    facts = msgspec.structs.replace(
        int8.source.facts, architecture=changes.pop("architecture", int8.source.facts.architecture)
    )
    source = msgspec.structs.replace(int8.source, facts=facts, **changes)
    with pytest.raises(FtprofError, match=said) as caught:
        build(recipe, source, tmp_path / "new", 1)
    assert caught.value.exit_code == code
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_there_is_left_alone(int8: Pair) -> None:
    with pytest.raises(FtprofError, match="is there already"):
        build(INT8, int8.source, int8.directory, 1)
    assert read_manifest(int8.directory) == int8.built


def test_want_of_space_is_told_with_sizes(int8: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=200_000))
    with pytest.raises(FtprofError, match=r"needs about 1 MB in .* and 0 MB are free"):
        build(INT8, int8.source, tmp_path / "new", 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    _child(monkeypatch, 'import sys; open(sys.argv[1].replace("job", "answer"), "w").write("{")')
    monkeypatch.setattr(ort_build, "_FULL", usage.free + 1)  # the disk is full once the child has run
    with pytest.raises(FtprofError, match=r"filled up: building needs about 1 MB"):
        build(INT8, int8.source, tmp_path / "new", 1)


def _child(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Code in the child's place; its argument is the job."""

    def run(module: str, job: Path, log: Path, *_: object) -> int:
        with log.open("wb") as out:
            return subprocess.run(
                [sys.executable, "-c", code, str(job)], stdout=out, stderr=out, check=False
            ).returncode

    monkeypatch.setattr(ort_build, "run_job", run)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9, probably for want of memory"),
        ('print("first"); print("cannot import x"); raise SystemExit(3)', "ended with code 3"),
    ],
)
def test_a_child_that_dies_leaves_a_reason_and_no_files(
    int8: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    _child(monkeypatch, code)
    with pytest.raises(FtprofError, match=said) as caught:
        build(INT8, int8.source, tmp_path / "new", 1)
    assert ("cannot import x" in caught.value.hint) == ("first" in code)
    assert not list(tmp_path.iterdir())


def test_a_childs_error_is_passed_on_with_its_place(
    int8: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = '{"error": "ValueError: no rule", "where": "aten.svd"}'
    _child(monkeypatch, f'import sys; open(sys.argv[1].replace("job", "answer"), "w").write("""{answer}""")')
    with pytest.raises(FtprofError, match=r"BertForSequenceClassification failed at aten\.svd: ValueError: no rule"):
        build(INT8, int8.source, tmp_path / "new", 1)


def test_the_operator_or_the_layer_at_fault_is_found(tmp_path: Path) -> None:
    try:
        try:
            raise KeyError("No ONNX function found for <OpOverload(op='aten.linalg_svd', overload='default')>")
        except KeyError as inner:
            raise RuntimeError("export failed: see the report") from inner
    except RuntimeError as error:
        assert culprit(error) == "aten.linalg_svd"
    code = "class OddAttention:\n    def forward(self):\n        raise ValueError('bad shape')\n"
    (tmp_path / "modeling_odd.py").write_text(code)
    spec = importlib.util.spec_from_file_location("modeling_odd", tmp_path / "modeling_odd.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(ValueError, match="bad shape") as caught:
        module.OddAttention().forward()
    assert culprit(caught.value) == "OddAttention.forward"
    assert culprit(ValueError("nothing to see")) is None


def test_products_with_outliers_and_the_head_stay_in_fp32_where_ranges_are_fixed() -> None:
    import onnx_ir
    from onnx import TensorProto, helper, numpy_helper

    sizes = {"up": (4, 16), "down": (16, 4), "head": (3, 4)}
    weights = [numpy_helper.from_array(np.zeros(size, np.float32), f"{name}_w") for name, size in sizes.items()]
    nodes = [
        helper.make_node("MatMul", ["x", "up_w"], ["a"], name="up"),
        helper.make_node("MatMul", ["a", "down_w"], ["b"], name="down"),
        helper.make_node("MatMul", ["b", "b"], ["c"], name="scores"),
        helper.make_node("Gemm", ["c", "head_w"], ["y"], name="head", transB=1),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in "xy"]
    made = helper.make_model(helper.make_graph(nodes, "mlp", ports[:1], ports[1:], weights))
    assert narrowing(onnx_ir.from_proto(made)) == ["down", "head"]


@pytest.mark.parametrize(
    ("flags", "options", "reduced"),
    [
        (("avx2", "avx512f"), {}, True),
        (("avx2", "avx512_vnni"), {}, False),
        (("asimd", "asimddp"), {}, False),
        (("avx2",), {"reduce_range": False}, False),
    ],
)
def test_weights_get_seven_bits_where_products_would_overflow(
    int8: Pair,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    options: dict[str, Scalar],
    reduced: bool,
) -> None:
    monkeypatch.setattr(ort_build, "isa_flags", lambda: flags)
    copy = 'import sys, shutil; shutil.copy(sys.argv[1], sys.argv[1] + ".seen")'
    _child(monkeypatch, copy)
    seen: list[bool] = []
    real = ort_build._answer

    def look(path: Path) -> Any:
        seen.append(msgspec.json.decode(path.with_name("job.json.seen").read_bytes())["reduce_range"])
        return real(path)

    monkeypatch.setattr(ort_build, "_answer", look)
    with pytest.raises(FtprofError):
        build(msgspec.structs.replace(INT8, options=options), int8.source, tmp_path / "new", 1)
    assert seen == [reduced]
