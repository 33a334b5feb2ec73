from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from ftprof.profiler import genai_build, genai_child
from ftprof.profiler.built import MANIFEST, Built, Recipe, Source, build, open_built, read_manifest
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.genai_engine import GenaiEngine
from ftprof.profiler.genai_graph import free_token
from ftprof.profiler.genai_log import last_line, where
from ftprof.profiler.load import load_engine
from ftprof.profiler.ort_profile import packed_nodes
from ftprof.profiler.parts import trace_ledger
from ftprof.profiler.sensitivity import LayerDivergence, Sensitivity, fake_quantised
from ftprof.profiler.torch_engine import TorchEngine
from ftprof.profiler.workload import Call, Row, Scalar, Workload
from tests import tiny_directory
from tests.profiler.tiny_models import llama, machine

PROMPTS = [
    "the order arrived late and the lamp was broken twice",
    "my parcel",
    "please cancel the account of yesterday",
    "support ticket : charged twice on the invoice of this week , help",
]
NEW = 10


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same job without a child and its five seconds of imports."""

    def run(module: str, job: Path, log: Path, *_: object) -> int:
        log.touch()
        return genai_child.main(str(job))

    monkeypatch.setattr(genai_build, "run_job", run)


@pytest.fixture(scope="module")
def plain(tiny_base: Path) -> Iterator[TorchEngine]:
    """The model on PyTorch; ends of text are two tokens, one of which it says soon."""
    engine, _ = load_engine(Workload(model=str(tiny_base), task="causal-lm", rows="", rows_digest=""), Call())
    said = engine.generate(engine.pad(engine.tokenise(PROMPTS[:1])), NEW).tokens[0]
    engine.model.generation_config.eos_token_id = [2, said[4]]
    yield engine


@pytest.fixture(scope="module")
def source(plain: TorchEngine, tiny_base: Path) -> Source:
    rows = tuple(Row(prompt=prompt, completion=" was late") for prompt in PROMPTS)
    return Source(directory=str(tiny_base), facts=plain.facts(), task="causal-lm", eos_ids=plain.eos_ids, rows=rows)


@pytest.fixture(scope="module")
def directory(source: Source, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by the real child."""
    target = tmp_path_factory.mktemp("genai") / "fp32"
    build(Recipe(runtime="genai", precision="fp32"), source, target, 2)
    return target


@pytest.fixture(scope="module")
def engine(directory: Path) -> GenaiEngine:
    made = open_built(directory, Call(threads=2))
    assert isinstance(made, GenaiEngine)
    return made


def int4(source: Source, target: Path, **options: Scalar) -> Built:
    return build(Recipe(runtime="genai", precision="int4", options=options), source, target, 1)


def test_the_directory_is_whole(directory: Path, engine: GenaiEngine) -> None:
    built = read_manifest(directory)
    assert built.size_bytes > (directory / "model.onnx.data").stat().st_size
    assert {"onnxruntime-genai-cuda", "onnxruntime-genai"}.intersection(built.versions)
    config = json.loads((directory / "genai_config.json").read_text())
    options = config["model"]["decoder"]["session_options"]
    assert (options["intra_op_num_threads"], options["session.intra_op.allow_spinning"]) == (2, "0")
    assert [path.name for path in directory.parent.iterdir()] == [directory.name]
    assert os.environ["ORT_DISABLE_TELEMETRY"]
    assert engine.opened.threads == 2


def test_greedy_tokens_are_torchs(plain: TorchEngine, engine: GenaiEngine) -> None:
    ids = plain.tokenise(PROMPTS)
    assert engine.tokenise(PROMPTS) == ids
    for rows in [*([row] for row in ids), ids]:
        made = engine.generate(engine.pad(rows), NEW)
        assert made.tokens == plain.generate(plain.pad(rows), NEW).tokens
        assert len(made.stamps_ns) == NEW + 1
        assert list(made.stamps_ns) == sorted(made.stamps_ns)


def test_an_end_of_text_ends_a_row_unless_the_count_is_exact(plain: TorchEngine, engine: GenaiEngine) -> None:
    ids = plain.tokenise(PROMPTS)
    ended = engine.generate(engine.pad(ids), NEW, exact=False).tokens
    assert ended == plain.generate(plain.pad(ids), NEW, exact=False).tokens
    assert any(len(row) < NEW and row[-1] in engine.eos_ids for row in ended)
    exact = engine.generate(engine.pad(ids), NEW).tokens
    assert not any(set(row) & set(engine.eos_ids) for row in exact)


