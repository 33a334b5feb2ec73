"""Tiny models that many tests share, built once a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import tiny_directory

# A busy machine is slow for one example; no test asks how long anything takes.
settings.register_profile("ftprof", deadline=None)
settings.load_profile("ftprof")


@pytest.fixture(scope="session", autouse=True)
def _own_history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Trials of tests must not teach the user's own predictions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random two-layer Llama."""
    return tiny_directory.causal(tmp_path_factory.mktemp("tiny") / "base")


@pytest.fixture(scope="session")
def tiny_adapter(tmp_path_factory: pytest.TempPathFactory, tiny_base: Path) -> Path:
    """A random LoRA on it."""
    return tiny_directory.adapter(tmp_path_factory.mktemp("tiny") / "adapter", tiny_base)


@pytest.fixture(scope="session")
def tiny_classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT classifier."""
    return tiny_directory.classifier(tmp_path_factory.mktemp("tiny") / "classifier")


@pytest.fixture(scope="session")
def tiny_embedder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT encoder."""
    return tiny_directory.embedder(tmp_path_factory.mktemp("tiny") / "embedder")


@pytest.fixture(scope="session")
def tiny_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty prompts with completions."""
    return tiny_directory.rows(tmp_path_factory.mktemp("tiny") / "rows.jsonl")
