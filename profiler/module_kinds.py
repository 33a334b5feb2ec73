"""What a module is for, from its class's and its qualified name, across Hugging Face architectures. Pure tables."""

from __future__ import annotations

import re

LORA_A, LORA_B, LORA_REST = "lora A", "lora B", "lora rest"
OTHER, OUTSIDE = "other", "outside modules"

# First match wins. Classes come before names: a norm inside an attention block is a norm, whatever it is called.
_CLASSES: tuple[tuple[str, str], ...] = (
    (r"Norm(\d+d)?$|Norm[A-Z]|^Norm", "norm"),
    (r"Rotary|RotaryEmb", "rotary"),
    (r"Pooler$", "pooler"),
    (r"Attention|SelfOutput$|Attn", "attention"),
    (
        r"MLP$|FeedForward|FFN$|Intermediate$|SparseMoe|MoeBlock|Experts?$|LayerFF$|DenseActDense|DenseGatedActDense",
        "mlp",
    ),
    (r"LMHead|LMPredictionHead|MLMHead|ClassificationHead|OnlyMLMHead", "head"),
    (r"Embeddings?$", "embedding"),
)

# The last part of the qualified name.
_NAMES: tuple[tuple[str, str], ...] = (
    (r"(.*_)?(layer_?norm|rms_?norm|norm)(_?\d+|_f)?|ln_\w+", "norm"),
    (r"rotary\w*", "rotary"),
    (r"pooler", "pooler"),
    (r"self_attn|attn|attention|self_attention|cross_?attn\w*|crossattention|encoder_attn", "attention"),
    (r"mlp|feed_forward|ffn|ffn_output|intermediate|fc1|fc2|block_sparse_moe|experts", "mlp"),
    (r"lm_head|score|classifier|qa_outputs|embed_out|cls|pre_classifier|predictions|vocab_projector", "head"),
    (
        r"embed_tokens|embed_positions|wte|wpe|word_embeddings|position_embeddings|token_type_embeddings|embeddings",
        "embedding",
    ),
)

# A norm stays a norm and so on, but what lies inside one of these belongs to it unless it is one of the others.
_INHERITED = frozenset({"attention", "mlp", "head", "pooler", "embedding", "norm", "rotary"})


def module_kind(qualified: str, class_name: str, parent: str) -> str:
    """attention, mlp, norm, embedding, head, pooler, rotary or other.

    `qualified` is the dotted name, `parent` the kind of the module that holds this one. BERT's feed-forward output is a
    bare `...Output` class beside `attention`, told from attention's own by its holder.
    """
    for pattern, kind in _CLASSES:
        if re.search(pattern, class_name):
            return kind
    last = qualified.rsplit(".", 1)[-1]
    for pattern, kind in _NAMES:
        if re.fullmatch(pattern, last):
            return kind
    if parent in _INHERITED:
        return parent
    if re.search(r"Output$", class_name) and last == "output":
        return "mlp"
    return OTHER
