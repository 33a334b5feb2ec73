"""What the fine-tune changed against its base, from files alone: settings, weights, adapter."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ftprof.profiler.adapter_files import AdapterOnDisk
from ftprof.profiler.config_file import ConfigFile, read_config_if_there
from ftprof.profiler.located import Located
from ftprof.profiler.weights import TensorInfo, bytes_by_dtype, parameters, tensors, total_bytes

_Setting = tuple[str, tuple[str, ...], object]

_MODEL: tuple[_Setting, ...] = (
    ("architecture", ("architectures",), None),
    ("layers", ("num_hidden_layers", "n_layer", "num_layers", "n_layers"), None),
    ("hidden size", ("hidden_size", "n_embd", "d_model", "dim"), None),
    ("intermediate size", ("intermediate_size", "n_inner", "hidden_dim", "d_ff", "ffn_dim"), None),
    ("attention heads", ("num_attention_heads", "n_head", "n_heads", "num_heads"), None),
    ("key-value heads", ("num_key_value_heads",), None),
    ("head size", ("head_dim",), None),
    ("vocabulary", ("vocab_size",), None),
    ("most positions", ("max_position_embeddings", "n_positions", "max_seq_len"), None),
    ("sliding window", ("sliding_window",), None),
    ("sliding window in use", ("use_sliding_window",), None),
    ("attention implementation", ("_attn_implementation", "attn_implementation"), None),
    ("use_cache in config.json", ("use_cache",), True),
    ("tied embeddings", ("tie_word_embeddings",), None),
    ("activation", ("hidden_act", "activation_function", "activation"), None),
    ("pad token", ("pad_token_id",), None),
    ("end-of-sequence token", ("eos_token_id",), None),
    ("dtype in config.json", ("dtype", "torch_dtype"), None),
    ("quantisation", ("quantization_config",), None),
)
"""What moves time, memory or output: words for people, the key in any family's spelling, transformers' default."""
_GENERATION: tuple[_Setting, ...] = (
    ("use_cache in generation_config.json", ("use_cache",), True),
    ("cache implementation", ("cache_implementation",), None),
    ("beams", ("num_beams",), 1),
    ("sampling", ("do_sample",), False),
    ("most new tokens", ("max_new_tokens",), None),
    ("longest output", ("max_length",), 20),
    ("repetition penalty", ("repetition_penalty",), 1.0),
    ("pad token in generation", ("pad_token_id",), None),
    ("end of sequence in generation", ("eos_token_id",), None),
)
_UNSET = "not set"
_CLASS_DEFAULT = frozenset({"key-value heads", "head size", "tied embeddings", "sliding window in use", "activation"})
"""Where absence means what the model's class does, so that only two explicit values can differ."""


class FileDifference(msgspec.Struct, frozen=True):
    """One thing that differs: what, as the base has it, as the fine-tune has it; all in words."""

    what: str
    base: str
    tuned: str


def differences(located: Located, base_directory: Path | None = None) -> tuple[FileDifference, ...]:
    """What the fine-tune changed, in the order settings, generation, weights, adapter.

    `base_directory` defaults to the one that `located` knows; without any, a merged model gives an empty tuple. Raises
    FtprofError where a file of either side is broken.
    """
    known = located.base_directory
    base = base_directory or (Path(known) if known else None)
    if base is None:
        return ()
    if located.adapter_facts is not None:
        return tuple(_adapter(located, located.adapter_facts, tensors(base)))
    tuned = Path(located.model)
    return (*_settings(base, tuned), *_weights(tensors(base), tensors(tuned)))


def _settings(base: Path, tuned: Path) -> Iterator[FileDifference]:
    pair = [_config(directory / "config.json") for directory in (base, tuned)]
    yield from _changed(_MODEL, *pair)
    yield from _differ("rotary base", *(_text(_rope(config)[0]) for config in pair))
    yield from _differ("rotary scaling", *(_text(_rope(config)[1]) for config in pair))
    yield from _changed(_GENERATION, *(_config(directory / "generation_config.json") for directory in (base, tuned)))