def test_padding_to_a_length_changes_no_token(plain: TorchEngine, engine: GenaiEngine) -> None:
    padded = engine.with_call(Call(padding="max_length", pad_to=40, threads=2))
    assert padded.opened is engine.opened
    ids = plain.tokenise(PROMPTS)
    batch = padded.pad(ids)
    assert (batch.length, batch.tokens) == (40, tuple(map(len, ids)))
    assert padded.generate(batch, NEW).tokens == plain.generate(plain.pad(ids), NEW).tokens
    # GenAI masks nothing in a single row, so that is never padded.
    assert padded.pad(ids[:1]).length == len(ids[0])
    assert padded.generate(padded.pad(ids[:1]), NEW).tokens == plain.generate(plain.pad(ids[:1]), NEW).tokens


def test_logits_are_torchs_at_every_real_position(plain: TorchEngine, engine: GenaiEngine) -> None:
    # The second row ends with the end-of-sequence token, which must not be taken for padding.
    ids = [plain.tokenise(PROMPTS)[0], [5, 6, 2, 7, 2], [9]]
    found, wanted = engine.logits(ids), plain.logits(ids)
    assert found.dtype == np.float32
    assert found.shape == wanted.shape
    for place, row in enumerate(ids):
        np.testing.assert_allclose(found[place, : len(row)], wanted[place, : len(row)], atol=2e-4)


def test_what_cannot_be_asked(engine: GenaiEngine) -> None:
    with pytest.raises(FtprofError, match="not to embed"):
        engine.embed([[5]])
    with pytest.raises(FtprofError, match="context of 256"):
        engine.generate(engine.pad([[5] * 250]), NEW)
    with pytest.raises(FtprofError, match="no tokens"):
        engine.pad([[5], []])
    with pytest.raises(FtprofError, match=f"token {engine.opened.pad_id}"):
        engine.logits([[5], [6, engine.opened.pad_id]])
    assert engine.adapter() is None


def test_facts_say_what_runs(engine: GenaiEngine, plain: TorchEngine) -> None:
    facts = engine.facts()
    assert (facts.engine, facts.dtype, facts.providers) == ("genai", "float32", ("CPUExecutionProvider",))
    assert (facts.use_cache, facts.use_cache_source) == (True, "engine")
    assert facts.weight_bytes > 4 * facts.parameters
    assert (facts.layers, facts.linears) == (2, plain.facts().linears)


def test_a_trace_splits_prefill_from_decode(engine: GenaiEngine) -> None:
    batch = engine.pad(engine.tokenise(PROMPTS))
    given: dict[str, Any] = {"scenario": "batch", "machine": machine(), "repeats": 2}
    prefill, decode = engine.op_traces(batch, 4, untraced={"prefill": 0.5, "decode": 0.25}, **given)
    assert (prefill.phase, decode.phase) == ("prefill", "decode")
    assert (prefill.untraced_s, decode.untraced_s) == (0.5, 0.25)
    (head,) = [op for op in prefill.ops if op.kind == "matmul" and op.shapes.endswith("64x57")]
    assert (head.calls, head.flops) == (1, 2 * 4 * batch.length * 64 * 57)
    assert [op.calls for op in decode.ops if op.name == "GroupQueryAttention"] == [2]
    assert trace_ledger(decode, machine(), 0.25).ledger.total_s == pytest.approx(0.25)
    (forward,) = engine.op_traces(batch, 0, untraced={"forward": 0.5}, **given)
    assert forward.phase == "forward"


def test_a_saved_copy_opens_with_other_threads(engine: GenaiEngine, tmp_path: Path) -> None:
    engine.save(tmp_path / "copy")
    other = open_built(tmp_path / "copy", Call(threads=1))
    assert isinstance(other, GenaiEngine)
    assert other.opened.threads == 1
    batch = engine.pad(engine.tokenise(PROMPTS[:2]))
    assert other.generate(batch, 3).tokens == engine.generate(batch, 3).tokens
    assert other.detokenise([5, 6]) == engine.detokenise([5, 6])


@pytest.mark.usefixtures("in_process")
def test_settings_of_the_directory_are_honoured(plain: TorchEngine, source: Source, tmp_path: Path) -> None:
    folder = shutil.copytree(source.directory, tmp_path / "own")
    settings = {"eos_token_id": 2, "pad_token_id": 0, "repetition_penalty": 1.4, "no_repeat_ngram_size": 2}
    settings |= {"do_sample": True, "temperature": 0.7}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    own = msgspec.structs.replace(source, directory=str(folder), eos_ids=(2,))
    built = build(Recipe(runtime="genai", precision="fp32"), own, tmp_path / "built", 1)
    assert any("temperature=0.7" in note for note in built.notes)
    engine = open_built(tmp_path / "built", Call(threads=1))
    torch_engine, _ = load_engine(Workload(model=str(folder), task="causal-lm", rows="", rows_digest=""), Call())
    batches = [plain.tokenise([prompt]) for prompt in PROMPTS]
    wanted = [torch_engine.generate(torch_engine.pad(ids), NEW).tokens for ids in batches]
    assert [engine.generate(engine.pad(ids), NEW).tokens for ids in batches] == wanted
    assert wanted != [plain.generate(plain.pad(ids), NEW).tokens for ids in batches]


