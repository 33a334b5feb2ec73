"""Names as the profilers of the last years spell them, against the few kinds that the analysis knows. Tables only."""

from __future__ import annotations

import re
from enum import IntEnum


class DeviceKind(IntEnum):
    """Work on a device. GRAPH is a whole graph replay whose kernels were not traced one by one."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    GRAPH = 3


class HostKind(IntEnum):
    """Work on a host thread."""

    RUNTIME = 0
    OP = 1
    ANNOTATION = 2
    PYTHON = 3


# Capitalised categories are those of 2021 (the profiler of torch 1.8 and 1.9).
DEVICE_CATEGORIES: dict[str, DeviceKind] = {
    "kernel": DeviceKind.KERNEL,
    "Kernel": DeviceKind.KERNEL,
    "gpu_memcpy": DeviceKind.MEMCPY,
    "Memcpy": DeviceKind.MEMCPY,
    "gpu_memset": DeviceKind.MEMSET,
    "Memset": DeviceKind.MEMSET,
}
HOST_CATEGORIES: dict[str, HostKind] = {
    "cuda_runtime": HostKind.RUNTIME,
    "cuda_driver": HostKind.RUNTIME,
    "Runtime": HostKind.RUNTIME,
    "xpu_runtime": HostKind.RUNTIME,
    "privateuse1_runtime": HostKind.RUNTIME,
    "mtia_runtime": HostKind.RUNTIME,
    "cpu_op": HostKind.OP,
    "Operator": HostKind.OP,
    "user_annotation": HostKind.ANNOTATION,
    "python_function": HostKind.PYTHON,
}
OVERHEAD_CATEGORIES = frozenset({"overhead"})
# Device work of accelerators whose scheduling is not modelled here: counted, so that the report can say so.
FOREIGN_CATEGORIES = frozenset({"mtia_ccp_events", "privateuse1_kernel", "glow_runtime", "hpu_op"})
COUNTER_CATEGORIES = frozenset({"cuda_profiler_range"})
OLD_CATEGORIES = frozenset({"Kernel", "Runtime", "Operator"})

STEP = re.compile(r"ProfilerStep#\d+")
# Annotations of vLLM and of what follows its form: requests in their prompt (context) and requests that generate.
ENGINE_STEP = re.compile(r"execute_(?:\d+_)?context_(?P<context>\d+)\(.*?\)_generation_(?P<generation>\d+)\(.*\)")
SGLANG_STEP = re.compile(r"step\[(?P<mode>[A-Z_]+)\b.*\]")
OPTIMIZER_STEP = re.compile(r"Optimizer\.step#.*")
MODULE = re.compile(r"nn\.Module: (?P<type>\w+?)(?:_(?P<number>\d+))?")

_API = r"(?:cuda|hip|cu|mtia)"
SYNC_CALL = re.compile(rf"{_API}(?:Device|Stream|Event|Ctx|Thread)Synchronize(?:_ptsz|_v\d+)*")
COPY_CALL = re.compile(rf"{_API}Memcpy\w*")
ALLOCATOR_CALL = re.compile(
    rf"{_API}(?:Malloc\w*|Free\w*|HostAlloc|HostFree|HostRegister|HostUnregister|MemAlloc\w*|MemFree\w*|MemCreate|"
    r"MemRelease|MemMap|MemUnmap|MemAddressReserve|MemAddressFree|MemSetAccess|MemHostAlloc)(?:_ptsz|_v\d+)*"
)
GRAPH_LAUNCH = re.compile(rf"{_API}GraphLaunch\w*")
# Calls that put a kernel, a copy or a graph onto a stream.
LAUNCH_CALL = re.compile(
    rf"{_API}(?:LaunchKernel\w*|LaunchCooperativeKernel\w*|LaunchHostFunc|ModuleLaunchKernel|ExtModuleLaunchKernel|"
    r"ExtLaunchKernel|GraphLaunch\w*|Memcpy\w*|Memset\w*)"
)
KERNEL_LAUNCH_CALL = re.compile(rf"{_API}(?:\w*Launch\w*Kernel\w*|GraphLaunch\w*)")
# Waiting for input: torch's loader, and pre-processing and tokenising in the libraries that fine-tuners use.
DATA_LOADING = re.compile(
    r"enumerate\(DataLoader\)|torch/utils/data/|"
    r"transformers/(?:image_processing_|feature_extraction_|tokenization_|processing_|models/\w+/"
    r"(?:image_processing|feature_extraction|tokenization|processing)_)|torchvision/transforms/|\bPIL/|\bdatasets/"
)
PAGEABLE_COPY = re.compile(r"Pageable|(?:HtoD|DtoH) \((?:Host -> Device|Device -> Host)\)")
COPY_DIRECTION = re.compile(r"Memcpy (?P<direction>\w+)")
