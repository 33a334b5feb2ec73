"""A user's own .onnx file: what it takes, gives, holds and lacks. Weights outside the file are never read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

import msgspec

from ftprof.profiler.config_file import read_config_if_there
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.model_config import label_names
from ftprof.profiler.onnx_graph import Operators, Weights, element, operators, tensors, weights
from ftprof.profiler.workload import Task

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto, ValueInfoProto

SUFFIX = ".onnx"
USUAL = "model.onnx"
# The opset that has LayerNormalization.
_WHOLE_NORMS = 17
# Protobuf messages end at 2 GiB; whatever is larger is no ONNX file.
LARGEST_BYTES = 2**31 - 1
_TOKENIZERS = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "sentencepiece.bpe.model",
)
# BERT's inputs under the names that TensorFlow conversions give them.
ALIASES = {"input_word_ids": "input_ids", "input_mask": "attention_mask", "segment_ids": "token_type_ids"}
_HIDDEN = ("last_hidden_state", "token_embeddings")


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """An input or output of the graph. A dimension is a number, a symbol, or None where nothing is said of it."""

    name: str
    dtype: str
    dims: tuple[int | str | None, ...]

    @property
    def meaning(self) -> str:
        """The input's usual name: `input_ids` for `input_ids:0` or `input_word_ids`."""
        plain = self.name.split(":")[0].rsplit("/")[-1]
        return ALIASES.get(plain, plain)


class ExternalFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file with weights beside the graph: its name, the bytes the graph wants of it, and its size (None: missing)."""

    name: str
    wanted_bytes: int
    size_bytes: int | None


class OnnxFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What an .onnx file is. `batch` and `length` are what the inputs are fixed to, None where they vary.

    `task` is a guess by outputs and config.json, None for what ftprof cannot run. `labels` are class names (numbers as
    text where config.json has none). `tokenizer` is the directory with the tokenizer's files, None where there is none.
    """

    path: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    opset: int | None
    producer: str
    task: Task | None
    batch: int | None
    length: int | None
    weights: Weights
    operators: Operators
    external: tuple[ExternalFile, ...] = ()
    labels: tuple[str, ...] = ()
    tokenizer: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def directory(self) -> Path:
        """Where config.json would lie."""
        return Path(self.path).parent

    def output(self, task: Task) -> Port | None:
        """The output that the task reads."""
        return _classes(self.outputs) if task == "sequence-classification" else _vectors(self.outputs)


def find_onnx(path: Path) -> Path:
    """The .onnx file that `path` is or holds. FtprofError (usage) for none, or several without a model.onnx."""
    if path.is_file():
        return path
    if not path.exists():
        raise FtprofError(f"{path} does not exist", "give an .onnx file or the directory of one", Exit.USAGE)
    for folder in (path, path / "onnx"):  # exports on the hub lie in a folder of that name
        found = sorted(file for file in folder.glob(f"*{SUFFIX}") if file.is_file()) if folder.is_dir() else []
        usual = next((file for file in found if file.name == USUAL), None)
        if usual or len(found) == 1:
            return usual or found[0]
        if found:
            names = ", ".join(file.name for file in found[:4])
            raise FtprofError(f"{path} holds {len(found)} .onnx files: {names}", "name one of them", Exit.USAGE)
    raise FtprofError(f"{path} holds no .onnx file", "give an .onnx file or the directory of one", Exit.USAGE)


def read_graph(path: Path) -> ModelProto:
    """The graph without external weights. FtprofError for what is no ONNX model, and what protobuf cannot hold."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    export_again = "export the model again, or copy the file again"
    try:
        size = path.stat().st_size
        if size > LARGEST_BYTES:
            raise FtprofError(
                f"{path} has {size / 1e9:.1f} GB, and an .onnx file ends at 2.1 GB",
                "export it again with external data: weights then lie in a file beside the graph",
            )
        model = onnx.load(str(path), load_external_data=False)
    except OSError as error:
        raise FtprofError(f"cannot read {path}: {error.strerror or error}", "check the file's permissions") from error
    except (DecodeError, ValueError, RecursionError) as error:
        raise FtprofError(f"{path} is not an ONNX model, or is truncated ({size} bytes)", export_again) from error
    if not model.graph.node or not model.graph.output:
        raise FtprofError(f"{path} holds no graph ({size} bytes)", export_again)
    return model


def onnx_facts(path: str | Path) -> OnnxFacts:
    """Facts of an .onnx file or of a directory with one. FtprofError for what is no model or cannot be followed."""
    file = find_onnx(Path(path))
    model = read_graph(file)
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = tuple(_port(value) for value in model.graph.input if value.name not in stored)
    outputs = tuple(_port(value) for value in model.graph.output)
    ids = next((port for port in inputs if port.meaning == "input_ids"), inputs[0] if inputs else None)
    held, used = weights(model), operators(model)
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), None)
    external = _external(model, file)
    task = _task(inputs, outputs, file.parent)
    return OnnxFacts(
        path=str(file),
        inputs=inputs,
        outputs=outputs,
        opset=opset,
        producer=f"{model.producer_name} {model.producer_version}".strip() or "unknown",
        task=task,
        batch=_fixed(ids, 0),
        length=_fixed(ids, 1),
        weights=held,
        operators=used,
        external=external,
        labels=_labels(file.parent, outputs) if task == "sequence-classification" else (),
        tokenizer=_tokenizer(file.parent),
        notes=_notes(opset, held, used, external, task, outputs),
    )


def _port(value: ValueInfoProto) -> Port:
    tensor = value.type.tensor_type
    dims = tuple(
        int(dim.dim_value) if dim.HasField("dim_value") else (dim.dim_param or None) for dim in tensor.shape.dim
    )
    # Old exporters write -1 or 0 for what varies.
    open_ended = tuple(None if isinstance(dim, int) and dim <= 0 else dim for dim in dims)
    return Port(name=value.name, dtype=element(tensor.elem_type), dims=open_ended)


def _fixed(port: Port | None, axis: int) -> int | None:
    dim = port.dims[axis] if port and len(port.dims) > axis else None
    return dim if isinstance(dim, int) else None


def _external(model: ModelProto, graph: Path) -> tuple[ExternalFile, ...]:
    wanted: Counter[str] = Counter()
    for _, tensor in tensors(model.graph):
        if tensor.data_location == 1:  # TensorProto.EXTERNAL
            name, end = _span(tensor)
            wanted[name] = max(wanted[name], end)
    return tuple(_beside(graph, name, end) for name, end in wanted.items())


def _span(tensor: TensorProto) -> tuple[str, int]:
    """The file that a tensor lies in, and the byte that it ends at. FtprofError where that is no number."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", 0))
    except ValueError:
        offset = length = -1
    if offset < 0 or length < 0:
        raise FtprofError(f"tensor {tensor.name} has no valid place in its external file", "export the model again")
    return entries.get("location", ""), offset + length


