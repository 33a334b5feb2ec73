"""Which module may import which, and that commands which measure nothing start without the slow libraries."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ftprof.advisors.audit import Audit, Environment, ModelEntry, Settings
from ftprof.profiler.workload import Workload

ROOT = Path(__file__).resolve().parents[1]
# Seconds each, in sum 10 (torch 2, peft 5.5, scipy.stats 1, matplotlib.pyplot 1): too long to wait for a help text.
SLOW = ("torch", "transformers", "peft", "onnxruntime", "onnxruntime_genai", "matplotlib", "scipy")

# Says on the last line of standard error which of the libraries in argv[1] the command in argv[2:] has loaded.
LOADED = """
import json, sys
slow, sys.argv = json.loads(sys.argv[1]), ["ftprof", *sys.argv[2:]]
code = 0
try:
    if sys.argv[1:]:
        from ftprof.cli import main
        code = main()
    else:
        import ftprof
except SystemExit as stop:
    code = stop.code
print(json.dumps({"code": code or 0, "loaded": sorted(set(slow) & set(sys.modules))}), file=sys.stderr)
"""


def loaded_by(folder: Path, *command: str) -> list[str]:
    """The slow libraries that `ftprof COMMAND`, run in `folder`, loads; without a command, `import ftprof` does."""
    arguments = [sys.executable, "-c", LOADED, json.dumps(SLOW), *command]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    assert done.returncode == 0 and lines, f"{command}\n{done.stdout}\n{done.stderr}"
    result = json.loads(lines[-1])
    assert result["code"] == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return list(result["loaded"])


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The emptiest audit there is: what stands on the disk a moment after the start."""
    document = Audit(
        ftprof_version="0.1.0",
        created="2026-01-01T00:00:00Z",
        command="ftprof diagnose model",
        settings=Settings(
            objective="e2e", objective_scenario="single", objective_phase="e2e", max_loss="int8", budget_s=300.0
        ),
        environment=Environment(python="3.11", platform="linux", packages={}),
        model=ModelEntry(name="model", path="model", base=None, task="causal-lm", sha256="0" * 64),
        workload=Workload(model="model", task="causal-lm", rows="rows.jsonl", rows_digest="0" * 64),
    )
    path = tmp_path_factory.mktemp("audit") / "audit.json"
    path.write_bytes(msgspec.json.encode(document))
    return path


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    """Runs import-linter on a tree with the contracts in its pyproject.toml."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)


def copy_of_tree(into: Path) -> Path:
    """The packages and settings of this checkout; links stay links."""
    ignore = shutil.ignore_patterns("__pycache__", "*.safetensors", "*.jsonl")
    for name in ("ftprof", "profiler", "advisors", "reports", "samples"):
        if (ROOT / name).is_dir():  # an sdist has them all inside ftprof
            shutil.copytree(ROOT / name, into / name, symlinks=True, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", into)
    return into


def test_lower_layers_never_import_higher_ones() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("lower", "higher"),
    [("profiler", "advisors.audit"), ("profiler", "reports"), ("advisors", "reports"), ("advisors", "samples.demo")],
)
def test_import_upwards_is_caught_through_the_links(lower: str, higher: str, tmp_path: Path) -> None:
    tree = copy_of_tree(tmp_path)
    planted = tree / "ftprof" / lower / "planted.py"
    planted.write_text(f"import ftprof.{higher}\n", encoding="utf-8")
    done = lint_imports(tree)
    assert done.returncode == 1
    assert f"ftprof.{lower}.planted -> ftprof.{higher}" in done.stdout


@pytest.mark.parametrize("name", ["profiler", "advisors", "reports", "samples"])
def test_linter_bans_the_short_import_name(name: str, tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(f"from {name} import anything\n", encoding="utf-8")
    ruff = str(Path(sys.executable).with_name("ruff"))
    command = [ruff, "check", "--no-cache", "--config", str(ROOT / "pyproject.toml"), str(planted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"import ftprof.{name}" in done.stdout and "TID251" in done.stdout


@pytest.mark.parametrize(
    "command", [(), ("--help",), ("rules",), ("explain", "unmerged-adapter"), ("diagnose", "--help")], ids=" ".join
)
def test_commands_that_measure_nothing_load_no_slow_library(command: tuple[str, ...], tmp_path: Path) -> None:
    assert loaded_by(tmp_path, *command) == []


@pytest.mark.parametrize("form", ["text", "md", "json"])
def test_report_loads_no_slow_library(form: str, audit: Path) -> None:
    assert loaded_by(audit.parent, "report", audit.name, "--format", form) == []


def test_html_report_loads_nothing_but_what_draws(audit: Path) -> None:
    assert set(loaded_by(audit.parent, "report", audit.name, "--format", "html")) <= {"matplotlib"}