def _config(path: Path) -> ConfigFile:
    return read_config_if_there(path) or ConfigFile(str(path), {})


def _changed(settings: tuple[_Setting, ...], base: ConfigFile, tuned: ConfigFile) -> Iterator[FileDifference]:
    for what, keys, default in settings:
        texts = [_text(_value(config, keys, default)) for config in (base, tuned)]
        if what not in _CLASS_DEFAULT or _UNSET not in texts:
            yield from _differ(what, *texts)


def _value(config: ConfigFile, keys: tuple[str, ...], default: object) -> object:
    return next((config.values[key] for key in keys if config.values.get(key) is not None), default)


def _rope(config: ConfigFile) -> tuple[object, object]:
    """Base frequency and scaling; transformers 5 stores them in one table, 4 in two keys."""
    table = config.table("rope_parameters") or config.table("rope_scaling")
    scaling = dict(table.values) if table else {}
    theta = scaling.pop("rope_theta", None) or config.number("rope_theta")
    plain = scaling.get("rope_type", scaling.get("type")) in (None, "default")
    return theta, None if plain else scaling


def _text(value: object) -> str:
    if value is None:
        return _UNSET
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 10000.0 and 10000 are the same setting
    if isinstance(value, list) and value and all(isinstance(item, str | int) for item in value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _differ(what: str, base: str, tuned: str) -> Iterator[FileDifference]:
    if base != tuned:
        yield FileDifference(what, base, tuned)


def _weights(base: Mapping[str, TensorInfo], tuned: Mapping[str, TensorInfo]) -> Iterator[FileDifference]:
    pair = (base.values(), tuned.values())
    yield from _differ("parameters", *(f"{parameters(side):,}" for side in pair))
    yield from _differ("weights on disk", *(_size(total_bytes(side)) for side in pair))
    yield from _differ("dtypes of the weights", *(_dtypes(side) for side in (base, tuned)))


def _dtypes(side: Mapping[str, TensorInfo]) -> str:
    return ", ".join(f"{dtype} {_size(size)}" for dtype, size in bytes_by_dtype(side.values()).items())


def _size(count: int) -> str:
    """Decimal units, as disks and downloads are labelled."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} bytes"


def _adapter(located: Located, facts: AdapterOnDisk, base: Mapping[str, TensorInfo]) -> Iterator[FileDifference]:
    weights = total_bytes(base.values())
    share = f" ({facts.file_bytes / weights:.1%})" if weights else ""
    yield FileDifference("weights on disk", _size(weights), f"{_size(facts.file_bytes)} of adapter on top{share}")
    yield FileDifference("parameters", f"{parameters(base.values()):,}", f"{facts.parameters:,} in the adapter")
    yield from _differ("dtype", next(iter(bytes_by_dtype(base.values())), "unknown"), facts.dtype)
    yield FileDifference("adapter", "none", _adapter_words(facts))
    if facts.targets:
        places = f" in {facts.modules} places" if facts.modules else ""
        yield FileDifference("adapted modules", "none", f"{', '.join(facts.targets)}{places}")
    if facts.modules_to_save:
        yield FileDifference("modules replaced whole", "none", ", ".join(facts.modules_to_save))
    if located.vocab_rows is not None:
        yield FileDifference("vocabulary", "as trained", f"{located.vocab_rows:,} rows")
    if facts.dropout > 0 and facts.inference_mode is False:
        yield FileDifference("adapter dropout", "none", f"{facts.dropout:g}, and the adapter is marked as in training")


def _adapter_words(facts: AdapterOnDisk) -> str:
    rank = f", rank {facts.rank}" if facts.rank is not None else ""
    alpha = f", alpha {facts.alpha:g}" if facts.alpha is not None else ""
    return f"{facts.kind}{rank}{alpha}" + "".join(f", {name}" for name in facts.scaling)
