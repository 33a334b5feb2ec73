"""The recipe of a run: everything a fresh process needs to rebuild and repeat it."""

from __future__ import annotations

from typing import Literal

import msgspec

Task = Literal["causal-lm", "seq2seq-lm", "sequence-classification", "embedding"]
Dtype = Literal["auto", "float32", "bfloat16", "float16"]
Attention = Literal["auto", "eager", "sdpa", "flash_attention_2"]
Padding = Literal["longest", "max_length"]
Order = Literal["arrival", "length"]
Scalar = str | int | float | bool


Options = dict[str, Scalar]


def generates(task: Task) -> bool:
    """Whether the task is to write text token by token: its phases are `prefill` and `decode`, where others have one
    `forward`. The prefill of a sequence-to-sequence model is its encoder and the first step of its decoder."""
    return task in ("causal-lm", "seq2seq-lm")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A fix as data: which rule, with which options. Applied by a worker when it builds the workload."""

    rule: str
    options: Options = {}

    @property
    def key(self) -> str:
        """Names the change among all others: `int4-weights (mixed)`."""
        return labelled(self.rule, self.options)


def labelled(name: str, options: Options) -> str:
    """The name with the values of its options in brackets; as it is without any."""
    return f"{name} ({', '.join(str(value) for value in options.values())})" if options else name


class Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the user calls the model; the defaults are what a plain `from_pretrained` and a padded batch do.

    `use_cache=None` means "as the directory's generation_config.json says". `adapter_autocast` is PEFT's
    `autocast_adapter_dtype`: True upcasts bf16 and fp16 adapter weights to fp32 at load. `keep_adapter` says that
    several adapters share the base and are switched at run time, so that none may be merged into it.
    """

    dtype: Dtype = "auto"
    attention: Attention = "auto"
    padding: Padding = "longest"
    pad_to: int | None = None
    order: Order = "arrival"
    batch_size: int = 8
    new_tokens: int | None = None
    use_cache: bool | None = None
    adapter_autocast: bool = True
    keep_adapter: bool = False
    threads: int | None = None


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One way of using the model. `units[i]` are the row numbers that one timed sample runs over.

    `new_tokens` is set where a sample of this scenario makes another number than the workload's. `repeats` is how often
    a sample runs its unit: short ones are run several times and averaged, since a clock's jitter is not the model's.
    """

    name: Literal["single", "batch"]
    units: tuple[tuple[int, ...], ...]
    new_tokens: int | None = None
    repeats: int = 1


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What is run. `rows` is a JSON-lines file of normalised `Row`s; `new_tokens` is 0 for encoders.

    `built` is what a worker opens instead of the model: the directory of another runtime, set for one load, since any
    process can build it again from the changes; or the graph that the user gave.
    """

    model: str
    adapter: str | None = None
    tokenizer: str | None = None
    task: Task
    rows: str
    rows_digest: str
    prompt_tokens: tuple[int, ...] = ()
    scenarios: tuple[Scenario, ...] = ()
    new_tokens: int = 0
    call: Call = Call()
    changes: tuple[Change, ...] = ()
    built: str | None = None
    labels: tuple[str, ...] = ()
    vocab_rows: int | None = None
    device: str = "cpu"
    seed: int = 0
    trust_remote_code: bool = False

    def with_change(self, change: Change) -> Workload:
        """A new workload that has `change` on top; nothing is patched in place, so nothing needs undoing."""
        return msgspec.structs.replace(self, changes=(*self.changes, change))

    def scenario(self, name: str) -> Scenario:
        """The scenario called `name`; KeyError if there is none."""
        for scenario in self.scenarios:
            if scenario.name == name:
                return scenario
        raise KeyError(name)

    def tokens(self, scenario: str) -> int:
        """New tokens a row in one sample of the scenario; 0 for encoders."""
        for found in self.scenarios:
            if found.name == scenario and found.new_tokens is not None:
                return found.new_tokens
        return self.new_tokens


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One normalised example: the text that goes in, and what the user expects out where they said so."""

    prompt: str
    completion: str | None = None
    label: str | None = None
