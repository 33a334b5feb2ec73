"""A trace of any size, written as torch.profiler writes it: an op, its launch, the arrow and the kernel, step by step."""

from __future__ import annotations

from pathlib import Path

LAUNCHES_A_STEP = 2000
_KERNEL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)"
)
_LAUNCH = """
  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 5, "tid": 5,
    "ts": {at}.125, "dur": 18.500,
    "args": {{
      "External id": {id},"Record function id": 0, "Concrete Inputs": ["", "", "1"], "Input type": ["c10::BFloat16", \
"c10::BFloat16", "Scalar"], "Input Strides": [[1024, 1], [1024, 1], []], "Input Dims": [[16, 1024], [16, 1024], []], \
"Ev Idx": {id}
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 5,
    "ts": {call}.500, "dur": 4.250,
    "args": {{
      "External id": {id}, "cbid": 211, "correlation": {id}
    }}
  }},
  {{
    "ph": "s", "id": {id}, "pid": 5, "tid": 5, "ts": {call}.500,
    "cat": "ac2g", "name": "ac2g"
  }},
  {{
    "ph": "X", "cat": "kernel", "name": "{kernel}", "pid": 0, "tid": 7,
    "ts": {start}.750, "dur": 6.125,
    "args": {{
      "External id": {id}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {id}, \
"registers per thread": 24, "shared memory": 0, "blocks per SM": 3.5, "warps per SM": 14.0, "grid": [1, 1, 1], \
"block": [128, 1, 1], "est. achieved occupancy %": 20
    }}
  }},"""
_STEP = """
  {{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{step}", "pid": 5, "tid": 5, "ts": {at}, "dur": {length}, \
"args": {{}}}}{comma}"""


def write(path: Path, megabytes: float) -> int:
    """Writes at least so many megabytes; returns the bytes written."""
    at, number, step, written = 1_000_000, 1, 0, 0
    with path.open("w", encoding="utf-8") as out:
        out.write('{"schemaVersion": 1, "baseTimeNanoseconds": 1600000000000000000, "traceEvents": [')
        while written < megabytes * 1e6:
            began = at
            for _ in range(LAUNCHES_A_STEP):
                written += out.write(_LAUNCH.format(at=at, call=at + 5, start=at + 12, id=number, kernel=_KERNEL))
                at, number = at + 20, number + 1
            last = written >= megabytes * 1e6
            out.write(_STEP.format(step=step, at=began, length=at - began, comma="" if last else ","))
            step += 1
        out.write('\n], "traceName": "synthetic.json"}\n')
    return path.stat().st_size
