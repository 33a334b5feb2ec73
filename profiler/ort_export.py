"""The child process of a conversion: export, quantise and check one model, away from the caller's output and memory.

Run as `python -m ftprof.profiler.ort_export JOB`; the answer is written beside the job.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from ftprof.profiler.ort_session import first_line, open_session, session_options
from ftprof.profiler.workload import Task

ANSWER = "answer.json"
# Two rows of different length: an axis of size 1 would be taken for a constant.
_SAMPLE = ("support ticket number 3: the parcel arrived broken", "please refund my order")
# Shapes that the export did not see; the first is the smallest there is.
_CHECKED = ((1, 3), (3, 33))
_DISK_FULL = ("No space left", "problem writing element")
# Relative to the largest output. The same sums in another order differ by 1e-6; a wrong mask or a fixed size by 0.1.
_FP32_ERROR = 1e-3


class ExportJob(msgspec.Struct, frozen=True, kw_only=True):
    """What to convert. `quantisation` is None for fp32; `texts` calibrate a static one; `longest` in tokens."""

    directory: str
    output: str
    task: Task
    quantisation: str | None
    per_channel: bool
    reduce_range: bool
    fusions: bool
    texts: tuple[str, ...]
    threads: int
    trust_remote_code: bool


class ExportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended. `error` is None where all went well; `where` names the op or layer at fault."""

    error: str | None = None
    where: str | None = None
    no_space: bool = False
    largest_difference: float | None = None


def main(path: str) -> None:
    """Do the job in the file `path`, and write the answer beside it."""
    threading.Thread(target=_end_with_the_caller, daemon=True).start()
    job = msgspec.json.decode(Path(path).read_bytes(), type=ExportJob)
    try:
        answer = ExportAnswer(largest_difference=_convert(job))
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller tells the user
        traceback.print_exc()
        answer = ExportAnswer(error=_reason(error), where=culprit(error), no_space=_no_space(error))
    Path(path).with_name(ANSWER).write_bytes(msgspec.json.encode(answer))


def _end_with_the_caller() -> None:
    """The caller holds our standard input open; it ends with the caller, however that ends."""
    sys.stdin.buffer.read(1)
    os._exit(1)


def _convert(job: ExportJob) -> float:
    import torch
    from transformers import AutoTokenizer
    from transformers.exporters.configs import OnnxConfig
    from transformers.exporters.exporter_onnx import OnnxExporter

    torch.set_num_threads(job.threads)
    tokenizer = AutoTokenizer.from_pretrained(job.directory, trust_remote_code=job.trust_remote_code)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    model = _model(job, tokenizer)
    longest = min(getattr(model.config, "max_position_embeddings", None) or 512, tokenizer.model_max_length)
    sample = _inputs(tokenizer, model, list(_SAMPLE), longest)
    axes = {0: torch.export.Dim("batch", min=1), 1: torch.export.Dim("sequence", min=2, max=longest)}
    config = OnnxConfig(
        dynamic_shapes=dict.fromkeys(sample, axes),
        ort_fusions="cpu" if job.fusions else None,
        quantizer=_quantizer(job, lambda text: _inputs(tokenizer, model, [text], longest)),
    )
    own = getattr(model.config, "use_cache", None)
    # A classifier built on a decoder would give its whole cache as outputs.
    model.config.use_cache = False
    exported = OnnxExporter().export(model, dict(sample), config=config)
    model.config.use_cache = own
    exported.save_pretrained(job.output)
    return _check(job, model, tuple(sample), longest)


def _model(job: ExportJob, tokenizer: Any) -> Any:
    import torch
    from transformers import AutoModel, AutoModelForSequenceClassification

    family: Any = AutoModelForSequenceClassification if job.task == "sequence-classification" else AutoModel
    options: dict[str, Any] = {"dtype": torch.float32, "use_safetensors": True}
    if job.fusions and job.quantisation is None:
        # Only eager attention has the pattern that becomes one fused operator, which quantisation would leave in fp32.
        options["attn_implementation"] = "eager"
    model = family.from_pretrained(job.directory, trust_remote_code=job.trust_remote_code, **options).eval()
    if getattr(model.config, "pad_token_id", None) is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    return model


def _inputs(tokenizer: Any, model: Any, texts: list[str], longest: int) -> dict[str, Any]:
    """The tokenizer's inputs that the model takes."""
    import inspect

    taken = inspect.signature(model.forward).parameters
    made = tokenizer(
        texts, padding=True, truncation=True, max_length=longest, padding_side="right", return_tensors="pt"
    )
    return {name: tensor for name, tensor in made.items() if name in taken}


