"""Headers of safetensors files, and the digest of a directory."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save, save_file

from ftprof.profiler.digest import digest_directory
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.weights import bytes_by_dtype, header, main_dtype, parameters, tensors, total_bytes
from tests.profiler.model_files import llama_lora, write_adapter, write_model

VALID = save({"a": np.ones((2, 3), dtype="float32"), "b": np.ones((4,), dtype="int8")}, metadata={"format": "pt"})


def with_header(value: object, data: bytes = b"") -> bytes:
    text = json.dumps(value).encode()
    return len(text).to_bytes(8, "little") + text + data


def read(content: bytes) -> bool:
    """Whether `content` is a safetensors file; any exception but FtprofError fails the test."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.safetensors")
        path.write_bytes(content)
        try:
            header(path)
        except FtprofError as error:
            assert "\n" not in error.message
            return False
        return True


def test_header_gives_dtypes_shapes_and_sizes(tmp_path: Path) -> None:
    save_file({"a": np.zeros((2, 3), dtype="float16"), "b": np.zeros((), dtype="int64")}, tmp_path / "x.safetensors")
    found = header(tmp_path / "x.safetensors")
    assert {name: (info.dtype, info.shape, info.size_bytes, info.parameters) for name, info in found.items()} == {
        "a": ("float16", (2, 3), 12, 6),
        "b": ("int64", (), 8, 1),
    }
    assert bytes_by_dtype(found.values()) == {"float16": 12, "int64": 8}
    assert (main_dtype(found.values()), parameters(found.values()), total_bytes(found.values())) == ("float16", 7, 20)
    assert main_dtype([]) is None


def test_bfloat16_is_read_without_numpy_knowing_it(tmp_path: Path) -> None:
    entry = {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}
    (tmp_path / "x.safetensors").write_bytes(with_header({"w": entry}, b"\0" * 4))
    info = header(tmp_path / "x.safetensors")["w"]
    assert (info.dtype, info.size_bytes) == ("bfloat16", 4)


def test_sub_byte_types_are_packed(tmp_path: Path) -> None:
    entry = {"dtype": "F4", "shape": [4], "data_offsets": [0, 2]}
    (tmp_path / "x.safetensors").write_bytes(with_header({"w": entry}, b"\0" * 2))
    assert header(tmp_path / "x.safetensors")["w"].size_bytes == 2


def test_tensors_of_a_model_and_of_an_adapter(tmp_path: Path) -> None:
    assert "model.embed_tokens.weight" in tensors(write_model(tmp_path / "m"))
    assert tensors(write_adapter(tmp_path / "a", None)).keys() == llama_lora().keys()


def test_missing_file_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(FtprofError, match=r"x\.safetensors"):
        header(tmp_path / "x.safetensors")
    with pytest.raises(FtprofError):
        header(tmp_path)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
@example(b"")
@example((10**18).to_bytes(8, "little") + b"{}")
def test_random_bytes_are_refused(content: bytes) -> None:
    read(content)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(VALID) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_survived(place: int, change: int) -> None:
    content = bytearray(VALID)
    content[place] ^= change
    read(bytes(content))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(VALID) - 1))
def test_every_truncation_is_noticed(length: int) -> None:
    assert read(VALID)
    assert not read(VALID[:length])


_NUMBERS = st.one_of(st.integers(-2, 40), st.just(2**63), st.none(), st.text(max_size=2), st.floats(allow_nan=False))
_ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(["F32", "BF16", "I4", "F4", "", 3]),
        "shape": st.one_of(st.lists(_NUMBERS, max_size=3), st.integers()),
        "data_offsets": st.one_of(st.lists(_NUMBERS, max_size=3), st.none()),
    },
)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.text(max_size=3), st.one_of(_ENTRY, st.integers(), st.none()), max_size=3),
    st.binary(max_size=64),
)
def test_well_formed_json_of_nonsense_is_survived(value: dict[str, object], data: bytes) -> None:
    read(with_header(value, data))


def test_digest_sees_content_names_folders_and_nothing_else(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    (model / "sub").mkdir()
    (model / "sub" / "x").write_text("one")
    first = digest_directory(model)
    os.utime(model / "config.json", (1, 1))
    assert digest_directory(model) == first
    seen = {first}
    for change in (
        lambda: (model / "sub" / "x").write_text("two"),
        lambda: (model / "sub" / "x").rename(model / "sub" / "y"),
        lambda: (model / "empty").mkdir(),
        lambda: (model / "link").symlink_to("nowhere"),
    ):
        change()
        seen.add(digest_directory(model))
    assert len(seen) == 5


def test_digest_follows_links_to_files(tmp_path: Path) -> None:
    (tmp_path / "blob").write_text("one")
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "config.json").symlink_to(tmp_path / "blob")
    before = digest_directory(snapshot)
    (tmp_path / "blob").write_text("two")
    assert digest_directory(snapshot) != before


def test_digest_of_large_weights_sees_their_ends_and_times(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    content = bytearray(3 * 2**20)
    path.write_bytes(content)
    os.utime(path, ns=(1, 1))

    def sampled() -> str:
        return digest_directory(tmp_path, whole_content_bytes=2**20)

    first, whole = sampled(), digest_directory(tmp_path)
    content[-1] = 1
    path.write_bytes(content)
    os.utime(path, ns=(1, 1))
    assert sampled() != first
    content[-1], content[len(content) // 2] = 0, 1
    path.write_bytes(content)
    os.utime(path, ns=(1, 1))
    assert sampled() == first and digest_directory(tmp_path) != whole
    os.utime(path, ns=(1, 2))
    assert sampled() != first


def test_digest_of_nothing_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(FtprofError):
        digest_directory(tmp_path / "nowhere")
