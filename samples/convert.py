"""Turns a GGUF file into a plain Hugging Face directory. Run in a process of its own:

    python -m ftprof.samples.convert FILE.gguf OUT_DIR

It takes about 1.5 GB for some 25 s, and transformers draws its own progress on stderr; neither belongs in the process
of the command that asked for the model.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def convert_gguf(gguf: Path, out: Path) -> None:
    """Writes config, fp32 weights, tokenizer and generation settings of `gguf` into the existing directory `out`."""
    import torch
    import transformers
    from transformers import AutoTokenizer

    from ftprof.profiler.gguf_load import unpacked

    # Untyped in transformers, which a strict check would refuse to call.
    generation_class: Any = transformers.GenerationConfig
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    model = unpacked(gguf, torch.float32)
    # The file names no padding token. The model's authors pad with the end-of-sequence token.
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.model_max_length = model.config.max_position_embeddings
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    model.config.pad_token_id = ids["pad_token_id"] = tokenizer.eos_token_id
    model.generation_config = generation_class(**ids)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    convert_gguf(Path(sys.argv[1]), Path(sys.argv[2]))
