"""Random-weight Llama shapes with random LoRA adapters, made on the device; nothing is fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

WORDS = 2000
TEXT = " ".join(f"w{number % WORDS}" for number in range(7, 7 + 128 * 13, 13))
"""A prompt of 128 tokens."""


class Shape(NamedTuple):
    """Sizes of a Llama and the rank of its adapter."""

    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    rank: int


SHAPES = {
    # Llama 3.2 1B and Llama 2 7B, from their published config.json.
    "1B": Shape(2048, 8192, 16, 32, 8, 128256, 16),
    "7B": Shape(4096, 11008, 32, 32, 32, 32000, 16),
}
TINY = Shape(64, 128, 2, 4, 2, WORDS + 3, 4)


def tokenizer() -> Any:
    """One token a word; ids beyond the words are never drawn from text."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<unk>", "</s>", *(f"w{number}" for number in range(WORDS))]
    core = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=2048
    )


def llama(shape: Shape, device: str) -> Any:
    """A random Llama in bfloat16 (float32 on the CPU), initialised where it will run."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=4096,
        pad_token_id=0,
        eos_token_id=2,
        bos_token_id=None,
    )
    before = torch.get_default_dtype()
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float32 if device == "cpu" else torch.bfloat16)
    try:
        with torch.device(device):
            return LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(before)


def with_adapter(model: Any, shape: Shape, device: str) -> Any:
    """The model under PEFT with a random LoRA on every linear layer."""
    import torch
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    config = LoraConfig(
        r=shape.rank,
        lora_alpha=2 * shape.rank,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
        init_lora_weights=False,
    )
    return get_peft_model(model, config).to(device).eval()


def directories(shape: Shape, device: str, folder: Path) -> tuple[Path, Path]:
    """(base, adapter) as a user has them on disk."""
    base, adapter = folder / "base", folder / "adapter"
    model = llama(shape, device)
    model.save_pretrained(base)
    tokenizer().save_pretrained(base)
    tuned = with_adapter(model, shape, device)
    for config in tuned.peft_config.values():
        config.base_model_name_or_path = str(base)
    tuned.save_pretrained(adapter)
    return base, adapter
