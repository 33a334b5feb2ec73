"""Collect a model's outputs for the quality gate. Runs in a worker; logits never cross a pipe.

The baseline writes log-probabilities of the scored positions to a memory-mapped file; a candidate reads them and
reduces to divergences, token by token.

Method: Outputs (docs/method.md).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from ftprof.profiler.batching import plan
from ftprof.profiler.engine import EncoderDecoder, Engine
from ftprof.profiler.judge import DocScores
from ftprof.profiler.workload import Row

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Scored completion tokens aimed at: below about 2,000 a mean KL is too wide for the INT8 limit (design section 6).
TARGET_TOKENS = 2000
# Prompt positions are shown, never judged; a few documents are enough for that and keep the file small.
SHOWN_PROMPTS, SHOWN_POSITIONS = 6, 64
# Scored whatever the budget: the gate judges nothing on less.
LEAST_TOKENS, LEAST_DOCUMENTS = 400, 16
CONTINUATION = 64
GENERATION_PROMPTS = 16
SINGLE_PROMPTS = 2
# Logits of one scoring batch stay below this, whatever the vocabulary.
BATCH_BYTES = 256 * 2**20


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Token ids, where the completion starts, and whether its prompt positions are kept too.

    `prompt` is what an encoder reads, None where the prompt is the beginning of `ids`.
    """

    ids: tuple[int, ...]
    start: int
    prompt_kept: bool
    given: bool
    prompt: tuple[int, ...] | None = None

    @property
    def first(self) -> int:
        """The first target position whose log-probabilities are kept."""
        return max(1, self.start - SHOWN_POSITIONS) if self.prompt_kept else self.start


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """What the baseline left: documents in file order, and its greedy continuations."""

    documents: tuple[Document, ...]
    vocabulary: int
    greedy: tuple[tuple[int, ...], ...]
    greedy_single: tuple[tuple[int, ...], ...]
    eos: tuple[int, ...]
    floor_kl: float | None = None
    floor_top1: float | None = None


@dataclass(frozen=True, kw_only=True)
class Scored:
    """Divergences by document, and, for documents whose completion was given, whether either model writes it whole."""

    documents: tuple[DocScores, ...]
    base_right: tuple[bool, ...]
    new_right: tuple[bool, ...]


class Greedy(msgspec.Struct, frozen=True, kw_only=True):
    """Greedy continuations in batches as called, and of the first few prompts one by one."""

    batched: tuple[tuple[int, ...], ...]
    single: tuple[tuple[int, ...], ...]


def greedy(engine: Engine, rows: Sequence[Row], new_tokens: int) -> Greedy:
    """Continue the first prompts greedily, stopping at end-of-sequence."""
    ids = engine.tokenise([row.prompt for row in rows[:GENERATION_PROMPTS]])
    batched: dict[int, tuple[int, ...]] = {}
    for batch in plan([len(row) for row in ids], engine.call):
        made = engine.generate(engine.pad([ids[row] for row in batch]), new_tokens, exact=False)
        batched.update(zip(batch, made.tokens, strict=True))
    single = [engine.generate(engine.pad([row]), new_tokens, exact=False).tokens[0] for row in ids[:SINGLE_PROMPTS]]
    return Greedy(batched=tuple(batched[row] for row in range(len(ids))), single=tuple(single))


def documents(engine: Engine, rows: Sequence[Row], eos: Sequence[int], limit: int) -> list[Document]:
    """Documents with at least TARGET_TOKENS completion tokens where the rows have them: given ones, else greedy ones."""
    given = [row for row in rows if row.completion]
    if not given:
        found = _continued(engine, rows, limit)
    elif isinstance(engine, EncoderDecoder):
        found = _answered(engine, given, eos, limit)
    else:
        found = _given(engine, given, eos, limit)
    kept, tokens = [], 0
    for document in found:
        kept.append(document)
        tokens += len(document.ids) - document.start
        if tokens >= TARGET_TOKENS:
            break
    return kept


def _given(engine: Engine, rows: Sequence[Row], eos: Sequence[int], limit: int) -> Iterator[Document]:
    prompts = engine.tokenise([row.prompt for row in rows])
    whole = engine.tokenise([row.prompt + str(row.completion) for row in rows])
    for number, (prompt, ids) in enumerate(zip(prompts, whole, strict=True)):
        start = _shared_prefix(prompt, ids)
        closed = [*ids, eos[0]] if eos and ids[-1] not in eos else ids
        closed = closed[:limit]
        if 0 < start < len(closed):
            yield Document(ids=tuple(closed), start=start, prompt_kept=number < SHOWN_PROMPTS, given=True)


