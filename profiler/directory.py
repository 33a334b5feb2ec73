"""What the user gave: an adapter or a whole model, its base, its task, its labels, and what is wrong with it.

Only names, JSON and safetensors headers are read. Pickle files are never opened, and nothing is ever written.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from ftprof.profiler import adapter_choice, adapter_kinds
from ftprof.profiler.adapter_choice import ADAPTER_CONFIG, adapters_in, pick
from ftprof.profiler.adapter_files import (
    AdapterOnDisk,
    adapter_facts,
    check_fit,
    check_width,
    head_size,
    tokens_end,
    vocabulary_rows,
)
from ftprof.profiler.base_files import CONFIG, BaseFiles, base_files, network
from ftprof.profiler.config_file import ConfigFile, read_config, read_config_if_there
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.generation_settings import beams_note, read_settings
from ftprof.profiler.graph_located import graph_located, is_graph
from ftprof.profiler.located import FileSize, Located
from ftprof.profiler.model_config import adapter_task, label_names, max_context, model_task
from ftprof.profiler.places import Place, entries, find_base, find_model, no_model, with_gguf
from ftprof.profiler.prompt_learning import stack_note
from ftprof.profiler.quantised import plain_name, refuse_missing
from ftprof.profiler.weights import ADAPTER, TensorInfo, adapter_tensors, pickles
from ftprof.profiler.workload import Task, generates

_VOCABULARIES = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
)


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
    """Finds out what `path` is (a PEFT adapter or several, a merged model, a graph, a GGUF file, a base beside
    `adapter`, a hub id) and checks it.

    `adapter` is a directory, or the name of one of the adapters that `path` holds. `known_bases` maps hub ids to
    directories that hold them. The hub is asked only for an id that is nowhere on this machine, and never with
    `offline`. Raises FtprofError, with exit code 2 for a path or flags that cannot be meant, and 4 for a model that
    cannot be run.
    """
    options = _Options(base=base, adapter=adapter, trusted=trust_remote_code, offline=offline, known=known_bases or {})
    if is_graph(Path(path).expanduser()):
        if base is not None or adapter is not None:
            raise _usage(f"{path} is a graph, which has no adapter", "leave out --base and --adapter")
        return graph_located(Path(path).expanduser())
    place = find_model(path, known=options.known, offline=offline)
    names = set() if place.gguf else {entry.name for entry in entries(place.directory)}
    held = {} if place.gguf else adapters_in(place.directory)
    if ADAPTER_CONFIG in names or (held and CONFIG not in names) or (adapter in held and not _is_adapter(adapter)):
        if adapter is not None and adapter not in held and _is_adapter(adapter):
            raise _usage(f"{path} is an adapter itself, and --adapter names another", "give the base, or no --adapter")
        return _chosen(place, path, held, adapter, options, names)
    if not names & {CONFIG, "modules.json"} and with_gguf(place).gguf is None:
        raise no_model(place.directory)
    if adapter is None:
        return _whole(place, options, held)
    if base is not None:
        raise _usage("both MODEL and --base name a base for --adapter", "leave one out")
    tuned = find_model(adapter, known=options.known, offline=offline)
    if not (inner := adapters_in(tuned.directory)):
        raise _usage(f"{adapter} has no {ADAPTER_CONFIG}", "give --adapter the directory of a PEFT adapter")
    chosen = pick(inner, tuned.directory, adapter, None, option=shlex.quote(path))
    return _adapter(_renamed(tuned, chosen), adapter, place, options)


def _is_adapter(text: str | None) -> bool:
    return text is not None and (Path(text).expanduser() / ADAPTER_CONFIG).is_file()


def _chosen(
    place: Place, typed: str, held: Mapping[str, Path], name: str | None, options: _Options, names: set[str]
) -> Located:
    """One of the adapters that the directory holds; the directory is their base too where it holds a whole model."""
    chosen = pick(held, place.directory, typed, name)
    alone = ADAPTER_CONFIG in names or CONFIG not in names
    tuned = _renamed(place, chosen)
    return _adapter(tuned, typed if chosen == place.directory else str(chosen), None if alone else place, options)


def _renamed(place: Place, chosen: Path) -> Place:
    if chosen == place.directory:
        return place
    return msgspec.structs.replace(place, directory=chosen, name=f"{place.name}/{chosen.name}")


def _usage(message: str, hint: str) -> FtprofError:
    return FtprofError(message, hint, Exit.USAGE)


def _whole(place: Place, options: _Options, held: Mapping[str, Path]) -> Located:
    files = base_files(place, trusted=options.trusted)
    _refuse_unloadable(files, "give the 16-bit model that it was made from")
    tokenizer = _tokenizer(files, place.directory)
    task = model_task(files.config, place.directory)
    base = find_model(options.base, known=options.known, offline=options.offline) if options.base else None
    if base is not None and not (network(base.directory) / CONFIG).is_file():
        raise _usage(f"--base {options.base} has no {CONFIG}", "give --base the directory of a whole model")
    inside = f"it holds {adapter_choice.listed(held)} too; name one with --adapter to diagnose it" if held else None
    notes = (
        *_notes(place.directory),
        *files.notes,
        inside,
        _beams(network(place.directory), task),
        _pooling(place.directory, task),
    )
    return Located(
        model=files.model,
        adapter=None,
        tokenizer=tokenizer,
        task=task,
        labels=label_names(files.config, head_size(files.tensors)) if task == "sequence-classification" else (),
        vocab_rows=None,
        max_context=max_context(files.config, Path(tokenizer), task),
        name=place.name,
        base=base.name if base else None,
        base_directory=str(network(base.directory)) if base else None,
        adapter_facts=None,
        files=_files(place),
        notes=tuple(note for note in notes if note),
        remote=place.fetched,
        trust_remote_code=options.trusted,
        quantised=files.quantised,
        gguf=files.gguf,
    )


def _refuse_unloadable(files: BaseFiles, way_out: str) -> None:
    if files.quantised is not None:
        refuse_missing(files.quantised, files.model, way_out)


def _adapter(place: Place, typed: str, base: Place | None, options: _Options) -> Located:
    settings = read_config(place.directory / ADAPTER_CONFIG)
    adapter_kinds.refuse_unknown(settings)
    base = base or find_base(settings, options.base, typed, options.known, options.offline)
    files = _base_of_adapter(base, options)
    saved = adapter_tensors(place.directory)
    head = head_size(saved)
    task = adapter_task(settings, files.config, base.directory, saved_head=head is not None)
    command = f"ftprof diagnose {shlex.quote(typed)} --base DIR"
    _refuse_unloadable(files, f"give the 16-bit base: {command}")
    _check_base(settings, saved, files, f"{base.directory} is not this adapter's base; name the right one: {command}")
    tokenizer = _tokenizer(files, place.directory, base.directory)
    facts = adapter_facts(settings, saved, (place.directory / ADAPTER).stat().st_size)
    own = Path(tokenizer) if tokenizer == str(place.directory) else None
    siblings = adapter_choice.beside(place.directory, settings)
    limit = max_context(files.config, Path(tokenizer), task)
    notes = (
        *_notes(place.directory),
        *files.notes,
        *_kind_notes(settings, facts, task, head),
        _trained_note(settings, files),
        None if adapter_kinds.unmergeable(settings) else adapter_choice.note(siblings),
        _beams(network(base.directory), task),
        _pooling(base.directory, task),
    )
    return Located(
        model=files.model,
        adapter=str(place.directory),
        tokenizer=tokenizer,
        task=task,
        labels=_labels(place.directory, files.config, head) if task == "sequence-classification" else (),
        vocab_rows=_vocab_rows(files.config, saved, files.tensors, own),
        max_context=limit - (facts.virtual_tokens or 0) if limit is not None else None,
        name=place.name,
        base=settings.text("base_model_name_or_path") or base.name,
        base_directory=files.model,
        adapter_facts=facts,
        files=_files(place),
        notes=tuple(note for note in notes if note),
        remote=place.fetched or base.fetched,
        trust_remote_code=options.trusted,
        quantised=files.quantised,
        gguf=files.gguf,
        siblings=siblings,
    )


def _base_of_adapter(base: Place, options: _Options) -> BaseFiles:
    has_config = (network(base.directory) / CONFIG).is_file()
    if base.gguf is None and (base.directory / ADAPTER_CONFIG).is_file() and not has_config:
        raise _usage(f"the base {base.directory} is an adapter itself", "give --base the directory of a whole model")
    if not has_config and with_gguf(base).gguf is None:
        raise no_model(base.directory)
    return base_files(base, trusted=options.trusted)


def _check_base(settings: ConfigFile, saved: Mapping[str, TensorInfo], files: BaseFiles, hint: str) -> None:
    if files.quantised is not None or files.gguf is not None:
        return
    kind = settings.text("peft_type") or ""
    if adapter_kinds.place(kind) == "prompt":
        check_width(saved, files.tensors, hint)
    # Layers that the adapter repeats, and parameters of fused experts, go by names that the base's files do not have.
    if not settings.values.get("layer_replication") and not settings.values.get("target_parameters"):
        check_fit(kind, saved, files.tensors, hint)


def _kind_notes(settings: ConfigFile, facts: AdapterOnDisk, task: Task, head: int | None) -> list[str | None]:
    kind = adapter_kinds.described(settings)
    plain = facts.kind == "LORA" and not facts.scaling
    tokens = f", {facts.virtual_tokens} virtual tokens before every request" if facts.virtual_tokens else ""
    found = [None if plain else f"the adapter is {kind}{tokens}"]
    if facts.virtual_tokens:
        found.append(stack_note())
    if facts.kind == "LORA" and task == "sequence-classification" and head is None:
        found.append("the adapter saved no classifier head; the base's own is used, or a random one where it has none")
    return found


def _trained_note(settings: ConfigFile, files: BaseFiles) -> str | None:
    """Where the adapter was trained on quantised weights and is measured on plain ones."""
    recorded = settings.text("base_model_name_or_path")
    if files.quantised is not None or recorded is None or plain_name(recorded) is None:
        return None
    return (
        f"the adapter was trained on the quantised base {recorded}, and is measured on the plain one that was given: "
        "before and after are compared with the model as it is loaded here, not with the quantised one"
    )


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


def _tokenizer(files: BaseFiles, *directories: Path) -> str:
    """Where the tokenizer lies: the first directory that has one, else the GGUF file, which holds one itself."""
    places = list(dict.fromkeys((*directories, network(directories[-1]))))
    for directory in places:
        if any((directory / name).is_file() for name in _VOCABULARIES):
            return str(directory)
    if files.gguf is not None:
        return files.gguf.path
    raise FtprofError(
        f"no tokenizer (tokenizer.json, tokenizer.model, vocab.txt ...) in {' nor '.join(map(str, places))}",
        "save the tokenizer that the model was trained with into its directory: tokenizer.save_pretrained(DIR)",
    )


def _pooling(directory: Path, task: Task) -> str | None:
    found = read_config_if_there(directory / "1_Pooling" / CONFIG)
    if task != "embedding" or found is None or found.flag("pooling_mode_mean_tokens") is not False:
        return None
    return "the model does not pool by the mean; ftprof measures the same network with mean pooling"


def _files(place: Place) -> tuple[FileSize, ...]:
    found = (place.gguf,) if place.gguf else entries(place.directory)
    return tuple(FileSize(path.name, path.stat().st_size) for path in found if path.is_file())


def _beams(directory: Path, task: Task) -> str | None:
    """Settings that cannot be read are left to the model's own load, which says what is wrong with them."""
    with suppress(FtprofError):
        return beams_note(read_settings(directory)) if generates(task) else None
    return None


def _notes(directory: Path) -> list[str | None]:
    names = [path.name for path in entries(directory)]
    found = pickles(names)
    if not found:
        return []
    listed = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    return [f"{listed} ignored: pickle files are never opened"]
