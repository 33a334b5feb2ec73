"""GGUF files: what the header says, models that really load, and files that lie."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from ftprof.profiler.base_diff import differences
from ftprof.profiler.digest import digest_directory
from ftprof.profiler.directory import inspect
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.gguf_files import pretrained, read_gguf
from ftprof.profiler.gguf_load import plain_copy
from ftprof.profiler.weights import tensors, weight_files
from tests.profiler.adapter_models import loaded
from tests.profiler.gguf_models import CONTEXT, LAYERS, LETTERS, model, write_gguf
from tests.profiler.model_files import LLAMA, write_json, write_tokenizer

MATRICES = 7 * LAYERS + 2


@pytest.fixture(scope="module")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.Q8_0.gguf")


def fault(path: Path, *, adapter: str | None = None) -> FtprofError:
    with pytest.raises(FtprofError) as caught:
        inspect(str(path), adapter=adapter, offline=True)
    assert caught.value.hint and "\n" not in caught.value.message + caught.value.hint
    return caught.value


def test_the_header(tiny_gguf: Path) -> None:
    found = read_gguf(tiny_gguf)
    assert (found.architecture, found.name, found.max_context, found.vocabulary) == (
        "llama",
        "tiny",
        CONTEXT,
        len(LETTERS),
    )
    assert found.types() == {"Q8_0": MATRICES, "F32": 2 * LAYERS + 1}
    assert found.parameters == sum(parameter.numel() for parameter in model().parameters())
    assert found.tensors["blk.0.ffn_down.weight"].shape == (64, 128)
    assert f"{MATRICES} in Q8_0" in found.sentence()


def test_a_file_and_a_directory_with_one(tiny_gguf: Path) -> None:
    for given in (tiny_gguf, tiny_gguf.parent):
        found = inspect(str(given))
        assert (found.model, found.tokenizer, found.given) == (str(tiny_gguf),) * 3
        assert (found.task, found.max_context, found.adapter) == ("causal-lm", CONTEXT, None)
        assert found.gguf is not None and any("GGUF" in note for note in found.notes)
    assert weight_files(tiny_gguf) == (tiny_gguf,)
    assert tensors(tiny_gguf).keys() == read_gguf(tiny_gguf).tensors.keys()
    assert differences(inspect(str(tiny_gguf))) == ()
    assert pretrained(str(tiny_gguf)) == (str(tiny_gguf.parent), tiny_gguf.name)
    assert pretrained("some/model") == ("some/model", None)
    assert len(digest_directory(tiny_gguf)) == 64


def test_it_loads_unpacked_and_saves(tiny_gguf: Path, tmp_path: Path) -> None:
    before = digest_directory(tiny_gguf.parent)
    engine = loaded(inspect(str(tiny_gguf)), tmp_path)
    facts = engine.facts()
    assert (facts.dtype, facts.layers, facts.vocabulary, facts.quantisation) == ("float32", LAYERS, len(LETTERS), None)
    stored = model().state_dict()
    for name, tensor in engine.model.state_dict().items():
        # Q8_0 keeps a block of 32 to 1/127 of its largest value, halved by rounding.
        assert (tensor - stored[name]).abs().max() <= stored[name].abs().max() / 250, name
    ids = engine.tokenise(["the cab"])
    assert engine.detokenise(ids[0]) == "the cab"
    made = engine.generate(engine.pad(ids), 4)
    engine.save(tmp_path / "saved")
    again = loaded(inspect(str(tmp_path / "saved")), tmp_path)
    assert again.generate(again.pad(ids), 4).tokens == made.tokens
    assert digest_directory(tiny_gguf.parent) == before


def test_a_run_unpacks_once(tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, seconds = plain_copy(tiny_gguf, tmp_path)
    monkeypatch.setattr("ftprof.profiler.gguf_load.unpacked", lambda *_: pytest.fail("unpacked again"))
    assert seconds > 0 and plain_copy(tiny_gguf, tmp_path) == (first, 0.0)
    assert [path.name for path in tmp_path.iterdir()] == [first.name]


def test_no_room_to_unpack(tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    with pytest.raises(FtprofError, match="unpacking the GGUF file takes") as caught:
        loaded(inspect(str(tiny_gguf)), tmp_path)
    assert "TMPDIR" in caught.value.hint


def test_an_adapter_on_a_gguf_base(tiny_gguf: Path, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    from ftprof.profiler.adapter_merge import merge

    settings: dict[str, Any] = {"r": 2, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM"}
    get_peft_model(model(), LoraConfig(**settings)).save_pretrained(str(tmp_path / "a"))
    found = inspect(str(tmp_path / "a"), base=str(tiny_gguf))
    assert (found.model, found.task) == (str(tiny_gguf), "causal-lm")
    engine = loaded(found, tmp_path)
    assert engine.adapter().blockers == ()  # type: ignore[union-attr]
    assert not hasattr(merge(engine.model), "peft_config")


def test_a_gguf_beside_a_config_and_a_tokenizer(tiny_gguf: Path, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(tiny_gguf.read_bytes())
    write_json(tmp_path / "config.json", LLAMA)
    write_tokenizer(tmp_path)
    found = inspect(str(tmp_path))
    assert (found.model, found.tokenizer) == (str(tmp_path / "m.gguf"), str(tmp_path))


def test_which_of_several(tiny_gguf: Path, tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(tiny_gguf.read_bytes())
    error = fault(tmp_path)
    assert error.exit_code == Exit.USAGE
    assert error.hint == f"name one: ftprof diagnose {tmp_path / 'a.gguf'}"
    (tmp_path / "b.gguf").rename(tmp_path / "mmproj-b.gguf")
    assert inspect(str(tmp_path)).model == str(tmp_path / "a.gguf")


def test_what_is_no_model(tmp_path: Path) -> None:
    assert "an adapter, not a model" in fault(write_gguf(tmp_path / "lora.gguf", kind="adapter")).message
    assert "not a causal language model" in fault(write_gguf(tmp_path / "enc.gguf", architecture="bert")).message
    part = write_gguf(tmp_path / "m-00001-of-00003.gguf")
    error = fault(part)
    assert "part 1 of 3" in error.message and "--merge" in error.hint
    pointer = tmp_path / "pointer.gguf"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    assert "git lfs pull" in fault(pointer).hint


def test_an_architecture_that_transformers_lacks(tmp_path: Path) -> None:
    found = inspect(str(write_gguf(tmp_path / "m.gguf", architecture="martian")))
    with pytest.raises(FtprofError, match="martian"):
        loaded(found, tmp_path)


@pytest.mark.parametrize("kept", [0, 3, 4, 8, 20, 100, 900, -1])
def test_truncated(tiny_gguf: Path, tmp_path: Path, kept: int) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny_gguf.read_bytes()[:kept])
    error = fault(path)
    assert "truncated or corrupt" in error.message or "not a GGUF file" in error.message
    assert error.exit_code == Exit.UNUSABLE and "download it again" in error.hint


HEAD = b"GGUF" + struct.pack("<I", 3)
KEY = struct.pack("<Q", 1) + b"k"
LIES = {
    "more keys than bytes": HEAD + struct.pack("<QQ", 0, 2**62),
    "more tensors than bytes": HEAD + struct.pack("<QQ", 2**62, 0),
    "an endless array": HEAD + struct.pack("<QQ", 0, 1) + KEY + struct.pack("<IIQ", 9, 0, 2**50),
    "an endless list of texts": HEAD + struct.pack("<QQ", 0, 1) + KEY + struct.pack("<IIQ", 9, 8, 2**50),
    "an endless text": HEAD + struct.pack("<QQ", 0, 1) + KEY + struct.pack("<IQ", 8, 2**63),
    "arrays in arrays": HEAD + struct.pack("<QQ", 0, 1) + KEY + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 9999,
    "an unknown type": HEAD + struct.pack("<QQ", 0, 1) + KEY + struct.pack("<I", 99),
    "no alignment": HEAD
    + struct.pack("<QQ", 0, 1)
    + struct.pack("<Q", 17)
    + b"general.alignment"
    + struct.pack("<II", 4, 0),
    "many dimensions": HEAD + struct.pack("<QQ", 1, 0) + KEY + struct.pack("<I", 2**31),
    "a tensor of no known type": HEAD + struct.pack("<QQ", 1, 0) + KEY + struct.pack("<IQIQ", 1, 32, 999, 0),
    "a tensor beyond the end": HEAD + struct.pack("<QQ", 1, 0) + KEY + struct.pack("<IQIQ", 1, 2**60, 0, 2**60),
    "the other byte order": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "nothing": HEAD + struct.pack("<QQ", 0, 0),
}


@pytest.mark.parametrize("lie", LIES)
def test_hostile(tmp_path: Path, lie: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(LIES[lie] + b"\0" * 64)
    assert str(path) in fault(path).message


def test_flipped_bytes_never_get_past(tiny_gguf: Path, tmp_path: Path) -> None:
    whole, path = tiny_gguf.read_bytes(), tmp_path / "m.gguf"
    generator = torch.Generator().manual_seed(3)
    for _ in range(60):
        torn = bytearray(whole)
        for place, value in torch.randint(0, 2000, (3, 2), generator=generator).tolist():
            torn[place] = value % 256
        path.write_bytes(torn)
        try:
            read_gguf(path)
        except FtprofError as error:
            assert "\n" not in error.message
