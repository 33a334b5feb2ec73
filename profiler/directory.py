"""What the user gave: an adapter or a whole model, its base, its task, its labels, and what is wrong with it.

Only names, JSON and safetensors headers are read. Pickle files are never opened, and nothing is ever written.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ftprof.profiler.adapter_files import (
    AdapterOnDisk,
    adapter_facts,
    check_fit,
    head_size,
    tokens_end,
    vocabulary_rows,
)
from ftprof.profiler.config_file import ConfigFile, read_config, read_config_if_there
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.model_config import adapter_task, label_names, max_context, model_task, refuse_custom_code
from ftprof.profiler.places import Place, entries, find_base, find_model, no_model
from ftprof.profiler.weights import ADAPTER, TensorInfo, adapter_tensors, pickles, tensors
from ftprof.profiler.workload import Task

CONFIG = "config.json"
ADAPTER_CONFIG = "adapter_config.json"
_VOCABULARIES = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
)


class FileSize(msgspec.Struct, frozen=True):
    """A file directly in the directory that the user gave."""

    name: str
    size_bytes: int


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known of a model before it is loaded.

    `model` is the directory of the full weights (base or merged), `adapter` that of the adapter, `tokenizer` that of
    the tokenizer that belongs to the fine-tune. `name` is for people. `base` is the base as the adapter's config (or a
    merged model's) records it; `base_directory` is where it lies, if it is known. `labels` is empty but for
    classifiers. `vocab_rows` is what the embedding must be resized to before the adapter is attached, None where it
    fits. `remote` is True where weights were fetched from the hub for this run. `notes` are sentences for people.
    """

    model: str
    adapter: str | None
    tokenizer: str
    task: Task
    labels: tuple[str, ...]
    vocab_rows: int | None
    max_context: int | None
    name: str
    base: str | None
    base_directory: str | None
    adapter_facts: AdapterOnDisk | None
    files: tuple[FileSize, ...]
    notes: tuple[str, ...] = ()
    remote: bool = False
    trust_remote_code: bool = False

    @property
    def label_count(self) -> int:
        """How many classes the classifier tells apart; 0 for other tasks."""
        return len(self.labels)

    @property
    def given(self) -> str:
        """The directory of the fine-tune itself: the adapter's if there is one, else the model's."""
        return self.adapter or self.model


class _Options(msgspec.Struct, frozen=True, kw_only=True):
    base: str | None
    adapter: str | None
    trusted: bool
    offline: bool
    known: Mapping[str, Path]


def inspect(
    path: str,
    *,
    base: str | None = None,
    adapter: str | None = None,
    trust_remote_code: bool = False,
    offline: bool = False,
    known_bases: Mapping[str, Path] | None = None,
) -> Located:
    """Finds out what `path` is (a PEFT adapter, a merged model, a base beside `adapter`, a hub id) and checks it.

    `known_bases` maps hub ids to directories that hold them. The hub is asked only for an id that is nowhere on this
    machine, and never with `offline`. Raises FtprofError, with exit code 2 for a path or flags that cannot be meant,
    and 4 for a model that cannot be run.
    """
    options = _Options(base=base, adapter=adapter, trusted=trust_remote_code, offline=offline, known=known_bases or {})
    place = find_model(path, known=options.known, offline=offline)
    names = {entry.name for entry in entries(place.directory)}
    if ADAPTER_CONFIG in names:
        if adapter is not None:
            raise _usage(f"{path} is an adapter itself, and --adapter names another", "give the base, or no --adapter")
        return _adapter(place, path, None, options)
    if CONFIG not in names and "modules.json" not in names:
        raise no_model(place.directory)
    if adapter is None:
        return _whole(place, options)
    if base is not None:
        raise _usage("both MODEL and --base name a base for --adapter", "leave one out")
    tuned = find_model(adapter, known=options.known, offline=offline)
    if not (tuned.directory / ADAPTER_CONFIG).is_file():
        raise _usage(f"{adapter} has no {ADAPTER_CONFIG}", "give --adapter the directory of a PEFT adapter")
    return _adapter(tuned, adapter, place, options)


def _usage(message: str, hint: str) -> FtprofError:
    return FtprofError(message, hint, Exit.USAGE)


def _whole(place: Place, options: _Options) -> Located:
    config = read_config(_network(place.directory) / CONFIG)
    notes = [*_notes(place.directory), refuse_custom_code(config, trusted=options.trusted)]
    task = model_task(config, place.directory)
    weights = tensors(_network(place.directory))
    tokenizer = _tokenizer(place.directory, _network(place.directory))
    base = find_model(options.base, known=options.known, offline=options.offline) if options.base else None
    if base is not None and not (_network(base.directory) / CONFIG).is_file():
        raise _usage(f"--base {options.base} has no {CONFIG}", "give --base the directory of a whole model")
    return Located(
        model=str(_network(place.directory)),
        adapter=None,
        tokenizer=str(tokenizer),
        task=task,
        labels=label_names(config, head_size(weights)) if task == "sequence-classification" else (),
        vocab_rows=None,
        max_context=max_context(config, tokenizer, task),
        name=place.name,
        base=base.name if base else None,
        base_directory=str(_network(base.directory)) if base else None,
        adapter_facts=None,
        files=_files(place.directory),
        notes=tuple(note for note in (*notes, _pooling(place.directory, task)) if note),
        remote=place.fetched,
        trust_remote_code=options.trusted,
    )


