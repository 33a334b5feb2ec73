"""The planted variants' recipes, and one family of them built for real."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import msgspec
import pytest

from ftprof.profiler.errors import FtprofError
from ftprof.profiler.workload import Call
from ftprof.samples import variants
from ftprof.samples.long_rows import LONGEST, SHORTEST
from ftprof.samples.recipes import RECIPES

CALL_KEYS = {field.name for field in msgspec.structs.fields(Call)}


def test_recipes_use_known_call_keys() -> None:
    assert all(set(recipe.call) <= CALL_KEYS for recipe in RECIPES.values())


def test_an_unknown_variant_is_answered_with_the_known_ones() -> None:
    with pytest.raises(FtprofError, match="smollm2-slow") as caught:
        variants.build("smollm2-slow")
    assert "minilm-padded" in caught.value.hint


def test_the_list_says_what_is_planted(capsys: pytest.CaptureFixture[str]) -> None:
    assert variants.main(["--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(RECIPES)


def test_minilm_variants_are_built_once_and_share_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    padded, plain = variants.build("minilm-padded", tmp_path), variants.build("minilm-fp32", tmp_path)
    assert (padded.model / "model.safetensors").samefile(plain.model / "model.safetensors")
    assert padded.call is not None
    call = tomllib.loads(padded.call.read_text())
    assert call == RECIPES["minilm-padded"].call
    monkeypatch.setattr(variants, "_fill", lambda *_: pytest.fail("built again"))
    assert variants.build("minilm-padded", tmp_path) == padded


def test_long_rows_are_long_and_keep_one_label(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    variant = variants.build("minilm-eager", tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(variant.model)
    rows = [json.loads(line) for line in variant.data.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 48
    assert all(SHORTEST <= len(tokenizer(row["prompt"]).input_ids) <= LONGEST for row in rows)
    assert len({row["prompt"] for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("file", "other"), [("config.json", "generation_config.json"), ("generation_config.json", "config.json")]
)
def test_no_cache_is_planted_in_one_file_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, other: str
) -> None:
    def save(sample: str, out: Path, *, dtype: str) -> None:
        for name in (file, other):
            (out / name).write_text("{}")

    monkeypatch.setattr("ftprof.samples.merged.save_merged", save)
    name = next(name for name, recipe in RECIPES.items() if recipe.no_cache_in == file)
    model = variants.build(name, tmp_path).model
    assert json.loads((model / file).read_text()) == {"use_cache": False}
    assert json.loads((model / other).read_text()) == {}
