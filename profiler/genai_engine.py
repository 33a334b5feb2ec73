"""The engine for decoders on ONNX Runtime GenAI: directories that `genai_build` made."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import numpy as np

from ftprof.profiler.batching import padded_length
from ftprof.profiler.built import Built
from ftprof.profiler.engine import Batch, Generated
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.genai_model import Opened, open_directory
from ftprof.profiler.genai_trace import trace_model
from ftprof.profiler.ort_session import first_line, thread_count
from ftprof.profiler.record import AdapterFacts, Machine, ModelFacts, OpTrace
from ftprof.profiler.workload import Call

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DTYPES = {"fp32": "float32"}


class GenaiEngine:
    """A decoder on ONNX Runtime GenAI. Batches hold `input_ids`, int32, padded on the right.

    A single row is never padded: GenAI masks padding in batches only. The key-value cache is always used.
    """

    def __init__(self, directory: Path, built: Built, call: Call, *, opened: Opened | None = None) -> None:
        self.directory = directory
        self.built = built
        self.call = call
        self.opened = opened or open_directory(directory, call.threads)

    def with_call(self, call: Call) -> GenaiEngine:
        """The same directory called in another way; the model is opened anew only where the thread count differs."""
        same = thread_count(call.threads) == self.opened.threads
        return GenaiEngine(self.directory, self.built, call, opened=self.opened if same else None)

    @property
    def tokenizer(self) -> Any:
        """The Hugging Face tokenizer."""
        return self.opened.tokenizer

    @property
    def eos_id(self) -> int | None:
        """The token that ends a text: the tokenizer's own where the model's list of ends has several."""
        own = self.tokenizer.eos_token_id
        return int(own) if own is not None else next(iter(self.eos_ids), None)

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """As the model that was converted has them."""
        return self.built.eos_ids

    def tokenise(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(ids) for ids in self.tokenizer(list(texts))["input_ids"]]

    def pad(self, ids: Sequence[Sequence[int]]) -> Batch:
        lengths = [len(row) for row in ids]
        length = padded_length(lengths, self.call) if len(ids) > 1 else lengths[0]
        return Batch(inputs={"input_ids": self._layout(ids, length)}, tokens=tuple(lengths), length=length)

    def _layout(self, ids: Sequence[Sequence[int]], length: int) -> NDArray[np.int32]:
        if not all(ids):
            raise FtprofError("a row has no tokens", "leave out empty prompts", Exit.USAGE)
        pad_id = self.opened.pad_id
        if len(ids) > 1 and any(row[-1] == pad_id for row in ids):
            raise FtprofError(
                f"a row ends with token {pad_id}, which pads the batches of {self.directory}",
                "leave it out of the prompt",
            )
        rows = np.full((len(ids), length), pad_id, dtype=np.int32)
        for place, row in enumerate(ids):
            rows[place, : len(row)] = row
        return rows

    def generate(self, batch: Batch, new_tokens: int, *, exact: bool = True) -> Generated:
        return generate(self.opened, self.opened.model, self.built.eos_ids, batch, new_tokens, exact=exact)

    def forward(self, batch: Batch) -> None:
        prefill(self.opened, self.opened.model, batch.inputs["input_ids"])

    def logits(self, ids: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        rows = self._layout(ids, max(len(row) for row in ids))
        found = prefill(self.opened, self.opened.model, rows).get_output("logits")
        return np.array(found, dtype=np.float32)

    def embed(self, ids: Sequence[Sequence[int]]) -> NoReturn:
        raise FtprofError(
            f"{self.built.source.architecture} was converted to generate text, not to embed it",
            "embed with the PyTorch model",
            Exit.USAGE,
        )

    def detokenise(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))

    def facts(self) -> ModelFacts:
        precision = self.built.recipe.precision
        return msgspec.structs.replace(
            self.built.source,
            engine="genai",
            providers=self.opened.providers,
            dtype=_DTYPES.get(precision, precision),
            weight_bytes=sum(path.stat().st_size for path in self.directory.glob("*.onnx*")),
            attention="GroupQueryAttention",
            use_cache=True,
            use_cache_source="engine",
        )

    def adapter(self) -> AdapterFacts | None:
        return None

    def op_traces(
        self,
        batch: Batch,
        new_tokens: int,
        *,
        scenario: str,
        untraced: Mapping[str, float],
        machine: Machine,
        repeats: int,
    ) -> tuple[OpTrace, ...]:
        def run(model: Any) -> tuple[int, ...]:
            if new_tokens:
                return generate(self.opened, model, self.built.eos_ids, batch, new_tokens, exact=True).stamps_ns
            begin = time.perf_counter_ns()
            prefill(self.opened, model, batch.inputs["input_ids"])
            return begin, time.perf_counter_ns()

        return trace_model(
            self.directory,
            self.opened,
            run,
            scenario=scenario,
            phases=("prefill", "decode") if new_tokens else ("forward",),
            untraced=untraced,
            repeats=repeats,
            length=round(sum(batch.tokens) / len(batch.tokens)),
        )

    def save(self, directory: Path) -> None:
        """Copy the built directory; it is complete."""
        try:
            shutil.copytree(self.directory, directory, dirs_exist_ok=True)
        except (OSError, shutil.Error) as error:
            size = self.built.size_bytes / 1e6
            raise FtprofError(
                f"cannot copy {size:.0f} MB to {directory}: {first_line(error)}", "choose another directory"
            ) from error


def generate(
    opened: Opened, model: Any, eos_ids: Sequence[int], batch: Batch, new_tokens: int, *, exact: bool
) -> Generated:
    """Greedy continuations. With `exact`, ends of text are not allowed before the last token, as in transformers."""
    rows = batch.inputs["input_ids"]
    stamps = [time.perf_counter_ns()]
    total = batch.length + new_tokens
    generator = _generator(opened, model, rows, total, **({"min_length": total} if exact else {}))
    generator.append_tokens(rows)
    made: list[NDArray[np.int32]] = []
    while len(made) < new_tokens and not generator.is_done():
        generator.generate_next_token()
        made.append(np.array(generator.get_next_tokens(), dtype=np.int32))
        stamps.append(time.perf_counter_ns())
    tokens = np.stack(made, axis=1).tolist() if made else [[] for _ in rows]
    return Generated(
        tokens=tuple(tuple(row) if exact else _trimmed(row, eos_ids) for row in tokens), stamps_ns=tuple(stamps)
    )


def prefill(opened: Opened, model: Any, rows: NDArray[np.int32]) -> Any:
    """A generator that has read the rows; its logits cover all positions."""
    generator = _generator(opened, model, rows, min(rows.shape[1] + 1, opened.context))
    generator.append_tokens(rows)
    return generator


def _generator(opened: Opened, model: Any, rows: NDArray[np.int32], total: int, **options: float) -> Any:
    import onnxruntime_genai as og

    if total > opened.context:
        raise FtprofError(
            f"{rows.shape[1]} tokens and {total - rows.shape[1]} new ones exceed the model's context of {opened.context}",
            "use shorter prompts or fewer new tokens",
        )
    params = og.GeneratorParams(model)
    params.set_search_options(batch_size=len(rows), max_length=total, do_sample=False, num_beams=1, **options)
    return og.Generator(model, params)


def _trimmed(row: Sequence[int], eos_ids: Sequence[int]) -> tuple[int, ...]:
    """Up to the end of the text; GenAI fills finished rows up."""
    end = next((place for place, token in enumerate(row) if token in eos_ids), len(row) - 1)
    return tuple(row[: end + 1])
