"""Tiny random models as directories on disk, as plain users have them: config, safetensors, tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WORDS = [
    "the",
    "a",
    "order",
    "parcel",
    "refund",
    "account",
    "number",
    "arrived",
    "never",
    "please",
    "help",
    "with",
    "my",
    "and",
    "of",
    "to",
    "on",
    "in",
    "is",
    "was",
    "late",
    "broken",
    "twice",
    "charged",
    "support",
    "ticket",
    "answer",
    "delivery",
    "billing",
    "technical",
    "cancel",
    "today",
    "yesterday",
    "week",
    "invoice",
    "password",
    "screen",
    "lamp",
    "kettle",
    "shoes",
    "1",
    "2",
    "3",
    "4",
    "5",
    "6",
    "7",
    "8",
    "9",
    "0",
    ".",
    ",",
    ":",
    "?",
]


def tokenizer() -> Any:
    """A word-level tokenizer of the words above, with padding and end-of-sequence."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(["<pad>", "<unk>", "</s>", *WORDS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=128
    )


def _llama(layers: int, hidden: int, vocabulary: int) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        pad_token_id=0,
        eos_token_id=2,
        bos_token_id=None,
        # A random model of the usual width of initialisation says nearly the same everywhere.
        initializer_range=0.2,
    )
    return LlamaForCausalLM(config).eval()


def causal(folder: Path, layers: int = 2, hidden: int = 64) -> Path:
    """A random Llama."""
    words = tokenizer()
    _llama(layers, hidden, len(words)).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def seq2seq(folder: Path, kind: str = "t5") -> Path:
    """A random T5 or BART: an encoder of three layers, a decoder of two."""
    import torch
    from transformers import BartConfig, BartForConditionalGeneration, T5Config, T5ForConditionalGeneration

    torch.manual_seed(7)
    words = tokenizer()
    ends: dict[str, Any] = {"pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 0}
    if kind == "t5":
        shape: dict[str, Any] = {
            "d_model": 64,
            "d_kv": 16,
            "d_ff": 128,
            "num_layers": 3,
            "num_decoder_layers": 2,
            "num_heads": 4,
        }
        model: Any = T5ForConditionalGeneration(T5Config(vocab_size=len(words), **shape, **ends))
    else:
        layers: dict[str, Any] = {
            "encoder_layers": 3,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
        }
        wide: dict[str, Any] = {
            "d_model": 64,
            "encoder_ffn_dim": 128,
            "decoder_ffn_dim": 128,
            "max_position_embeddings": 128,
        }
        free: dict[str, Any] = {"forced_eos_token_id": None, "bos_token_id": 1, "init_std": 0.2}
        model = BartForConditionalGeneration(BartConfig(vocab_size=len(words), **layers, **wide, **free, **ends))
    model.eval().save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def adapter(folder: Path, base: Path, rank: int = 4, task_type: str = "CAUSAL_LM") -> Path:
    """A random LoRA on `base` that changes its outputs."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    kind: Any = AutoModelForCausalLM if task_type == "CAUSAL_LM" else AutoModelForSeq2SeqLM
    model = kind.from_pretrained(base)
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type=task_type)
    tuned = get_peft_model(model, config)
    torch.manual_seed(11)
    for name, parameter in tuned.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.05)
    tuned.save_pretrained(str(folder))
    return folder


def classifier(folder: Path, labels: int = 3) -> Path:
    """A random BERT classifier."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(7)
    words = tokenizer()
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=128,
        pad_token_id=0,
    )
    config.num_labels = labels
    BertForSequenceClassification(config).eval().save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def embedder(folder: Path) -> Path:
    """A random BERT encoder without a head."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(7)
    words = tokenizer()
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=128,
        pad_token_id=0,
    )
    BertModel(config).eval().save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def rows(path: Path, count: int = 40, completion: bool = True) -> Path:
    """Rows of varied length, seeded."""
    import random

    draw = random.Random(3)
    lines = []
    for _ in range(count):
        row = {"prompt": " ".join(draw.choices(WORDS, k=draw.randint(3, 30)))}
        if completion:
            row["completion"] = " " + " ".join(draw.choices(WORDS, k=6))
        lines.append(json.dumps(row))
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path
