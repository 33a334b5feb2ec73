"""What a workload runs on: one small interface, whichever runtime is behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from ftprof.profiler.record import AdapterFacts, Machine, ModelFacts, OpTrace
from ftprof.profiler.workload import Call

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Padded rows. `inputs` maps names to (rows, length) arrays of the engine's own kind; `tokens` real ones a row."""

    inputs: dict[str, Any]
    tokens: tuple[int, ...]
    length: int


class Generated(msgspec.Struct, frozen=True, kw_only=True):
    """New tokens by row, padding and what follows end-of-sequence cut off.

    `stamps_ns` are `perf_counter_ns` readings: the start, then the end of each token's step, device synchronised.
    """

    tokens: tuple[tuple[int, ...], ...]
    stamps_ns: tuple[int, ...]

    @property
    def first_s(self) -> float:
        """Seconds to the first token of the batch."""
        return (self.stamps_ns[1] - self.stamps_ns[0]) / 1e9

    @property
    def rest_s(self) -> float:
        """Seconds of all steps after the first token's."""
        return (self.stamps_ns[-1] - self.stamps_ns[1]) / 1e9

    @property
    def steps(self) -> int:
        """Steps after the first."""
        return len(self.stamps_ns) - 2


class Engine(Protocol):
    """A loaded model under one way of calling it. `TorchEngine` is one; `GenaiEngine` and `OrtEngine` stand beside it.

    `tokenise` gives ids by row (truncated for encoders only); `pad` lays them out as the call says. `generate` is
    greedy; with `exact` it makes exactly `new_tokens`, else it stops at end-of-sequence. `forward` runs one batch and
    waits for the device. `logits` gives float32: (rows, length, vocabulary) for causal models on right-padded ids,
    (rows, labels) for classifiers. `embed` gives (rows, width) float32, the L2-normalised mean over real tokens.
    `eos_ids` end a text; `eos_id` is the tokenizer's own, None where there is none. `op_traces` runs a batch
    (`new_tokens` 0: one forward) under the runtime's profiler, and totals its operators by phase; `untraced` are the
    seconds per occurrence that the totals stand for, by phase.
    """

    @property
    def call(self) -> Call: ...

    @property
    def eos_id(self) -> int | None: ...

    @property
    def eos_ids(self) -> tuple[int, ...]: ...

    def tokenise(self, texts: Sequence[str]) -> list[list[int]]: ...

    def pad(self, ids: Sequence[Sequence[int]]) -> Batch: ...

    def generate(self, batch: Batch, new_tokens: int, *, exact: bool = True) -> Generated: ...

    def forward(self, batch: Batch) -> None: ...

    def logits(self, ids: Sequence[Sequence[int]]) -> NDArray[np.float32]: ...

    def embed(self, ids: Sequence[Sequence[int]]) -> NDArray[np.float32]: ...

    def detokenise(self, tokens: Sequence[int]) -> str: ...

    def facts(self) -> ModelFacts: ...

    def adapter(self) -> AdapterFacts | None: ...

    def op_traces(
        self,
        batch: Batch,
        new_tokens: int,
        *,
        scenario: str,
        untraced: Mapping[str, float],
        machine: Machine,
        repeats: int,
    ) -> tuple[OpTrace, ...]: ...

    def save(self, directory: Path) -> None: ...


@runtime_checkable
class EncoderDecoder(Engine, Protocol):
    """An engine whose prompt and answer are two sequences.

    `tokenise_answers` gives the ids that the decoder should write; `answer_logits` float32 of shape (rows, length,
    vocabulary), what follows each place of answers that begin with `start_id`.
    """

    @property
    def start_id(self) -> int: ...

    def tokenise_answers(self, texts: Sequence[str]) -> list[list[int]]: ...

    def answer_logits(
        self, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]
    ) -> NDArray[np.float32]: ...