@pytest.mark.usefixtures("in_process")
def test_measured_keeps_the_worst_layers_and_the_head(source: Source, tmp_path: Path) -> None:
    built = int4(source, tmp_path / "int4", algorithm="measured", keep=0.5)
    bits = {name: node.bits for name, node in packed_nodes(tmp_path / "int4" / "model.onnx").items()}
    eight = {name.split("/")[2] for name, width in bits.items() if width == 8 and "layers" in name}
    assert len(eight) == 1
    assert bits["/lm_head/MatMul_Q8"] == 8
    (kept,) = [note for note in built.notes if note.startswith("Kept in 8 bit")]
    assert f"layers {eight.pop().removeprefix('layers.')} (KL" in kept
    assert open_built(tmp_path / "int4", Call(threads=1)).facts().dtype == "int4"


@pytest.mark.usefixtures("in_process")
def test_four_bits_are_those_that_sensitivity_assumes(plain: TorchEngine, source: Source, tmp_path: Path) -> None:
    int4(source, tmp_path / "int4", algorithm="8-bit head")
    graph = onnx.load(str(tmp_path / "int4" / "model.onnx")).graph
    stored = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    packed, scales = (stored[f"model.layers.1.attn.o_proj.MatMul.weight_{part}"] for part in ("Q4", "scales"))
    levels = np.stack([packed & 15, packed >> 4], axis=-1).reshape(64, 2, 32).astype(np.float32) - 8
    found = (levels * scales.reshape(64, 2, 1)).reshape(64, 64)
    wanted = fake_quantised(plain.model.model.layers[1].self_attn.o_proj.weight.detach()).numpy()
    assert np.mean(np.isclose(found, wanted, atol=1e-6)) > 0.999
    assert packed_nodes(tmp_path / "int4" / "model.onnx")["/lm_head/MatMul_Q8"].bits == 8


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("algorithm", ["plain", "8-bit head", "measured"])
def test_a_tied_model_says_how_its_table_is_held(source: Source, tmp_path: Path, algorithm: str) -> None:
    folder = shutil.copytree(source.directory, tmp_path / "tied")
    model = llama(tie_word_embeddings=True)
    model.resize_token_embeddings(len(tiny_directory.tokenizer()))
    model.save_pretrained(folder)
    own = msgspec.structs.replace(
        source, directory=str(folder), facts=msgspec.structs.replace(source.facts, tied=True), eos_ids=(2,)
    )
    (note, *_) = int4(own, tmp_path / "built", algorithm=algorithm).notes
    shared = "Token table and head share one matrix in 4 bit, as in the model."
    apart = "Token table in 4 bit and head in 8 bit are stored apart, although the model ties them."
    assert note == (shared if algorithm == "plain" else apart)
    assert open_built(tmp_path / "built", Call(threads=1)).logits([[5, 6]]).shape == (1, 2, 57)