def _adapter(place: Place, typed: str, base: Place | None, options: _Options) -> Located:
    settings = read_config(place.directory / ADAPTER_CONFIG)
    base = base or find_base(settings, options.base, typed, options.known, options.offline)
    config = _base_config(base)
    notes = [*_notes(place.directory), refuse_custom_code(config, trusted=options.trusted)]
    saved = adapter_tensors(place.directory)
    head = head_size(saved)
    task = adapter_task(settings, config, base.directory, saved_head=head is not None)
    weights = tensors(_network(base.directory))
    notes += [_check_base(config, saved, weights, typed, base), _kind_note(settings, task, head)]
    tokenizer = _tokenizer(place.directory, base.directory, _network(base.directory))
    return Located(
        model=str(_network(base.directory)),
        adapter=str(place.directory),
        tokenizer=str(tokenizer),
        task=task,
        labels=_labels(place.directory, config, head) if task == "sequence-classification" else (),
        vocab_rows=_vocab_rows(config, saved, weights, tokenizer if tokenizer == place.directory else None),
        max_context=max_context(config, tokenizer, task),
        name=place.name,
        base=settings.text("base_model_name_or_path") or base.name,
        base_directory=str(_network(base.directory)),
        adapter_facts=adapter_facts(settings, saved, (place.directory / ADAPTER).stat().st_size),
        files=_files(place.directory),
        notes=tuple(note for note in (*notes, _pooling(base.directory, task)) if note),
        remote=place.fetched or base.fetched,
        trust_remote_code=options.trusted,
    )


def _base_config(base: Place) -> ConfigFile:
    if (base.directory / ADAPTER_CONFIG).is_file() and not (base.directory / CONFIG).is_file():
        raise _usage(f"the base {base.directory} is an adapter itself", "give --base the directory of a whole model")
    if not (_network(base.directory) / CONFIG).is_file():
        raise no_model(base.directory)
    return read_config(_network(base.directory) / CONFIG)


def _check_base(
    config: ConfigFile, saved: Mapping[str, TensorInfo], weights: Mapping[str, TensorInfo], typed: str, base: Place
) -> str | None:
    if config.table("quantization_config") is not None:
        return "the base is stored quantised, so its shapes were not compared with the adapter's"
    hint = f"{base.directory} is not this adapter's base; name the right one: "
    check_fit(saved, weights, f"{hint}ftprof diagnose {shlex.quote(typed)} --base DIR")
    return None


def _kind_note(settings: ConfigFile, task: Task, head: int | None) -> str | None:
    kind = settings.text("peft_type") or "unknown"
    if kind != "LORA":
        return f"the adapter is of kind {kind}, not LoRA"
    if task == "sequence-classification" and head is None:
        return "the adapter saved no classifier head; the base's own is used, or a random one where it has none"
    return None


def _labels(directory: Path, base: ConfigFile, head: int | None) -> tuple[str, ...]:
    # Training code often saves the model's config, with its label names, beside the adapter.
    own = read_config_if_there(directory / CONFIG)
    return label_names(own if own and own.table("id2label") else base, head)


def _vocab_rows(
    config: ConfigFile, saved: Mapping[str, TensorInfo], weights: Mapping[str, TensorInfo], own_tokenizer: Path | None
) -> int | None:
    here = vocabulary_rows(weights) or config.integer("vocab_size", "n_vocab")
    needed = vocabulary_rows(saved)
    if needed is not None:
        return needed if needed != here else None
    end = tokens_end(own_tokenizer) if own_tokenizer else None
    return end if end is not None and here is not None and end > here else None


def _network(directory: Path) -> Path:
    """Where config.json and the weights lie: sentence-transformers of old put them into a folder of their own."""
    inner = directory / "0_Transformer"
    return inner if (inner / CONFIG).is_file() and not (directory / CONFIG).is_file() else directory


def _tokenizer(*directories: Path) -> Path:
    for directory in directories:
        if any((directory / name).is_file() for name in _VOCABULARIES):
            return directory
    places = " nor ".join(dict.fromkeys(str(directory) for directory in directories))
    raise FtprofError(
        f"no tokenizer (tokenizer.json, tokenizer.model, vocab.txt ...) in {places}",
        "save the tokenizer that the model was trained with into its directory: tokenizer.save_pretrained(DIR)",
    )


def _pooling(directory: Path, task: Task) -> str | None:
    found = read_config_if_there(directory / "1_Pooling" / CONFIG)
    if task != "embedding" or found is None or found.flag("pooling_mode_mean_tokens") is not False:
        return None
    return "the model does not pool by the mean; ftprof measures the same network with mean pooling"


def _files(directory: Path) -> tuple[FileSize, ...]:
    return tuple(FileSize(path.name, path.stat().st_size) for path in entries(directory) if path.is_file())


def _notes(directory: Path) -> list[str | None]:
    names = [path.name for path in entries(directory)]
    found = pickles(names)
    if not found:
        return []
    listed = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    return [f"{listed} ignored: pickle files are never opened"]
