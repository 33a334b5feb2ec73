"""What a built GenAI directory says of itself: the bits of its parts, and a token that no text can contain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def graph_notes(graph: Path, *, tied: bool) -> list[str]:
    """How the token table and the head are held, where the model ties them; nothing else needs saying."""
    import onnx

    if not tied:
        return []
    nodes = onnx.load(str(graph), load_external_data=False).graph.node
    head = next((node for node in nodes if node.name.startswith("/lm_head/MatMul")), None)
    embedding = [node for node in nodes if node.name.startswith("/model/embed_tokens/")]
    table = next((node for node in embedding if node.op_type.startswith("Gather")), None)
    if head is None or table is None:
        return []
    if any(head.input[1] in node.input for node in embedding):
        return [f"Token table and head share one matrix in {_bits(head)}, as in the model."]
    return [f"Token table in {_bits(table)} and head in {_bits(head)} are stored apart, although the model ties them."]


def _bits(node: Any) -> str:
    bits = next((attribute.i for attribute in node.attribute if attribute.name == "bits"), None)
    if bits is None and node.op_type == "GatherBlockQuantized":
        bits = 4  # the operator's default
    return f"{bits} bit" if bits else "fp32"


def free_token(tokenizer: Any, vocabulary: int, eos: Sequence[int]) -> int:
    """An id that padding can use.

    GenAI takes trailing padding tokens of a row for padding even where they are the text's own, and many models pad
    with their end-of-sequence token. So it is the highest id that the tokenizer does not know, else its padding token
    or another special one that ends no text, else the last.
    """
    known = {*tokenizer.get_vocab().values(), *eos}
    unknown = next((token for token in range(vocabulary - 1, -1, -1) if token not in known), None)
    if unknown is not None:
        return unknown
    taken = {*eos, tokenizer.bos_token_id, tokenizer.eos_token_id}
    special = [tokenizer.pad_token_id, *sorted(tokenizer.get_added_vocab().values(), reverse=True)]
    candidates = (*special, *range(vocabulary - 1, -1, -1))
    return next(int(token) for token in candidates if token is not None and token not in taken)
