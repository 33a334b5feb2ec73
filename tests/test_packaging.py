"""The distribution: the directory links, what the archives hold, and that an installed wheel stands on its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import ftprof

ROOT = Path(__file__).resolve().parents[1]
LINKED = ("profiler", "advisors", "reports", "samples")
IS_CHECKOUT = (ROOT / "profiler").is_dir()
# What a clone does not have, for a tree that is not a git checkout.
LEFT_BY_TOOLS = {"build", "dist", "__pycache__", ".venv", ".git"}
# Packaged samples; the whole distribution stays far below what package indexes refuse.
SAMPLES_LIMIT_BYTES = 8_000_000

pytestmark = pytest.mark.skipif(not IS_CHECKOUT, reason="unpacked from an sdist, which holds folders for the links")

IMPORT_EVERYTHING = """
import importlib, pkgutil, ftprof
names = [module.name for module in pkgutil.walk_packages(ftprof.__path__, "ftprof.")]
for name in names:
    if not name.endswith(".__main__"):  # importing that one would start the command line
        importlib.import_module(name)
print(ftprof.__file__)
print("ftprof", *names)
"""

FIND_SAMPLES = """
from pathlib import Path
from ftprof.samples import demo
demo.base_weights = lambda *arguments: Path()  # the base is fetched on first use; here only the packaged part counts
for name in demo.BASES:
    sample = demo.demo_sample(name)
    print(sample.model / "adapter_model.safetensors", sample.model / "adapter_config.json", sample.data, sep="\\n")
"""


@dataclass(frozen=True, kw_only=True)
class Dist:
    """What `python -m build` made from a tarball of the tree: by way of the sdist, and straight."""

    sdist: Path
    wheel: Path
    direct_wheel: Path


@dataclass(frozen=True, kw_only=True)
class Installed:
    """A fresh environment that holds the wheel and sees the dependencies; `new` is what the wheel put in."""

    bin: Path
    site_packages: Path
    new: frozenset[str]


def run(*command: str | Path, cwd: Path) -> str:
    """Standard output of a command that must succeed, away from this checkout's modules."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def clone_names() -> list[str]:
    """The paths that a clone has: what is committed, and what would be."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
        names = done.stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        paths = [path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_symlink() or path.is_file()]
        names = [str(path) for path in paths if not LEFT_BY_TOOLS & {*path.parts}]
    return [name for name in names if name and os.path.lexists(ROOT / name)]


def archive(into: Path) -> Path:
    """A tarball as `git archive` would make it: links stay links."""
    path = into / "source.tar"
    with tarfile.open(path, "w") as tar:
        for name in clone_names():
            tar.add(ROOT / name, arcname=name, recursive=False)
    return path


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Dist:
    """Builds in a folder whose name is not that of this checkout."""
    work = tmp_path_factory.mktemp("dist")
    tree, out, direct = work / "unpacked", work / "out", work / "direct"
    with tarfile.open(archive(work)) as tar:
        tar.extractall(tree)
    run(sys.executable, "-m", "build", "--outdir", out, tree, cwd=work)
    run(sys.executable, "-m", "build", "--wheel", "--outdir", direct, tree, cwd=work)
    return Dist(
        sdist=next(out.glob("*.tar.gz")), wheel=next(out.glob("*.whl")), direct_wheel=next(direct.glob("*.whl"))
    )


@pytest.fixture(scope="module")
def installed(dist: Dist, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Installs the wheel alone, then shows the environment where the dependencies lie.

    A folder named in a .pth file is searched, but .pth files in it are not read: the editable ftprof stays unseen.
    """
    home = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    site_packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip())
    before = {entry.name for entry in site_packages.iterdir()}
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--quiet"]
    run(*pip, "install", "--no-deps", "--no-compile", dist.wheel, cwd=home)
    new = {entry.name for entry in site_packages.iterdir()} - before
    dependencies = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site_packages / "dependencies.pth").write_text("\n".join(sorted(dependencies)) + "\n", encoding="utf-8")
    return Installed(bin=home / "bin", site_packages=site_packages, new=frozenset(new))


def wheel_files(wheel: Path) -> dict[str, int]:
    """Size in bytes by path in the wheel."""
    with zipfile.ZipFile(wheel) as file:
        return {info.filename: info.file_size for info in file.infolist()}


def modules(names: set[str]) -> set[str]:
    """Dotted names of the Python files among `names`."""
    stems = {name.removesuffix(".py").removesuffix("/__init__") for name in names if name.endswith(".py")}
    return {stem.replace("/", ".") for stem in stems}


