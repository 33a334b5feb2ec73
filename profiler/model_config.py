"""What a model's config.json says that decides how it is run: task, labels, context, custom code."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from ftprof.profiler.config_file import ConfigFile, read_config_if_there
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.workload import Task, generates

_ENDINGS: tuple[tuple[str, Task], ...] = (
    ("ForCausalLM", "causal-lm"),
    ("LMHeadModel", "causal-lm"),
    ("ForSequenceClassification", "sequence-classification"),
    ("ForMaskedLM", "embedding"),
    ("ForPreTraining", "embedding"),
    ("Model", "embedding"),
)
"""Endings of transformers' class names. LMHeadModel before Model, which it ends with as well."""
_WRITES_APART = ("ForConditionalGeneration", "MTModel")
"""Endings of models that read with an encoder and write with a decoder; only Marian's has the second."""
_PEFT_TASKS: dict[str, Task] = {
    "CAUSAL_LM": "causal-lm",
    "SEQ_2_SEQ_LM": "seq2seq-lm",
    "SEQ_CLS": "sequence-classification",
    "FEATURE_EXTRACTION": "embedding",
}
# Settings that only models of pictures, sound or video have (a kernel or patch size alone would also hit Mamba and BLT).
_OTHER_INPUTS = (
    "vision_config",
    "audio_config",
    "image_size",
    "num_channels",
    "num_mel_bins",
    "input_feat_per_channel",
    "audio_encoder",
    "feat_extract_norm",
    "num_feat_extract_layers",
)
_SUPPORTED = "ftprof takes causal and sequence-to-sequence language models, sequence classifiers and text encoders"
_PLACEHOLDER = re.compile(r"LABEL_\d+")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length", "n_ctx")
# These number positions from pad_token_id + 1, so that many rows of the table are never used.
_OFFSET_POSITIONS = frozenset(
    {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "longformer", "data2vec-text", "ibert", "esm"}
)
_UNLIMITED = 10**9
"""Tokenizers without a limit store a huge number (1e30 as a rule) as model_max_length."""


def model_task(config: ConfigFile, directory: Path) -> Task:
    """What a full model is for. Raises FtprofError for what ftprof cannot run, naming the architecture."""
    names = config.strings("architectures")
    refuse_unsupported(config)
    if (directory / "modules.json").is_file():  # sentence-transformers, whatever the network is
        return "embedding"
    if _two_halves(config):
        return "seq2seq-lm"
    if not names:
        raise FtprofError(
            f"{config.path} names no architecture, so the task is unknown",
            'add "architectures", for example ["LlamaForCausalLM"], or save the model again',
        )
    task = next((task for ending, task in _ENDINGS if names[0].endswith(ending)), None)
    if names[0].endswith("EncoderModel"):  # half of such a model; AutoModel would build the other half anew
        task = None
    if task is None:
        raise FtprofError(f"{names[0]} is not supported ({config.path})", _SUPPORTED)
    return task


def adapter_task(settings: ConfigFile, base: ConfigFile, base_directory: Path, *, saved_head: bool) -> Task:
    """What an adapter is for: as its config says, else a classifier where it holds a head, else as its base."""
    refuse_unsupported(base)
    named, apart = settings.text("task_type"), _two_halves(base)
    if named is None:
        return "sequence-classification" if saved_head and not apart else model_task(base, base_directory)
    if named not in _PEFT_TASKS:
        raise FtprofError(f"{settings.path}: task_type {named} is not supported", _SUPPORTED)
    if apart != (_PEFT_TASKS[named] == "seq2seq-lm"):
        kind = "a sequence-to-sequence model" if apart else "no sequence-to-sequence model"
        raise FtprofError(
            f"{settings.path}: task_type {named}, but its base is {kind} ({base.path})",
            "give the base that it was trained on with --base DIR, or correct task_type",
        )
    return _PEFT_TASKS[named]