def _beside(graph: Path, name: str, end: int) -> ExternalFile:
    """The file, which must lie in the graph's directory: a graph from elsewhere may name any file of this machine.

    The hub's cache links both the graph and its weights into one folder of blobs, which is as good.
    """
    place = graph.parent / name
    relative = name and not (PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive or "\\" in name)
    homes = (graph.parent.resolve(), graph.resolve().parent)
    if not relative or ".." in PurePosixPath(name).parts or not any(map(place.resolve().is_relative_to, homes)):
        raise FtprofError(
            f"the graph keeps weights in {name[:100] or 'a file without a name'}, which is not in {graph.parent}",
            "save the model with its external data in its own directory, as real files",
        )
    return ExternalFile(name=name, wanted_bytes=end, size_bytes=place.stat().st_size if place.is_file() else None)


def check_external(facts: OnnxFacts) -> None:
    """FtprofError where weights beside the graph are missing or cut short."""
    for file in facts.external:
        if file.size_bytes is None:
            raise FtprofError(
                f"{facts.path} keeps its weights in {file.name}, which is missing", "copy that file beside it as well"
            )
        if file.size_bytes < file.wanted_bytes:
            raise FtprofError(
                f"{file.name} has {file.size_bytes} bytes, and {facts.path} wants {file.wanted_bytes}",
                "the copy was cut short: copy the file again",
            )


def _classes(outputs: tuple[Port, ...]) -> Port | None:
    flat = [port for port in outputs if len(port.dims) == 2]
    return next((port for port in flat if port.name == "logits"), flat[0] if flat else None)


def _vectors(outputs: tuple[Port, ...]) -> Port | None:
    """Hidden states by token, else the sentence's vector."""
    named = [port for name in _HIDDEN for port in outputs if port.name == name]
    deep = [port for port in outputs if len(port.dims) == 3 and port.dtype.startswith(("float", "bfloat"))]
    flat = [port for port in outputs if port.name == "sentence_embedding"]
    return next(iter((*named, *flat, *deep)), None)


def _task(inputs: tuple[Port, ...], outputs: tuple[Port, ...], folder: Path) -> Task | None:
    names = {port.name for port in (*inputs, *outputs)}
    config = read_config_if_there(folder / "config.json")
    heads = " ".join(config.strings("architectures")) if config else ""
    if any(name.startswith(("past_key_values", "present")) for name in names) or "ForCausalLM" in heads:
        return "causal-lm"
    logits = next((port for port in outputs if port.name == "logits"), None)
    if "ForSequenceClassification" in heads or (logits is not None and len(logits.dims) == 2):
        return "sequence-classification"
    if logits is not None:  # by token: causal where it is as wide as a vocabulary, else tags, which nothing here reads
        vocabulary = config.integer("vocab_size") if config else None
        return "causal-lm" if vocabulary and logits.dims[-1] == vocabulary else None
    if any(port.name in (*_HIDDEN, "sentence_embedding") for port in outputs):
        return "embedding"
    return "embedding" if _vectors(outputs) else "sequence-classification" if _classes(outputs) else None


def _labels(folder: Path, outputs: tuple[Port, ...]) -> tuple[str, ...]:
    port = _classes(outputs)
    width = port.dims[-1] if port else None
    config = read_config_if_there(folder / "config.json")
    count = width if isinstance(width, int) else None
    if config is None:
        return tuple(f"LABEL_{number}" for number in range(count or 0))
    return label_names(config, count)


def _tokenizer(folder: Path) -> str | None:
    for place in (folder, folder.parent) if folder.name == "onnx" else (folder,):
        if any((place / name).is_file() for name in _TOKENIZERS):
            return str(place)
    return None


def _notes(
    opset: int | None,
    held: Weights,
    used: Operators,
    external: tuple[ExternalFile, ...],
    task: Task | None,
    outputs: tuple[Port, ...],
) -> tuple[str, ...]:
    found = [f"{file.name} is missing" for file in external if file.size_bytes is None]
    if (opset or _WHOLE_NORMS) < _WHOLE_NORMS:
        found.append(
            f"opset {opset} spells normalisation out in several operators; export with {_WHOLE_NORMS} or later"
        )
    if held.dtype in ("float16", "bfloat16"):
        found.append(f"weights are {held.dtype}, for which CPUs have few kernels: casts are put around the others")
    if used.foreign:
        found.append(f"ONNX Runtime has no operator {', '.join(used.foreign[:3])}")
    if task is None:
        found.append(f"the outputs {', '.join(port.name for port in outputs[:4])} belong to no task that ftprof runs")
    return tuple(found)
