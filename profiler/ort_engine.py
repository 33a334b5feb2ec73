"""The ONNX Runtime engine: encoders, classifiers and embedders as graphs, built by ftprof or the user's own."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from ftprof.profiler.batching import padded_length
from ftprof.profiler.built import MANIFEST, Built
from ftprof.profiler.engine import Batch, Generated
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.onnx_files import SUFFIX, USUAL, OnnxFacts, check_external, onnx_facts
from ftprof.profiler.onnx_model import graph_facts, own_facts
from ftprof.profiler.ort_profile import ForeignNodes, ModelRun, foreign_nodes, op_trace, packed_nodes, read_runs
from ftprof.profiler.ort_session import first_line, open_session, session_options, thread_count
from ftprof.profiler.record import AdapterFacts, Machine, ModelFacts, OpTrace
from ftprof.profiler.windows import no_collection
from ftprof.profiler.workload import Call, Task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Rewrite = Callable[[], bytes]
"""Makes a rewritten graph, whose external weights lie beside the file that it came from. A function, since the bytes
may hold all weights, and a session keeps its own copy."""


NO_TOKENS: tuple[int, ...] = ()
"""Which tokens end a text is known of the model that a graph was made from, not of the graph."""


class OrtEngine:
    """A graph on ONNX Runtime. Batches hold NumPy arrays by the graph's own input names.

    A graph that is fixed to a batch or a length gets it: rows are padded to the length and the last row is repeated up
    to a multiple of the batch. `onnx` are the facts of the graph that runs.
    """

    def __init__(self, directory: Path, built: Built, call: Call, device: str = "cpu") -> None:
        if device != "cpu" and built.recipe.precision == "int8":
            raise FtprofError(
                "ONNX Runtime has no CUDA kernels for int8 products, and would copy them to the CPU and back",
                "use fp32 there, or --device cpu",
            )
        onnx = onnx_facts(directory / USUAL)
        self._open(onnx, graph_facts(onnx, built.source), built.task, call, device)
        self._eos = built.eos_ids

    def _open(
        self, onnx: OnnxFacts, model: ModelFacts, task: Task, call: Call, device: str, graph: Rewrite | None = None
    ) -> None:
        check_external(onnx)
        self._eos = NO_TOKENS
        self.onnx, self.task, self.call = onnx, task, call
        self._model, self._where, self._graph = model, device, graph
        self.tokenizer = _tokenizer(onnx)
        self._feeds = _feeds(onnx)
        self._output = _output(onnx, task)
        self._session = self._new_session()

    @classmethod
    def on_file(
        cls, onnx: OnnxFacts, task: Task, call: Call, *, device: str = "cpu", graph: Rewrite | None = None
    ) -> OrtEngine:
        """The engine of a user's own file; `graph` is a rewritten one that runs in its stead, which `onnx` describes."""
        if task == "causal-lm":
            raise FtprofError(
                f"{onnx.path} is a language model's graph, which ftprof does not generate with",
                "give ftprof the Hugging Face directory that it was exported from",
            )
        engine = cls.__new__(cls)
        engine._open(onnx, graph_facts(onnx, own_facts(onnx)), task, call, device, graph)
        return engine

    def rewritten(self, onnx: OnnxFacts, graph: Rewrite) -> OrtEngine:
        """The same file with another graph. Rows are cut where they were, so that answers stay the same."""
        other = OrtEngine.on_file(onnx, self.task, self.call, device=self._where, graph=graph)
        other._model = msgspec.structs.replace(other._model, max_context=self.longest)
        other.tokenizer.model_max_length = self.longest
        return other

    def with_call(self, call: Call) -> OrtEngine:
        """The same session called in another way; a new session where the thread count differs."""
        other = OrtEngine.__new__(OrtEngine)
        other.__dict__.update(self.__dict__)
        other.call = call
        if thread_count(call.threads) != thread_count(self.call.threads):
            other._session = other._new_session()
        return other

    def _new_session(self, profile: Path | None = None) -> Any:
        weights = self.onnx.directory if self._graph is not None else None
        options = session_options(thread_count(self.call.threads), profile, weights)
        return open_session(self._graph() if self._graph else Path(self.onnx.path), options, self._where)

    @property
    def eos_id(self) -> int | None:
        """The tokenizer's own; encoders make no text, so nothing depends on it."""
        own = self.tokenizer.eos_token_id
        return None if own is None else int(own)

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """As the model that was converted has them."""
        return self._eos or (() if self.eos_id is None else (self.eos_id,))

    @property
    def pad_id(self) -> int:
        """The padding token; end-of-sequence where the tokenizer has none, else 0 (masked out anyway)."""
        for token in (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id):
            if token is not None:
                return int(token)
        return 0

    @property
    def longest(self) -> int:
        """Tokens that a row may have: the model's context, the tokenizer's limit, and the graph's fixed length."""
        limits = (self._model.max_context or 512, self.tokenizer.model_max_length, self.onnx.length)
        return int(min(limit for limit in limits if limit is not None))

    def tokenise(self, texts: Sequence[str]) -> list[list[int]]:
        encoded = self.tokenizer(list(texts), truncation=True, max_length=self.longest)
        return [list(ids) for ids in encoded["input_ids"]]

    def pad(self, ids: Sequence[Sequence[int]]) -> Batch:
        """Right padding, to what the call says or to the graph's fixed length; FtprofError for rows beyond that."""
        import numpy as np

        lengths = [len(row) for row in ids]
        length = self.onnx.length or padded_length(lengths, self.call)
        if max(lengths) > length:
            raise FtprofError(f"a row has {max(lengths)} tokens, and the graph takes {length}", "use shorter rows")
        fixed = self.onnx.batch or 1
        rows = [*ids, *[ids[-1]] * (-len(ids) % fixed)]
        tokens = np.full((len(rows), length), self.pad_id, dtype=np.int64)
        mask = np.zeros_like(tokens)
        for place, row in enumerate(rows):
            tokens[place, : len(row)] = row
            mask[place, : len(row)] = 1
        made = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        made["position_ids"] = np.tile(np.arange(length), (len(rows), 1))
        inputs = {name: made[meaning].astype(dtype, copy=False) for name, meaning, dtype in self._feeds}
        return Batch(inputs=inputs, tokens=tuple(lengths), length=length)

    def generate(self, batch: Batch, new_tokens: int, *, exact: bool = True) -> Generated:
        _no_generation(self.onnx.path)

    def forward(self, batch: Batch) -> None:
        for _ in self._run(batch, self._session):
            pass

    def _run(self, batch: Batch, session: Any) -> Iterator[NDArray[Any]]:
        """The task's output, by groups of the fixed batch, or all at once.

        Plain `run`: binding inputs and outputs gained nothing on CPUs (from 4 % faster to 18 % slower by shape), since
        an encoder's are small, and there is no device to keep them on.
        """
        size = self.onnx.batch or len(next(iter(batch.inputs.values())))
        try:
            for start in range(0, len(next(iter(batch.inputs.values()))), size):
                feed = {name: values[start : start + size] for name, values in batch.inputs.items()}
                yield session.run([self._output], feed)[0]
        except FtprofError:
            raise
        except Exception as error:
            raise FtprofError(
                f"ONNX Runtime failed at a batch of {size} x {batch.length}: {first_line(error)}",
                "the graph may be fixed to another size than its inputs say: export it with dynamic axes",
            ) from error

    def _outputs(self, batch: Batch) -> NDArray[np.float32]:
        """Of the real rows, as float32."""
        import numpy as np

        parts = list(self._run(batch, self._session))
        found: NDArray[np.float32] = np.concatenate(parts)[: len(batch.tokens)].astype(np.float32, copy=False)
        return found

    def logits(self, ids: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        return self._outputs(self.pad(ids))

    def embed(self, ids: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        import numpy as np

        batch = self.pad(ids)
        found = self._outputs(batch)
        if found.ndim == 3:  # by token; some graphs pool by themselves
            real = np.arange(batch.length)[None, :] < np.array(batch.tokens)[:, None]
            found = (found * real[..., None]).sum(1) / np.maximum(real.sum(1, keepdims=True), 1)
        norms = np.linalg.norm(found, axis=-1, keepdims=True)
        vectors: NDArray[np.float32] = (found / np.maximum(norms, 1e-12)).astype(np.float32)
        return vectors

    def detokenise(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))

    def facts(self) -> ModelFacts:
        return msgspec.structs.replace(self._model, providers=tuple(self._session.get_providers()))

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
        """One phase, `forward`: totals of a second session that records a profile."""
        if new_tokens:
            _no_generation(self.onnx.path)
        with no_collection():
            taken = self._profiled(batch, repeats)
        plain, traced = _quieter([each[0] for each in taken]), _quieter([each[1] for each in taken])
        runs = [taken[place][2] for place in traced]
        return (
            op_trace(
                [run for group in runs for run in group],
                scenario=scenario,
                phase="forward",
                untraced_s=untraced["forward"],
                occurrences=len(runs),
                beside_s=fmean(taken[place][0] for place in plain),
                wall_s=sum(taken[place][1] for place in traced),
                packed=packed_nodes(Path(self.onnx.path)),
            ),
        )

    def _profiled(self, batch: Batch, repeats: int) -> list[tuple[float, float, list[ModelRun]]]:
        """Seconds of a pass, of one under the profiler, and what that recorded: a run for each group of rows."""
        with tempfile.TemporaryDirectory() as folder:
            session = self._new_session(Path(folder) / "profile")
            self._timed(batch, session)
            walls = [(self._timed(batch, self._session), self._timed(batch, session)) for _ in range(repeats)]
            runs = read_runs(Path(session.end_profiling()))
        each = len(runs) // (repeats + 1)
        groups = [runs[start : start + each] for start in range(each, len(runs), each)]
        return [(plain, traced, group) for (plain, traced), group in zip(walls, groups, strict=True)]

    def _timed(self, batch: Batch, session: Any) -> float:
        begin = time.perf_counter()
        for _ in self._run(batch, session):
            pass
        return time.perf_counter() - begin

    def foreign_nodes(self, batch: Batch) -> ForeignNodes:
        """Nodes that did not run on the first provider, and casts and copies that ONNX Runtime inserted."""
        ((_, _, runs),) = self._profiled(batch, 1)
        return foreign_nodes(runs, self._session.get_providers()[0])

    def save(self, directory: Path) -> None:
        """Copy the graph that runs, its weights, its tokenizer and configuration into a new directory."""
        if self._graph is None and (self.onnx.directory / MANIFEST).is_file():
            shutil.copytree(self.onnx.directory, directory, dirs_exist_ok=True)
            return
        directory.mkdir(parents=True, exist_ok=True)
        self.tokenizer.save_pretrained(directory)
        source = self.onnx.directory
        for name in ("config.json", *(file.name for file in self.onnx.external)):
            if (source / name).is_file():
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / name, directory / name)
        target = directory / f"{Path(self.onnx.path).stem}{SUFFIX}"
        if self._graph is None:
            shutil.copyfile(self.onnx.path, target)
        else:
            target.write_bytes(self._graph())