@pytest.mark.usefixtures("in_process")
def test_a_graph_that_does_not_open_is_no_build(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(job: genai_child.Job) -> genai_child.Answer:
        shutil.copytree(source.directory, job.output)
        return genai_child.Answer()

    monkeypatch.setattr(genai_child, "build", broken)
    with pytest.raises(FtprofError, match=r"building LlamaForCausalLM .* failed: .*genai_config\.json"):
        build(Recipe(runtime="genai", precision="fp32"), source, tmp_path / "built", 1)
    assert not (tmp_path / "built").exists()


def nothing(*_: object) -> int:
    """Stands for the child where none must be started."""
    raise AssertionError("heavy work was begun")


@pytest.mark.parametrize(
    "setting", [{"num_beams": 4}, {"bad_words_ids": [[5]]}, {"forced_eos_token_id": 2}, {"stop_strings": ["."]}]
)
def test_settings_that_cannot_be_honoured_are_refused_first(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: dict[str, object]
) -> None:
    monkeypatch.setattr(genai_build, "run_job", nothing)
    folder = shutil.copytree(source.directory, tmp_path / "own")
    (folder / "generation_config.json").write_text(json.dumps(setting))
    own = msgspec.structs.replace(source, directory=str(folder))
    with pytest.raises(FtprofError, match=next(iter(setting))):
        build(Recipe(runtime="genai", precision="int8"), own, tmp_path / "built", 1)


@pytest.mark.parametrize(
    ("precision", "options", "said"),
    [
        ("int4", {"accuracy_level": 1}, "accuracy_level=1"),
        ("int4", {"algorithm": "magic"}, "magic"),
        ("int8", {"algorithm": "measured"}, "measured"),
        ("int4", {"bits": 3}, "bits=3"),
    ],
)
def test_recipes_that_nobody_should_build(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: Any, options: Any, said: str
) -> None:
    monkeypatch.setattr(genai_build, "run_job", nothing)
    with pytest.raises(FtprofError, match=said):
        build(Recipe(runtime="genai", precision=precision, options=options), source, tmp_path / "built", 1)


@pytest.mark.usefixtures("in_process")
def test_an_architecture_that_the_builder_does_not_know_is_named(source: Source, tmp_path: Path) -> None:
    folder = shutil.copytree(source.directory, tmp_path / "own")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["MadeUpForCausalLM"]}))
    facts = msgspec.structs.replace(source.facts, architecture="MadeUpForCausalLM")
    own = msgspec.structs.replace(source, directory=str(folder), facts=facts)
    with pytest.raises(FtprofError, match="does not know MadeUpForCausalLM") as caught:
        build(Recipe(runtime="genai", precision="fp32"), own, tmp_path / "built", 1)
    assert "PyTorch" in caught.value.hint
    assert not list(tmp_path.glob(".built*"))


def test_a_full_disk_is_told_with_sizes(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(FtprofError, match=r"needs about \d+ MB .* 0 MB are free"):
        build(Recipe(runtime="genai", precision="fp32"), source, tmp_path / "built", 1)


@pytest.mark.usefixtures("in_process")
def test_a_disk_that_fills_up_leaves_nothing_that_looks_whole(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(job: genai_child.Job) -> genai_child.Answer:
        Path(job.output).mkdir()
        (Path(job.output) / "model.onnx").write_bytes(b"half")
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise RuntimeError("saving failed") from error

    monkeypatch.setattr(genai_child, "build", full)
    with pytest.raises(FtprofError, match=r"filled up.*needs about \d+ MB"):
        build(Recipe(runtime="genai", precision="fp32"), source, tmp_path / "built", 1)
    assert not (tmp_path / "built").exists()
    assert not list(tmp_path.glob(".built*"))


def test_a_killed_builder_is_told_with_the_layer(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(module: str, job: Path, log: Path, *_: object) -> int:
        log.write_bytes(b"Reading layer 0\nReading layer 1\nSaving x: 10%|#| 1/9\rkernel gone\n")
        return -9

    stale = tmp_path / f".built.{2**22 + 1}.part"
    stale.mkdir()
    monkeypatch.setattr(genai_build, "run_job", killed)
    with pytest.raises(FtprofError, match=r"killed by signal 9.* at layer 1") as caught:
        build(Recipe(runtime="genai", precision="fp32"), source, tmp_path / "built", 1)
    assert "kernel gone" in caught.value.hint
    # What an earlier killed build left is swept.
    assert not stale.exists()


def test_the_log_tells_where_the_builder_stopped() -> None:
    log = "Reading layer 3\n[INFO] - start to quantize /model/layers.0/mlp/up_proj/MatMul ...\n"
    assert where(log) == "/model/layers.0/mlp/up_proj/MatMul"
    assert where("nothing yet") is None
    assert last_line("it broke\nSaving a: 5%|# | 1/9 [00:00, 3it/s]\r\n  File 'x'\n") == "it broke"
    assert last_line("") is None


def test_kept_layers_are_a_share_of_all() -> None:
    rated = tuple(LayerDivergence(layer=layer, kl=1.0 / (1 + layer)) for layer in range(4))
    found = Sensitivity(layers=rated, positions=9, left_out=(4, 5, 6))
    assert genai_child.kept_layers(found, 0.25) == (0, 1)


def test_padding_is_a_token_that_ends_no_text() -> None:
    words = tiny_directory.tokenizer()
    assert free_token(words, len(words) + 4, [2]) == len(words) + 3
    assert free_token(words, len(words), [2]) == 0
    words.pad_token = words.eos_token
    assert free_token(words, len(words), [2]) not in (None, 2)


def test_an_open_manifest_without_a_model_is_an_error(directory: Path, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_bytes((directory / MANIFEST).read_bytes())
    with pytest.raises(FtprofError, match=r"genai_config\.json"):
        open_built(tmp_path, Call())