@pytest.mark.parametrize("name", LINKED)
def test_link_is_relative_and_leads_to_the_package(name: str) -> None:
    link = ROOT / "ftprof" / name
    assert link.is_symlink()
    assert str(link.readlink()) == f"../{name}"
    assert (link / "__init__.py").is_file()


def test_no_other_package_hides_in_ftprof() -> None:
    folders = {path.name for path in (ROOT / "ftprof").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(LINKED)


def test_wheel_holds_every_module_of_the_tree_and_nothing_beside_ftprof(dist: Dist) -> None:
    files = wheel_files(dist.wheel)
    in_tree = {name for name in clone_names() if name.split("/")[0] in LINKED and name.endswith(".py")}
    own = {name for name in clone_names() if name.startswith("ftprof/") and name.endswith(".py")}
    assert {name for name in files if name.endswith(".py")} == own | {f"ftprof/{name}" for name in in_tree}
    assert {name.split("/")[0] for name in files} == {"ftprof", f"ftprof-{ftprof.__version__}.dist-info"}
    assert "ftprof/py.typed" in files


def test_wheel_holds_the_data_that_the_packages_read(dist: Dist) -> None:
    files = wheel_files(dist.wheel)
    data = {
        name
        for name in clone_names()
        if name.startswith(("samples/", "reports/templates/")) and not name.endswith(".py")
    }
    assert any(name.endswith("adapter_model.safetensors") for name in data)
    assert any(name.startswith("reports/templates/") for name in data)
    assert {f"ftprof/{name}" for name in data} <= files.keys()


def test_packaged_samples_are_small(dist: Dist) -> None:
    sizes = [size for name, size in wheel_files(dist.wheel).items() if name.startswith("ftprof/samples/")]
    assert 0 < sum(sizes) < SAMPLES_LIMIT_BYTES


def test_wheel_is_the_same_by_way_of_the_sdist(dist: Dist) -> None:
    ours = {name: size for name, size in wheel_files(dist.wheel).items() if name.startswith("ftprof/")}
    direct = {name: size for name, size in wheel_files(dist.direct_wheel).items() if name.startswith("ftprof/")}
    assert ours == direct


def test_sdist_holds_folders_for_links_and_what_tests_need(dist: Dist) -> None:
    with tarfile.open(dist.sdist) as tar:
        members = tar.getmembers()
    names = {member.name.partition("/")[2] for member in members}
    assert not any(member.issym() or member.islnk() for member in members)
    assert {name.split("/")[0] for name in names}.isdisjoint(LINKED)
    assert {"Makefile", "constraints.txt", "LICENSE", "docs/generate.py", "tests/test_packaging.py"} <= names


def test_only_ftprof_lands_at_top_level_of_site_packages(installed: Installed) -> None:
    assert installed.new == {"ftprof", f"ftprof-{ftprof.__version__}.dist-info"}


def test_every_installed_module_imports(installed: Installed, dist: Dist, tmp_path: Path) -> None:
    where, names = run(installed.bin / "python", "-c", IMPORT_EVERYTHING, cwd=tmp_path).splitlines()[-2:]
    assert Path(where).is_relative_to(installed.site_packages)
    assert set(names.split()) == modules(set(wheel_files(dist.wheel)))


def test_installed_demo_finds_its_samples(installed: Installed, tmp_path: Path) -> None:
    paths = [Path(line) for line in run(installed.bin / "python", "-c", FIND_SAMPLES, cwd=tmp_path).splitlines()]
    assert paths
    for path in paths:
        assert path.is_relative_to(installed.site_packages)
        assert path.stat().st_size > 0
    shown = run(installed.bin / "ftprof", "demo", "--where", cwd=tmp_path).strip()
    assert Path(shown).is_relative_to(installed.site_packages)


def test_installed_command_runs_beside_folders_of_the_same_names(installed: Installed, tmp_path: Path) -> None:
    for name in LINKED:  # a fine-tuning project is full of such folders, and they come first on the path
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('not ours')\n", encoding="utf-8")
    assert "diagnose" in run(installed.bin / "ftprof", "--help", cwd=tmp_path)
    assert "unmerged-adapter" in run(installed.bin / "python", "-m", "ftprof", "rules", cwd=tmp_path)


def test_changelog_names_this_version() -> None:
    assert f"## {ftprof.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
