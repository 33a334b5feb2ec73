"""What is known of a model before it is loaded."""

from __future__ import annotations

import msgspec

from ftprof.profiler.adapter_files import AdapterOnDisk
from ftprof.profiler.gguf_files import GgufFile
from ftprof.profiler.quantised import QuantisedBase
from ftprof.profiler.workload import Task


class FileSize(msgspec.Struct, frozen=True):
    """A file directly in the directory that the user gave."""

    name: str
    size_bytes: int


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known of a model before it is loaded.

    `model` is the directory of the full weights (base or merged), or the GGUF file that holds them; `adapter` is the
    adapter's directory, `tokenizer` that of the tokenizer that belongs to the fine-tune (or the GGUF file that holds
    it). `name` is for people. `base` is the base as the adapter's config (or a merged model's) records it; `base_directory` is where it lies, if it is known. `labels` is empty but for
    classifiers. `vocab_rows` is what the embedding must be resized to before the adapter is attached, None where it
    fits. `remote` is True where weights were fetched from the hub for this run. `notes` are sentences for people.
    `quantised` says how the weights are stored where that is quantised, `gguf` what the GGUF file's header says.
    `siblings` are other adapters on the same base that lie beside this one. `graph` is set where the model is a graph
    already: a user's .onnx file, or a directory that ftprof built.
    """

    model: str
    adapter: str | None
    tokenizer: str
    task: Task
    labels: tuple[str, ...]
    vocab_rows: int | None
    max_context: int | None
    name: str
    base: str | None
    base_directory: str | None
    adapter_facts: AdapterOnDisk | None
    files: tuple[FileSize, ...]
    notes: tuple[str, ...] = ()
    remote: bool = False
    trust_remote_code: bool = False
    quantised: QuantisedBase | None = None
    gguf: GgufFile | None = None
    siblings: tuple[str, ...] = ()
    graph: str | None = None

    @property
    def label_count(self) -> int:
        """How many classes the classifier tells apart; 0 for other tasks."""
        return len(self.labels)

    @property
    def given(self) -> str:
        """The directory of the fine-tune itself: the adapter's if there is one, else the model's."""
        return self.adapter or self.model