def _answered(engine: EncoderDecoder, rows: Sequence[Row], eos: Sequence[int], limit: int) -> Iterator[Document]:
    prompts = engine.tokenise([row.prompt for row in rows])
    for prompt, answer in zip(prompts, engine.tokenise_answers([str(row.completion) for row in rows]), strict=True):
        closed = [*answer, eos[0]] if eos and answer and answer[-1] not in eos else answer
        if closed:
            yield _apart(engine, prompt[:limit], closed[: limit - 1], given=True)


def _apart(engine: EncoderDecoder, prompt: Sequence[int], answer: Sequence[int], *, given: bool) -> Document:
    """A document whose prompt an encoder reads."""
    ids = (engine.start_id, *answer)
    return Document(ids=ids, start=1, prompt_kept=False, given=given, prompt=tuple(prompt))


def _shared_prefix(prompt: Sequence[int], ids: Sequence[int]) -> int:
    # A tokenizer may join the prompt's last piece with the completion's first one.
    for place, (left, right) in enumerate(zip(prompt, ids, strict=False)):
        if left != right:
            return place
    return min(len(prompt), len(ids))


def _continued(engine: Engine, rows: Sequence[Row], limit: int) -> Iterator[Document]:
    ids = engine.tokenise([row.prompt for row in rows])
    usable = [row for row in ids if 0 < len(row) <= limit - CONTINUATION] or [row[: limit // 2] for row in ids if row]
    room = max(1, min(CONTINUATION, limit - max((len(row) for row in usable), default=0)))
    number = 0
    for batch in plan([len(row) for row in usable], engine.call):
        made = engine.generate(engine.pad([usable[row] for row in batch]), room, exact=False)
        for row, tokens in zip(batch, made.tokens, strict=True):
            prompt = usable[row]
            if isinstance(engine, EncoderDecoder):
                yield _apart(engine, prompt, tokens, given=False)
                continue
            keep = number < SHOWN_PROMPTS
            yield Document(ids=(*prompt, *tokens), start=len(prompt), prompt_kept=keep, given=False)
            number += 1


def _log_probabilities(engine: Engine, chunk: Sequence[Document]) -> list[NDArray[np.float32]]:
    """(kept targets, vocabulary) log-probabilities of each document."""
    import torch

    ids = [document.ids for document in chunk]
    if isinstance(engine, EncoderDecoder):
        logits = engine.answer_logits([document.prompt or () for document in chunk], ids)
    else:
        logits = engine.logits(ids)
    out = []
    for row, document in zip(logits, chunk, strict=True):
        wanted = torch.from_numpy(row[document.first - 1 : len(document.ids) - 1])
        out.append(torch.log_softmax(wanted, dim=-1).numpy())
    return out


def _chunks(found: Sequence[Document], vocabulary: int, rows: int = 8) -> Iterator[list[Document]]:
    """Neighbours in chunks whose padded logits stay below BATCH_BYTES."""
    chunk: list[Document] = []
    for document in found:
        longest = max(len(document.ids), *(len(other.ids) for other in chunk)) if chunk else len(document.ids)
        if chunk and (len(chunk) >= rows or longest * (len(chunk) + 1) * vocabulary * 4 > BATCH_BYTES):
            yield chunk
            chunk = []
        chunk.append(document)
    if chunk:
        yield chunk


def write_reference(
    engine: Engine,
    rows: Sequence[Row],
    folder: Path,
    *,
    new_tokens: int,
    limit: int,
    eos: Sequence[int],
    budget_s: float,
) -> Reference:
    """Score the baseline within `budget_s` and leave `logprobs.f32` in `folder`; fewer documents if time runs out."""
    begin = time.monotonic()
    found = sorted(documents(engine, rows, eos, limit), key=lambda document: len(document.ids))
    vocabulary = int(engine.facts().vocabulary)
    kept: list[Document] = []
    with (folder / "logprobs.f32").open("wb") as file:
        for chunk in _spread(list(_chunks(found, vocabulary))):
            for document, values in zip(chunk, _log_probabilities(engine, chunk), strict=True):
                vocabulary = values.shape[1]
                values.tofile(file)
                kept.append(document)
            tokens = sum(len(document.ids) - document.start for document in kept)
            enough = tokens >= LEAST_TOKENS and len(kept) >= LEAST_DOCUMENTS
            if enough and time.monotonic() - begin > budget_s:
                break
    made = greedy(engine, rows, new_tokens)
    reference = Reference(
        documents=tuple(kept), vocabulary=vocabulary, greedy=made.batched, greedy_single=made.single, eos=tuple(eos)
    )
    # The floor: the same model scored one document at a time instead of eight.
    floor = score(engine, reference, folder, only=8, rows=1).documents
    if not floor:
        return reference
    return msgspec.structs.replace(
        reference,
        floor_kl=float(np.concatenate([scores.kl for scores in floor]).mean()),
        floor_top1=float(np.concatenate([scores.top1_equal for scores in floor]).mean()),
    )


def _spread(chunks: list[list[Document]]) -> list[list[Document]]:
    """Chunks in an order that mixes short and long ones, so that a cut by time stays representative."""
    mixed = [chunk for pair in zip_longest(chunks, chunks[::-1]) for chunk in pair if chunk]
    return mixed[: len(chunks)]


def score(engine: Engine, reference: Reference, folder: Path, *, only: int | None = None, rows: int = 8) -> Scored:
    """Divergences of this engine from the reference, document by document; one with other shapes is not finite."""
    found = reference.documents[:only]
    stored = np.memmap(folder / "logprobs.f32", dtype=np.float32, mode="r").reshape(-1, reference.vocabulary)
    ends = np.cumsum([len(document.ids) - document.first for document in reference.documents]).tolist()
    places = {id(document): end for document, end in zip(reference.documents, ends, strict=True)}
    out: list[DocScores] = []
    base_right: list[bool] = []
    new_right: list[bool] = []
    for chunk in _chunks(found, reference.vocabulary, rows):
        for document, new in zip(chunk, _log_probabilities(engine, chunk), strict=True):
            end = places[id(document)]
            base = stored[end - (len(document.ids) - document.first) : end]
            if base.shape != new.shape:
                broken = np.full(len(document.ids) - document.start, np.nan)
                out.append(DocScores(kl=broken, top1_equal=broken > 0, nll_base=broken, nll_new=broken))
                continue
            scores, right = _compare(document, base, new)
            out.append(scores)
            if document.given:
                base_right.append(right[0])
                new_right.append(right[1])
    return Scored(documents=tuple(out), base_right=tuple(base_right), new_right=tuple(new_right))


def _compare(
    document: Document, base: NDArray[np.float32], new: NDArray[np.float32]
) -> tuple[DocScores, tuple[bool, bool]]:
    """One document's scores, and whether baseline and candidate would write its whole completion greedily."""
    import torch

    targets = np.asarray(document.ids[document.first :])
    p, q = torch.from_numpy(np.array(base)), torch.from_numpy(new)
    # Rounding can leave a KL of -1e-9; a divergence is not negative.
    kl = (p.exp() * (p - q)).sum(-1).clamp(min=0.0).numpy()
    first, second = p.argmax(-1).numpy(), q.argmax(-1).numpy()
    places = np.arange(len(targets))
    head = document.start - document.first
    scores = DocScores(
        kl=kl[head:],
        top1_equal=(first == second)[head:],
        nll_base=-base[places, targets][head:],
        nll_new=-new[places, targets][head:],
        prompt_kl=kl[:head] if head else None,
        prompt_top1=(first == second)[:head] if head else None,
    )
    return scores, (bool((first == targets)[head:].all()), bool((second == targets)[head:].all()))


def encoder_outputs(engine: Engine, task: str, rows: Sequence[Row], budget_s: float) -> NDArray[np.float32]:
    """(rows, labels) probabilities of a classifier, or (rows, width) vectors of an embedder, in row order.

    Batches are made as the call says; rows that the time does not allow are left out at the end.
    """
    begin = time.monotonic()
    out: list[NDArray[np.float32]] = []
    size = engine.call.batch_size * 8
    for start in range(0, len(rows), size):
        out.append(_block(engine, task, rows[start : start + size]))
        if time.monotonic() - begin > budget_s:
            break
    return np.concatenate(out)


def _block(engine: Engine, task: str, rows: Sequence[Row]) -> NDArray[np.float32]:
    ids = engine.tokenise([row.prompt for row in rows])
    parts: dict[int, NDArray[np.float32]] = {}
    for batch in plan([len(row) for row in ids], engine.call):
        chosen = [ids[row] for row in batch]
        values = engine.embed(chosen) if task == "embedding" else _softmax(engine.logits(chosen))
        parts.update(zip(batch, values, strict=True))
    return np.stack([parts[row] for row in range(len(ids))])


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    out: NDArray[np.float32] = (shifted / shifted.sum(-1, keepdims=True)).astype(np.float32)
    return out