def _quantizer(job: ExportJob, encode: Any) -> Any:
    from transformers.exporters.quantizers.quantizer_onnxruntime import (
        OnnxRuntimeDynamicConfig,
        OnnxRuntimeQuantizer,
        OnnxRuntimeStaticConfig,
    )

    options: dict[str, Any] = {"per_channel": job.per_channel, "reduce_range": job.reduce_range}
    if job.quantisation == "dynamic":
        return OnnxRuntimeQuantizer(OnnxRuntimeDynamicConfig(**options))
    if job.quantisation == "static":
        config = OnnxRuntimeStaticConfig(
            **options,
            # Norms, softmax and residual sums in int8 cost accuracy and gain nothing; products of two activations too.
            op_types_to_quantize=["MatMul", "Gemm"],
            # One row with an outlier must not stretch the range for all.
            extra_options={"MatMulConstBOnly": True, "CalibMovingAverage": True},
        )

        class WideInputs(OnnxRuntimeQuantizer):
            def quantize(self, model: Any, sample_inputs: dict[str, Any], export_format: Any) -> Any:
                self.config.nodes_to_exclude = narrowing(model)
                return super().quantize(model, sample_inputs, export_format)

        return WideInputs(config, calibration_dataset=[encode(text) for text in job.texts])
    return None


def narrowing(model: Any) -> list[str]:
    """Names of products that give less than they take: the MLP's second, whose inputs have outliers, and the head.

    With them in int8, MiniLM's vectors had a mean cosine of 0.93 with the original's; in fp32 0.99.
    """
    found = []
    for node in model.graph:
        weight = node.inputs[1].shape if node.op_type in ("MatMul", "Gemm") and len(node.inputs) > 1 else None
        if weight is not None and node.inputs[1].is_initializer() and len(weight) == 2:
            turned = "transB" in node.attributes and node.attributes["transB"].value
            taken, given = (weight[1], weight[0]) if turned else (weight[0], weight[1])
            if taken > given:
                found.append(str(node.name))
    return found


def _check(job: ExportJob, model: Any, names: tuple[str, ...], longest: int) -> float:
    """Run shapes that the export did not see; the largest difference from PyTorch, relative to the largest output.

    ValueError where it is more than rounding: tracing can freeze a size without saying so.
    """
    import numpy as np

    session = open_session(Path(job.output) / "model.onnx", session_options(job.threads), "cpu")
    worst = 0.0
    for rows, length in _CHECKED:
        batch, shape = _random_batch(model, names, rows, min(length, longest)), f"{rows} x {min(length, longest)}"
        expected = model(**batch)[0].detach().numpy()
        found = session.run(None, {port.name: batch[port.name].numpy() for port in session.get_inputs()})[0]
        real = batch["attention_mask"].numpy().astype(bool) if expected.ndim == 3 else slice(None)
        if found.shape != expected.shape or not np.isfinite(found[real]).all():
            raise ValueError(f"the exported graph gives {found.shape} at batch {shape}, PyTorch {expected.shape}")
        error = float(np.abs(found - expected)[real].max() / max(np.abs(expected[real]).max(), 1e-6))
        if job.quantisation is None and error > _FP32_ERROR:
            raise ValueError(f"the exported graph differs from PyTorch by {error:.1%} at batch {shape}")
        worst = max(worst, error)
    return worst


def _random_batch(model: Any, names: tuple[str, ...], rows: int, length: int) -> dict[str, Any]:
    """Random tokens, the first row shorter than the others."""
    import torch

    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(model.config.vocab_size, (rows, length), generator=draw)
    mask = torch.ones_like(ids)
    if rows > 1:
        mask[0, length // 2 :] = 0
        if model.config.pad_token_id is not None:
            ids[0, length // 2 :] = model.config.pad_token_id
    return {"attention_mask": mask} | {
        name: ids if name == "input_ids" else mask if name == "attention_mask" else torch.zeros_like(ids)
        for name in names
    }


def _reason(error: BaseException) -> str:
    """The innermost cause in one line: exporters wrap it in pages of advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {first_line(error)}"


def culprit(error: BaseException) -> str | None:
    """The operator or the layer that an exporter's error is about, None where it does not tell."""
    chain: list[BaseException] = [error]
    while (inner := chain[-1].__cause__ or chain[-1].__context__) is not None and inner not in chain:
        chain.append(inner)
    for link in chain:
        if found := re.search(r"\b(?:aten|prims|torchvision|quantized)(?:\.|::)\w+(?:\.\w+)?", str(link)):
            return found.group()
    for link in reversed(chain):
        if found_layer := _layer(link.__traceback__):
            return found_layer
    return None


def _layer(trace: TracebackType | None) -> str | None:
    """`BertSelfAttention.forward` of the innermost frame that is a module's."""
    found = None
    while trace is not None:
        frame, trace = trace.tb_frame, trace.tb_next
        owner = frame.f_locals.get("self")
        if "modeling_" in frame.f_code.co_filename and owner is not None:
            found = f"{type(owner).__name__}.{frame.f_code.co_name}"
    return found


def _no_space(error: BaseException) -> bool:
    """Whether a write failed. NumPy, which writes the weights, does not say why."""
    inner: BaseException | None = error
    while inner is not None:
        if getattr(inner, "errno", None) == errno.ENOSPC or any(sign in str(inner) for sign in _DISK_FULL):
            return True
        inner = inner.__cause__ or inner.__context__
    return False


if __name__ == "__main__":
    main(sys.argv[1])
