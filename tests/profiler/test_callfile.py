"""The call file: what it admits, and what it says about the rest."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ftprof.profiler.callfile import load_call
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.workload import Call


def load(tmp_path: Path, text: str) -> Call:
    path = tmp_path / "call.toml"
    path.write_text(text, encoding="utf-8")
    return load_call(str(path))


def fault(tmp_path: Path, text: str) -> FtprofError:
    with pytest.raises(FtprofError) as caught:
        load(tmp_path, text)
    assert caught.value.exit_code == Exit.USAGE
    return caught.value


def test_no_file_and_an_empty_one_give_the_defaults(tmp_path: Path) -> None:
    assert load_call(None) == load(tmp_path, "# nothing\n") == Call()


def test_every_setting(tmp_path: Path) -> None:
    text = """
    dtype = "bfloat16"
    attention = "eager"
    padding = "max_length"
    pad_to = 256
    order = "length"
    batch_size = 4
    new_tokens = 32
    use_cache = false
    adapter_autocast = false
    threads = 2
    """
    assert load(tmp_path, text) == Call(
        dtype="bfloat16",
        attention="eager",
        padding="max_length",
        pad_to=256,
        order="length",
        batch_size=4,
        new_tokens=32,
        use_cache=False,
        adapter_autocast=False,
        threads=2,
    )


def test_unknown_key_gets_the_nearest(tmp_path: Path) -> None:
    error = fault(tmp_path, 'atention = "eager"')
    assert "unknown key 'atention'" in error.message and error.hint == "did you mean attention?"
    assert "known keys: dtype" in fault(tmp_path, "zzz = 1").hint


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('dtype = "bf16"', 'dtype = "bf16"', '"auto", "float32", "bfloat16", "float16"'),
        ("dtype = 16", "dtype = 16", '"bfloat16"'),
        ('batch_size = "4"', 'batch_size = "4"', "a whole number"),
        ("batch_size = true", "batch_size = true", "a whole number"),
        ("batch_size = 0", "batch_size = 0", "at least 1"),
        ("new_tokens = -1", "new_tokens = -1", "at least 1"),
        ("threads = 1.5", "threads = 1.5", "a whole number"),
        ('use_cache = "no"', 'use_cache = "no"', "true or false"),
        ("[dtype]\nx = 1", "dtype", '"float32"'),
        ('padding = "max_length"', "needs pad_to", "pad_to = 256"),
        ("pad_to = 64", "has no effect", 'padding = "max_length"'),
        ("dtype = ", "not valid TOML", "one setting a line"),
        ("batch_size = 1\nbatch_size = 2", "not valid TOML", "one setting a line"),
    ],
)
def test_wrong_values_name_key_value_and_choices(tmp_path: Path, text: str, message: str, hint: str) -> None:
    error = fault(tmp_path, text)
    assert message in error.message and hint in error.hint


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.toml", tmp_path):
        with pytest.raises(FtprofError, match="cannot read"):
            load_call(str(path))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(FtprofError, match="not valid TOML"):
        load_call(str(tmp_path / "binary.toml"))


_VALUES = st.sampled_from(
    ["1", "0", "-3", "true", '"auto"', '"eager"', '"max_length"', "2.5", "[1]", "{a = 1}", "1979-05-27"]
)


@given(st.dictionaries(st.sampled_from([*Call.__struct_fields__, "x"]), _VALUES, max_size=4))
@settings(max_examples=150, deadline=None)
def test_any_settings_give_a_valid_call_or_a_fault(entries: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "call.toml")
        path.write_text("".join(f"{key} = {value}\n" for key, value in entries.items()))
        try:
            call = load_call(str(path))
        except FtprofError as error:
            assert error.exit_code == Exit.USAGE
        else:
            assert call.batch_size >= 1 and (call.padding == "max_length") == (call.pad_to is not None)
