"""What is shipped: small, readable by all, and free of paths of the machine that made it."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from ftprof.samples.demo import HERE
from ftprof.samples.sources import SOURCES
from ftprof.samples.ticket_wording import CATEGORIES

MEGABYTE = 1_000_000
ADAPTERS = {"smollm2-tickets": "smollm2", "minilm-tickets": "minilm"}


def _packaged() -> list[Path]:
    return [path for path in HERE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def test_everything_packaged_is_small() -> None:
    assert sum(path.stat().st_size for path in _packaged()) < 8 * MEGABYTE


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_is_small_and_readable(name: str) -> None:
    files = list((HERE / name).iterdir())
    assert sum(path.stat().st_size for path in files) < 6 * MEGABYTE
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o444 == 0o444 for path in files)


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_names_its_base_by_hub_id(name: str) -> None:
    settings = json.loads((HERE / name / "adapter_config.json").read_text(encoding="utf-8"))
    assert settings["base_model_name_or_path"] == SOURCES[ADAPTERS[name]].hub_id
    assert (settings["r"], settings["lora_alpha"]) == (8, 16)


def test_smollm2_weights_are_bf16_lora_pairs() -> None:
    header = _header(HERE / "smollm2-tickets" / "adapter_model.safetensors")
    assert header.pop("__metadata__") == {"format": "pt"}
    assert {entry["dtype"] for entry in header.values()} == {"BF16"}
    assert len(header) == 420  # 30 layers, 7 linear maps in each, A and B
    assert all(min(entry["shape"]) == 8 for entry in header.values())


def test_minilm_tells_its_label_count_only_by_the_shape_of_its_head() -> None:
    header = _header(HERE / "minilm-tickets" / "adapter_model.safetensors")
    assert header["base_model.model.classifier.weight"]["shape"] == [len(CATEGORIES), 384]
    settings = json.loads((HERE / "minilm-tickets" / "adapter_config.json").read_text(encoding="utf-8"))
    assert "classifier" in settings["modules_to_save"]  # PEFT adds its own guesses at the name of a head
    assert settings["task_type"] == "SEQ_CLS"
    assert not {"num_labels", "id2label"} & set(settings)


@pytest.mark.parametrize("name", ADAPTERS)
def test_evaluation_is_of_both_held_out_parts(name: str) -> None:
    report = json.loads((HERE / name / "evaluation.json").read_text(encoding="utf-8"))
    assert list(report) == ["base", "adapter", "merged"]
    assert all(set(parts) == {"test", "unseen"} for parts in report.values())
    for part in ("test", "unseen"):
        assert report["adapter"][part]["category"] > 2 * report["base"][part]["category"]


def test_smollm2_leaves_room_to_see_damage() -> None:
    report = json.loads((HERE / "smollm2-tickets" / "evaluation.json").read_text(encoding="utf-8"))
    assert 0.3 < report["adapter"]["unseen"]["exact"] / report["adapter"]["unseen"]["rows"] < 0.95


def _header(weights: Path) -> dict[str, dict[str, Any]]:
    """The JSON that opens a safetensors file: 8 bytes of length, then the text."""
    with weights.open("rb") as file:
        header: dict[str, dict[str, Any]] = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return header