def open_onnx(path: str | Path, call: Call, task: Task | None = None, *, device: str = "cpu") -> OrtEngine:
    """The engine of a user's own .onnx file or directory; `task` None: as its outputs say. FtprofError with a reason."""
    onnx = onnx_facts(path)
    found = task or onnx.task
    if found is None:
        raise FtprofError(
            f"the outputs of {onnx.path} ({', '.join(port.name for port in onnx.outputs[:4])}) belong to no task",
            "ftprof runs graphs with logits by text, or with last_hidden_state",
        )
    return OrtEngine.on_file(onnx, found, call, device=device)


def _quieter(seconds: Sequence[float]) -> list[int]:
    """Positions of the shorter half, at least one: disturbances only ever lengthen."""
    return sorted(range(len(seconds)), key=lambda place: seconds[place])[: (len(seconds) + 1) // 2]


def _no_generation(path: str) -> NoReturn:
    raise FtprofError(f"{path} does not generate text", "generation runs on PyTorch or onnxruntime-genai", Exit.USAGE)


def _tokenizer(onnx: OnnxFacts) -> Any:
    from transformers import AutoTokenizer

    if onnx.tokenizer is None:
        raise FtprofError(
            f"no tokenizer (tokenizer.json, vocab.txt ...) beside {onnx.path}",
            "save the tokenizer that the model was trained with into its directory: tokenizer.save_pretrained(DIR)",
        )
    try:
        return AutoTokenizer.from_pretrained(onnx.tokenizer)
    except (OSError, ValueError, KeyError) as error:
        raise FtprofError(
            f"no usable tokenizer in {onnx.tokenizer}: {first_line(error)}", "put tokenizer.json and config.json there"
        ) from error


def _feeds(onnx: OnnxFacts) -> tuple[tuple[str, str, str], ...]:
    """(name, meaning, element type) of the inputs. FtprofError for one that no tokenizer fills."""
    known = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
    for port in onnx.inputs:
        if port.meaning not in known or port.dtype not in ("int64", "int32"):
            raise FtprofError(
                f"ftprof cannot fill the input {port.name} ({port.dtype}) of {onnx.path}",
                f"it knows {', '.join(known)} as int64 or int32",
            )
    return tuple((port.name, port.meaning, port.dtype) for port in onnx.inputs)


def _output(onnx: OnnxFacts, task: Task) -> str:
    port = onnx.output(task)
    if port is None:
        raise FtprofError(
            f"{onnx.path} has no output for {task}: {', '.join(port.name for port in onnx.outputs[:4])}",
            "export it with the head that the task needs",
        )
    return port.name
