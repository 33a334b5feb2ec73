"""GGUF weights in PyTorch: unpacked by transformers once, then kept as a plain directory for the rest of the run.

transformers takes some 25 s for a model of 135M parameters, each time; a run loads its model in a dozen processes.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

from ftprof.profiler.errors import FtprofError
from ftprof.profiler.gguf_files import pretrained, read_gguf

_BYTES = 4  # of an unpacked weight: float32
_SPARE = 64 << 20  # for the tokenizer and the settings


def unpacked(gguf: Path, dtype: Any = None) -> Any:
    """The causal language model of a GGUF file with plain weights, which can be saved; in `dtype`, else as stored.

    Raises what transformers raises.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils.quantization_config import GgufConfig

    directory, name = pretrained(str(gguf))
    # Left to itself transformers keeps the blocks packed where it finds kernels for them, and such a model counts as
    # quantised: it refuses to be saved, and no adapter can be merged into it.
    whole: Any = GgufConfig(dequantize=True)
    model: Any = AutoModelForCausalLM.from_pretrained(
        directory, gguf_file=name, quantization_config=whole, **({} if dtype is None else {"dtype": dtype})
    )
    return model


def plain_copy(gguf: Path, scratch: Path) -> tuple[Path, float]:
    """A plain Hugging Face directory of the file, tokenizer included, in `scratch`; and the seconds that loading took.

    The seconds are 0.0 where an earlier process of the run made the copy. FtprofError where there is no room for it.
    """
    from transformers import AutoTokenizer

    found = read_gguf(gguf)
    copy = scratch / f"unpacked-{gguf.stem}-{gguf.stat().st_size}"
    if copy.is_dir():
        return copy, 0.0
    _check_room(scratch, found.parameters * _BYTES + _SPARE)
    begin = time.perf_counter()
    model = unpacked(gguf)
    seconds = time.perf_counter() - begin
    building = scratch / f"{copy.name}.partial-{os.getpid()}"
    directory, name = pretrained(str(gguf))
    try:
        model.save_pretrained(building)
        AutoTokenizer.from_pretrained(directory, gguf_file=name).save_pretrained(building)
        building.rename(copy)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return copy, seconds


def _check_room(scratch: Path, needed: int) -> None:
    free = shutil.disk_usage(scratch).free
    if free < needed:
        raise FtprofError(
            f"{scratch} has {free / 2**30:.1f} GiB free; unpacking the GGUF file takes {needed / 2**30:.1f}",
            "set TMPDIR to a directory with more room",
        )
