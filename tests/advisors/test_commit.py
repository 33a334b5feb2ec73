"""The commit of a run, from the build's variables and from every form in which git keeps it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ftprof.advisors import commit


@pytest.fixture(autouse=True)
def no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in commit.VARIABLES:
        monkeypatch.delenv(name, raising=False)


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *settings, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    (made / "inner").mkdir(parents=True)
    git(made, "init", "-q")
    git(made, "commit", "-q", "--allow-empty", "-m", "first")
    return made


def test_a_branch_a_packed_one_and_none(repository: Path) -> None:
    wanted = git(repository, "rev-parse", "HEAD")
    assert commit.commit(repository / "inner") == wanted
    git(repository, "pack-refs", "--all")
    assert commit.commit(repository) == wanted
    git(repository, "checkout", "-q", "--detach")
    assert commit.commit(repository) == wanted


def test_a_second_work_tree(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "other"))
    git(tmp_path / "other", "commit", "-q", "--allow-empty", "-m", "second")
    assert commit.commit(tmp_path / "other") == git(tmp_path / "other", "rev-parse", "HEAD")


def test_the_build_knows_better(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_SHA", "ab" * 20)
    assert commit.commit(repository) == "ab" * 20
    monkeypatch.setenv("GITHUB_SHA", "$(rm -rf /)")
    assert commit.commit(repository) == git(repository, "rev-parse", "HEAD")


@pytest.mark.parametrize("head", ["", "ref: refs/heads/none", "\xff\xfe", "nonsense"])
def test_what_is_no_repository_has_no_commit(tmp_path: Path, head: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_bytes(head.encode("latin-1"))
    assert commit.commit(tmp_path) == ""