def _two_halves(config: ConfigFile) -> bool:
    """Whether an encoder reads and a decoder writes, and ftprof can call them."""
    names = config.strings("architectures")
    return bool(config.flag("is_encoder_decoder")) and (not names or names[0].endswith(_WRITES_APART))


def refuse_unsupported(config: ConfigFile) -> None:
    """Raises FtprofError for models of pictures, sound or video, and for heads on an encoder and a decoder other than the
    one that writes text."""
    name = next(iter(config.strings("architectures")), config.text("model_type") or "this model")
    sign = next((key for key in _OTHER_INPUTS if config.values.get(key) is not None), None)
    if sign is not None:
        raise FtprofError(f"{name} is a vision or audio model ({config.path} has {sign})", _SUPPORTED)
    if config.flag("is_encoder_decoder") and not _two_halves(config) and not name.endswith("ForCausalLM"):
        # Their inputs are others (a start of the answer, an end token in every row), so what was timed would not be a call.
        raise FtprofError(
            f"{name} ({config.path}) has an encoder and a decoder, and does not generate text",
            f"{_SUPPORTED}; of models with both halves those that generate (...ForConditionalGeneration)",
        )


def refuse_custom_code(config: ConfigFile, *, trusted: bool) -> str | None:
    """A note where the directory's own code is not needed; FtprofError where it is and the user does not trust it.

    Many directories of well-known families still carry `auto_map`; `from_pretrained` then runs the library's own code,
    so these are not refused.
    """
    if config.table("auto_map") is None:
        return None
    if trusted:
        return f"the directory's own code runs (auto_map in {config.path})"
    if _in_transformers(config.text("model_type")):
        return f"auto_map in {config.path} is ignored: transformers has the code of {config.text('model_type')} itself"
    raise FtprofError(
        f"{config.path} asks to run Python code that came with the model (auto_map)",
        "read that code, then add --trust-remote-code",
    )


def _in_transformers(model_type: str | None) -> bool:
    # Looks for the folder: importing the list of model types would load torch, which takes seconds.
    found = importlib.util.find_spec("transformers")
    if found is None or found.origin is None or not re.fullmatch(r"[\w-]+", model_type or ""):
        return False
    return (Path(found.origin).parent / "models" / str(model_type).replace("-", "_")).is_dir()


def label_names(config: ConfigFile, count: int | None) -> tuple[str, ...]:
    """One name a label, in the order of their numbers; "LABEL_i" where the config has no real ones.

    `count` is what the weights say, None if they say nothing; names for another count belong to another head.
    """
    named = _id2label(config)
    count = count or len(named) or config.integer("num_labels") or 2  # 2 is transformers' default
    if len(named) == count and not all(_PLACEHOLDER.fullmatch(name) for name in named):
        return named
    return tuple(f"LABEL_{number}" for number in range(count))


def _id2label(config: ConfigFile) -> tuple[str, ...]:
    found = config.table("id2label")
    if found is None or set(found.values) != {str(number) for number in range(len(found.values))}:
        return ()
    return tuple(str(found.values[str(number)]) for number in range(len(found.values)))


def max_context(config: ConfigFile, tokenizer: Path, task: Task) -> int | None:
    """The most tokens that one input may have; None where nothing says.

    For encoders the tokenizer's own limit counts too, because inputs are cut there; for causal models it is often a
    left-over that `generate` does not know.
    """
    limits = [config.integer(*_CONTEXT)]
    if limits[0] is not None and config.text("model_type") in _OFFSET_POSITIONS:
        padding = config.integer("pad_token_id")
        limits = [limits[0] - (1 if padding is None else padding) - 1]
    if not generates(task):
        limits += [_limit(tokenizer / "tokenizer_config.json", "model_max_length")]
        limits += [_limit(Path(config.path).parent / "sentence_bert_config.json", "max_seq_length")]
    return min((limit for limit in limits if limit is not None and 0 < limit < _UNLIMITED), default=None)


def _limit(path: Path, name: str) -> int | None:
    found = read_config_if_there(path)
    return found.integer(name) if found else None
