"""A model that is a graph already: a user's own .onnx, or a directory that ftprof built."""

from __future__ import annotations

from pathlib import Path

from ftprof.profiler.built import MANIFEST, read_manifest
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.located import FileSize, Located
from ftprof.profiler.onnx_files import SUFFIX, find_onnx, onnx_facts

OTHERS = ("*.safetensors", "*.gguf", "adapter_config.json")
"""What makes a directory a model for PyTorch, whatever graphs lie beside it."""


def is_graph(path: Path) -> bool:
    """Whether `path` is an .onnx file, a directory that ftprof built, or one with a graph and no other weights."""
    try:
        if path.is_file():
            return path.suffix.lower() == SUFFIX
        if (path / MANIFEST).is_file():
            return True
        own = any(next(path.glob(pattern), None) for pattern in OTHERS)
        graphs = [next(folder.glob(f"*{SUFFIX}"), None) for folder in (path, path / "onnx")]
        return path.is_dir() and not own and any(graphs)
    except (OSError, ValueError):  # a name that no file system takes; whoever looks for a model says so
        return False


def graph_located(path: Path) -> Located:
    """What is known of a graph before it is opened. FtprofError for one that is broken, or that ftprof cannot run."""
    if path.is_dir() and (path / MANIFEST).is_file():
        return _built(path)
    file = find_onnx(path)
    facts = onnx_facts(file)
    if facts.task is None:
        names = ", ".join(port.name for port in facts.outputs[:4])
        raise FtprofError(
            f"the outputs of {file} ({names}) belong to no task",
            "ftprof runs graphs with logits by text, or with last_hidden_state",
        )
    if facts.tokenizer is None:
        raise FtprofError(
            f"no tokenizer (tokenizer.json, vocab.txt ...) beside {file}",
            "save the tokenizer that the model was trained with into its directory: tokenizer.save_pretrained(DIR)",
        )
    return _located(file.parent, file, facts.task, facts.labels, facts.tokenizer, facts.notes)


def _built(directory: Path) -> Located:
    built = read_manifest(directory)
    notes = (f"built by ftprof for {built.recipe.runtime} in {built.recipe.precision}", *built.notes)
    return _located(directory, directory, built.task, (), str(directory), notes)


def _located(
    directory: Path, graph: Path, task: str, labels: tuple[str, ...], tokenizer: str, notes: tuple[str, ...]
) -> Located:
    return Located(
        model=str(directory),
        graph=str(graph),
        adapter=None,
        tokenizer=tokenizer,
        task=task,  # type: ignore[arg-type]
        labels=labels,
        vocab_rows=None,
        max_context=None,
        name=directory.resolve().name,
        base=None,
        base_directory=None,
        adapter_facts=None,
        files=tuple(FileSize(path.name, path.stat().st_size) for path in sorted(directory.iterdir()) if path.is_file()),
        notes=notes,
    )
