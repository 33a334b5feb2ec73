"""Sequence-to-sequence models on PyTorch: an encoder reads the prompt once, a decoder writes the answer.

Their `prefill` is the encoder and the first step of the decoder, what a person waits for before the first token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from ftprof.profiler.engine import Batch
from ftprof.profiler.model_facts import base_of
from ftprof.profiler.torch_engine import TorchEngine

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Seq2SeqEngine(TorchEngine):
    """A model whose prompt and answer are two sequences, with tokens of their own at their ends."""

    @property
    def start_id(self) -> int:
        """The token that the decoder begins with, which is no part of the answer."""
        base = base_of(self.model)
        for settings in (base.generation_config, base.config):
            for name in ("decoder_start_token_id", "bos_token_id"):
                found = getattr(settings, name, None)
                if found is not None:
                    return int(found[0] if isinstance(found, list | tuple) else found)
        return self.pad_id

    def tokenise_answers(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids by answer, with the ends that the decoder learnt to write; some tokenizers have other words for answers."""
        return [list(ids) for ids in self.tokenizer(text_target=list(texts))["input_ids"]]

    def _new_tokens(self, out: torch.Tensor, batch: Batch) -> torch.Tensor:
        return out[:, 1:]

    @torch.inference_mode()
    def answer_logits(self, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """(rows, length, vocabulary) float32: what follows each place of `answers`, whose first token is `start_id`.

        Answers are padded on the right, which their decoder does not see.
        """
        read, written = self._right(prompts), self._right(answers)
        found = self.model(**read.inputs, decoder_input_ids=written.inputs["input_ids"]).logits[:, -written.length :]
        out: NDArray[np.float32] = found.float().cpu().numpy()
        return out

    def _right(self, rows: Sequence[Sequence[int]]) -> Batch:
        lengths = [len(row) for row in rows]
        return self._layout(rows, lengths, max(lengths), left=False)

    def logits(self, ids: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """(rows, vocabulary) float32: of the first token of the answer to each prompt."""
        first: NDArray[np.float32] = self.answer_logits(ids, [[self.start_id]] * len(ids))[:, 0]
        return first
