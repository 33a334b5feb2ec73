"""Build an engine from a workload, timing each part of the load."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ftprof.profiler.config_file import read_config_if_there
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.gguf_files import pretrained
from ftprof.profiler.gguf_load import plain_copy
from ftprof.profiler.model_facts import adapter_marks, is_adapter_weight
from ftprof.profiler.prompt_learning import hand_on_cache
from ftprof.profiler.quantised import quantised, refuse_device
from ftprof.profiler.seq2seq_engine import Seq2SeqEngine
from ftprof.profiler.torch_engine import TorchEngine
from ftprof.profiler.workload import Call, Workload


class LoadTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of building the base from its files and of attaching the adapter."""

    build_s: float
    adapter_s: float


def _model_class(task: str) -> Any:
    from transformers import (
        AutoModel,
        AutoModelForCausalLM,
        AutoModelForSeq2SeqLM,
        AutoModelForSequenceClassification,
    )

    return {
        "causal-lm": AutoModelForCausalLM,
        "seq2seq-lm": AutoModelForSeq2SeqLM,
        "sequence-classification": AutoModelForSequenceClassification,
        "embedding": AutoModel,
    }[task]


def _options(workload: Workload, call: Call) -> dict[str, Any]:
    options: dict[str, Any] = {"dtype": call.dtype, "use_safetensors": True}
    options["trust_remote_code"] = workload.trust_remote_code
    if call.attention != "auto":
        options["attn_implementation"] = call.attention
    if workload.task == "sequence-classification" and workload.labels:
        options["num_labels"] = len(workload.labels)
        options["id2label"] = dict(enumerate(workload.labels))
        options["label2id"] = {name: number for number, name in enumerate(workload.labels)}
    return options


def _attach(model: Any, workload: Workload, call: Call) -> Any:
    from peft import PeftModel

    if workload.vocab_rows and workload.vocab_rows > model.get_input_embeddings().weight.shape[0]:
        model.resize_token_embeddings(workload.vocab_rows, mean_resizing=False)
    tuned: Any = PeftModel.from_pretrained(
        model, str(workload.adapter), autocast_adapter_dtype=call.adapter_autocast, is_trainable=False
    )
    if not call.adapter_autocast:
        # PEFT then leaves the file's dtype, which need not be the base's.
        marks = adapter_marks(tuned)
        for name, parameter in tuned.named_parameters():
            if is_adapter_weight(name, marks):
                parameter.data = parameter.data.to(model.dtype)
    hand_on_cache(tuned)
    return tuned


def _tokenizer(workload: Workload) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(
            workload.tokenizer or workload.model, trust_remote_code=workload.trust_remote_code
        )
    except (OSError, ValueError, KeyError) as error:
        raise FtprofError(
            f"no usable tokenizer in {workload.tokenizer or workload.model}: {_first_line(error)}",
            "put the tokenizer's files beside the model (tokenizer.json, tokenizer_config.json)",
        ) from error


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:200]


def load_engine(workload: Workload, call: Call) -> tuple[TorchEngine, LoadTimes]:
    """The workload's engine under `call`, in evaluation mode. FtprofError where its files do not make a model."""
    import torch

    torch.manual_seed(workload.seed)
    if call.threads:
        torch.set_num_threads(call.threads)
    workload, unpack_s = _plain(workload)
    _refuse_device(workload)
    tokenizer = _tokenizer(workload)
    begin = time.perf_counter() - unpack_s
    model = _guarded(
        lambda: _model_class(workload.task).from_pretrained(workload.model, **_options(workload, call)), workload.model
    )
    model = model.to(workload.device).eval()
    if workload.task == "sequence-classification":
        _give_padding(model, tokenizer)
    built = time.perf_counter()
    if workload.adapter:
        model = _guarded(lambda: _attach(model, workload, call), workload.adapter).to(workload.device).eval()
    times = LoadTimes(build_s=built - begin, adapter_s=time.perf_counter() - built if workload.adapter else 0.0)
    kind = Seq2SeqEngine if workload.task == "seq2seq-lm" else TorchEngine
    return kind(model, tokenizer, call, workload.task, workload.adapter), times


def _plain(workload: Workload) -> tuple[Workload, float]:
    """The workload with a GGUF file replaced by its unpacked copy beside the rows, and the seconds that unpacking took."""
    if pretrained(workload.model)[1] is None:
        return workload, 0.0
    gguf, scratch = Path(workload.model), Path(workload.rows).parent
    copy, seconds = _guarded(lambda: plain_copy(gguf, scratch), workload.model)
    tokenizer = str(copy) if workload.tokenizer in (None, workload.model) else workload.tokenizer
    return msgspec.structs.replace(workload, model=str(copy), tokenizer=tokenizer), seconds


def _refuse_device(workload: Workload) -> None:
    config = read_config_if_there(Path(workload.model) / "config.json")
    held = quantised(config) if config else None
    if held is not None:
        refuse_device(held, workload.model, workload.device)


def _give_padding(model: Any, tokenizer: Any) -> None:
    """A classifier on a decoder finds the last real token by the padding id, and needs one for batches."""
    if tokenizer.pad_token_id is None and tokenizer.eos_token is not None:
        tokenizer.pad_token = tokenizer.eos_token
    if getattr(model.config, "pad_token_id", None) is None:
        model.config.pad_token_id = tokenizer.pad_token_id


def _guarded(build: Callable[[], Any], path: str) -> Any:
    try:
        return build()
    except FtprofError:
        raise
    except MemoryError as error:
        raise FtprofError(f"not enough memory to load {path}", "free memory, or load it with dtype bfloat16") from error
    except (OSError, ValueError, RuntimeError, KeyError, ImportError, AttributeError, TypeError) as error:
        raise FtprofError(
            f"transformers could not load {path}: {_first_line(error)}",
            "check that the directory is complete and fits the installed transformers and peft (ftprof --debug "
            "shows the traceback)",
            Exit.UNUSABLE,
        ) from error
