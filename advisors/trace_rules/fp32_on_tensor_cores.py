"""fp32 products run on the ordinary units while the tensor cores stand by.

## What it detects
Products, convolutions and attention in fp32 that take 3 % of the step or more on kernels which use no tensor core, on
a device that has them. Matrix-vector kernels are left out: they are bound by memory on any unit.

## Why it is slow
An H100 multiplies fp32 at about 60 TFLOP/s on its ordinary units, at several hundred in TF32 on its tensor cores and
at twice that in bf16, and 16-bit operands take half the bytes. PyTorch leaves TF32 off for matrix products unless asked.

## Fix
Load the model in bf16 (`torch_dtype=torch.bfloat16`), or keep fp32 storage and allow TF32:
`torch.set_float32_matmul_precision("high")` on Ampere and newer. Volta and Turing have fp16 tensor cores only.

## When it backfires
- TF32 keeps 10 bits of mantissa: outputs change in the fourth digit; check quality before and after.
- fp16 overflows where bf16 does not; fine-tunes made in bf16 should stay there.
- Small products are bound by memory or launches and gain nothing.

## Sources
- PyTorch, CUDA semantics: TensorFloat-32 (docs.pytorch.org/docs/stable/notes/cuda.html).
- NVIDIA H100 datasheet (dense rates by type).
"""

from __future__ import annotations

import re

from ftprof.advisors.trace_evidence import percent, places, share_of_window, span
from ftprof.advisors.trace_rule import TraceFinding, TraceRule
from ftprof.profiler.traces.model import FileAnalysis
from ftprof.profiler.traces.tables import Place

FIRES = 0.03
_KINDS = frozenset({"gemm", "convolution", "attention"})
# Layout changes and reductions of split products multiply nothing.
_NO_PRODUCT = re.compile(
    r"gemv|gemmk1|dot_kernel|splitK_?reduce|reduce_1Block|nchwToNhwc|nhwcToNchw|computeOffsets|im2col|col2im"
)
_FP32 = re.compile(r"sgemm|ffma|scudnn|f32f32_f32f32|_engine<float|_kernel<float|engine\w*<float|Cijk_\w*_SB_")
_WITHOUT = re.compile(r"GTX|\b(?:P100|P40|P4|P6000|M60|M40|K80|K40)\b|TITAN X")
_HALF_ONLY = re.compile(r"V100|TITAN V|\bT4\b|RTX 20|RTX [4568]000$|TITAN RTX|GTX 16")


def detect(file: FileAnalysis) -> TraceFinding | None:
    if file.device is None:
        return None
    name = next((device.name for device in file.devices if device.analysed), None)
    share = share_of_window(file, sum(place.total_s for place in file.device.places if _is_fp32(place)))
    if share < FIRES or (name and _WITHOUT.search(name)):
        return None
    half_only = name is not None and _HALF_ONLY.search(name) is not None
    tf32 = "" if half_only else ', or allow TF32: torch.set_float32_matmul_precision("high")'
    kind = "fp16 (its tensor cores know no other type)" if half_only else "bf16"
    return TraceFinding(
        rule="fp32-on-tensor-cores",
        severity=share,
        summary=f"products in fp32 off the tensor cores take {percent(share)} of {span(file)} on {name or 'this device'}",
        evidence=places(file, _is_fp32),
        advice=f"load the model in {kind}{tf32}; check the outputs before and after",
    )


def _is_fp32(place: Place) -> bool:
    if place.kind not in _KINDS or place.tensor_core != "no" or _NO_PRODUCT.search(place.kernel):
        return False
    return _FP32.search(place.kernel) is not None or _operands_are_fp32(place.dtypes)


def _operands_are_fp32(dtypes: str | None) -> bool:
    types = re.findall(r'"([^"]+)"', dtypes or "")
    tensors = [kind for kind in types if kind == "float" or kind.startswith("c10::") or kind == "double"]
    return len(tensors) >= 2 and set(tensors) == {"float"}


RULE = TraceRule(name="fp32-on-tensor-cores", title="Give the tensor cores types that they know", detect=detect)
