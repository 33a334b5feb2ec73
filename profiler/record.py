"""What a run leaves behind. Every part is optional: `None` means it was not seen, never zero.

Times are seconds, sizes are bytes, rates are per second; the unit is in the field's name. Times in `OpTotal`,
`ModuleTotal` and `OpTrace` are means per occurrence of their phase (per generated token for `decode`).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ftprof.profiler.workload import Workload

Accuracy = Literal["exact", "estimated", "unknown"]
Phase = Literal["load", "tokenise", "prefill", "decode", "forward", "e2e"]


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Every kept sample in the order it was taken, and how many warm-ups were thrown away."""

    unit: str = "s"
    samples: tuple[float, ...]
    warmups: int = 0
    at: str | None = None


class PhaseTiming(msgspec.Struct, frozen=True, kw_only=True):
    """Untraced wall time of one phase. `decode` is per generated token, the others per unit."""

    scenario: str
    phase: Phase
    time_s: Measurement


class Bandwidth(msgspec.Struct, frozen=True, kw_only=True):
    """Read bandwidth of one working-set size, by matrix-vector product (what decode does)."""

    working_set_bytes: int
    dtype: str
    bytes_per_s: float


class ThreadGain(msgspec.Struct, frozen=True, kw_only=True):
    """How many times faster all threads are than one, by dtype: at matrix products, and at reading a large matrix."""

    compute: dict[str, float]
    memory: dict[str, float]


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Limits measured here. `flops_per_s` is keyed by dtype; `dispatch_s` is one tiny op called from Python."""

    device: str
    cpu: str
    cores: int
    threads: int
    memory_bytes: int
    flops_per_s: dict[str, float]
    bandwidth: tuple[Bandwidth, ...]
    dispatch_s: float
    isa: tuple[str, ...] = ()
    trace_in_s: float = 0.0
    trace_out_s: float = 0.0
    wrapper_s: float = 0.0
    thread_gain: ThreadGain | None = None
    """None with one thread, and on a GPU."""
    measured_in_s: float = 0.0
    fingerprint: str = ""


class OpTotal(msgspec.Struct, frozen=True, kw_only=True):
    """All calls of one aten op with one set of shapes. `self_s` is corrected for the profiler's cost."""

    name: str
    kind: str
    shapes: str
    dtype: str
    calls: float
    self_s: float
    flops: float | None = None
    bytes: float | None = None
    accuracy: Accuracy = "unknown"


class OpTrace(msgspec.Struct, frozen=True, kw_only=True):
    """One phase under torch.profiler. `host_s` is the time between ops, corrected; `traced_s` is as seen."""

    scenario: str
    phase: Phase
    ops: tuple[OpTotal, ...]
    host_s: float
    traced_s: float
    untraced_s: float
    events: int


class ModuleTotal(msgspec.Struct, frozen=True, kw_only=True):
    """Self time of all modules of one kind (attention, mlp, norm, lora A, ...), by wrapped `forward`s."""

    kind: str
    calls: float
    self_s: float


class LoraKind(msgspec.Struct, frozen=True, kw_only=True):
    """What LoRA costs at one kind of target (q_proj, down_proj, ...): seconds per occurrence of the phase."""

    target: str
    base_s: float
    a_s: float
    b_s: float
    rest_s: float


class ModuleTrace(msgspec.Struct, frozen=True, kw_only=True):
    """One phase with wrapped modules, no profiler. `lora_shares` has one share per repetition.

    `displaced_shares` are already taken off these: what other layers take more once the adapter is off.
    `wrapper_shares` are not: what LoRA's layers take then. One of each a pair of runs, empty where it was never off.
    """

    scenario: str
    phase: Phase
    modules: tuple[ModuleTotal, ...]
    wrapped_s: float
    untraced_s: float
    lora_kinds: tuple[LoraKind, ...] = ()
    lora_shares: tuple[float, ...] = ()
    displaced_shares: tuple[float, ...] = ()
    wrapper_shares: tuple[float, ...] = ()


class AblationPair(msgspec.Struct, frozen=True, kw_only=True):
    """Adapter on against adapter away, interleaved. `how` says what "away" was."""

    scenario: str
    phase: Phase
    how: Literal["disabled", "unloaded"]
    on_s: tuple[float, ...]
    off_s: tuple[float, ...]


class AdapterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The adapter as it lies on disk and as it was loaded. `blockers` say why it cannot be merged.

    `kind` is PEFT's name, `title` people's, with its variants ("LoRA (DoRA)"). `modules` counts adapted layers.
    `virtual_tokens` is how many tokens the adapter adds to every request, None for kinds that act in the weights.
    """

    kind: str
    rank: int | None
    alpha: float | None
    targets: tuple[str, ...]
    modules: int
    parameters: int
    file_bytes: int
    file_dtype: str
    loaded_dtype: str
    blockers: tuple[str, ...] = ()
    title: str | None = None
    virtual_tokens: int | None = None


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The model as it was really built in the worker, not as its config wished."""

    architecture: str
    model_type: str
    layers: int
    hidden_size: int
    intermediate_size: int | None
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    vocabulary: int
    parameters: int
    weight_bytes: int
    dtype: str
    attention: str
    use_cache: bool | None
    use_cache_source: str | None
    max_context: int | None
    tied: bool
    linears: tuple[tuple[int, int, int], ...] = ()
    """(in_features, out_features, how many): the weights that a forward streams, head included."""
    engine: str = "torch"
    providers: tuple[str, ...] = ()
    fixed_shape: tuple[int | None, int | None] | None = None
    """(batch, length) that a graph's inputs are fixed to; None for what varies."""
    frozen_head: bool | None = None
    """Whether the output head's weight takes no gradient; None where there is no head."""
    quantisation: str | None = None
    """How the weights are held where they are quantised ("4-bit bitsandbytes"), None where they are plain."""


class LoadSplit(msgspec.Struct, frozen=True, kw_only=True):
    """Cold load of a fresh process. `first_use_s` is the first forward minus a steady one: mapped files pay there."""

    import_s: float
    build_s: float
    adapter_s: float
    first_use_s: float
    file_bytes: int
    evicted: bool
    read_bytes: int | None = None
    disk_bytes_per_s: float | None = None
    warm_s: float | None = None
    """Building and attaching once more in a second process, which found the files in the file cache."""


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Peak resident memory of the worker, and what of it is known."""

    peak_bytes: int
    weight_bytes: int
    adapter_bytes: int
    before_load_bytes: int | None = None


class PaddingFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts of the batch scenario under the user's call, and under length order with dynamic padding."""

    scenario: str
    real_tokens: int
    padded_tokens: int
    bucketed_tokens: int
    batches: tuple[tuple[int, int], ...]
    """(rows, padded length) of each batch as called."""
    bucketed_batches: tuple[tuple[int, int], ...]


class HostFrame(msgspec.Struct, frozen=True, kw_only=True):
    """A Python frame seen by pyinstrument and its share of the sampled self time (names only, never for timing)."""

    function: str
    file: str
    share: float


class PhaseWaits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds per occurrence of a phase in calls that read or write files (`io_s`) or wait for others (`sync_s`)."""

    scenario: str
    phase: Phase
    io_s: float
    sync_s: float


class HostTwin(msgspec.Struct, frozen=True, kw_only=True):
    """Untraced seconds per occurrence of a phase of the same model with all widths shrunk: host and dispatch alone."""

    phase: Phase
    time_s: tuple[float, ...]


class Doubling(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds per occurrence of a phase on some rows, and on each of them twice, taken in turns."""

    scenario: str
    phase: Phase
    once_s: tuple[float, ...]
    twice_s: tuple[float, ...]


class ThreadScaling(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds per occurrence of a phase with one thread and with `threads`, taken in turns."""

    scenario: str
    phase: Phase
    threads: int
    one_s: tuple[float, ...]
    all_s: tuple[float, ...]


class Pretokenised(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of a unit with its tokeniser and without, taken in turns, and of the tokeniser as timed inside the first."""

    scenario: str
    tokenise_s: tuple[float, ...]
    whole_s: tuple[float, ...]
    without_s: tuple[float, ...]


class DeviceSample(msgspec.Struct, frozen=True, kw_only=True):
    """One NVML reading; None for what this device, its driver or a MIG slice does not answer.

    `at_s` counts from the first reading. `energy_j` is the device's own counter. `utilisation` only says that some
    kernel was running (0 to 1); `sm`, `tensor` and `dram` are busy shares since the reading before (GPM, Hopper on).
    """

    at_s: float
    power_w: float | None = None
    energy_j: float | None = None
    memory_bytes: int | None = None
    utilisation: float | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    held_back: tuple[str, ...] | None = None
    sm: float | None = None
    tensor: float | None = None
    dram: float | None = None


class ProbeCase(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to time before deciding.

    kind `forward`: shape (rows, length). kinds `prefill` and `decode`: shape (rows, prompt length, decode steps), seconds to
    the first token and of a step after it; the same run answers both. Their variant is a state of the model
    ("attention:sdpa", "weights:bfloat16", "adapter:bfloat16", "head:thawed"; "" as loaded), or "cache" or "no-cache".
    kind `depth`: shape (layers, rows, length, 1 for a decode step after it, else 0), variant "runtime:precision"
    (torch:float32+eager+no-cache, genai:int8, ort:int8-static, ...): one pass of a copy of the model with that many layers.
    """

    rule: str
    kind: Literal["forward", "prefill", "decode", "depth"]
    shape: tuple[int, ...]
    variant: str = ""


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe took, interleaved with the other cases of its rule; `error` says why it could not be run."""

    case: ProbeCase
    samples_s: tuple[float, ...]
    error: str | None = None


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The only input of the diagnosis and of every rule."""

    workload: Workload | None = None
    machine: Machine | None = None
    model: ModelFacts | None = None
    adapter: AdapterFacts | None = None
    timing: tuple[PhaseTiming, ...] | None = None
    ops: tuple[OpTrace, ...] | None = None
    modules: tuple[ModuleTrace, ...] | None = None
    ablation: tuple[AblationPair, ...] | None = None
    load: LoadSplit | None = None
    memory: Memory | None = None
    padding: PaddingFacts | None = None
    frames: tuple[HostFrame, ...] | None = None
    waits: tuple[PhaseWaits, ...] | None = None
    twin: tuple[HostTwin, ...] | None = None
    doubling: tuple[Doubling, ...] | None = None
    threads: tuple[ThreadScaling, ...] | None = None
    pretokenised: Pretokenised | None = None
    samples: tuple[DeviceSample, ...] | None = None
    token_energy_j: float | None = None
    device_notes: tuple[str, ...] = ()
    probes: tuple[ProbeResult, ...] | None = None
    warnings: tuple[str, ...] = ()

    def times(self, scenario: str, phase: str) -> tuple[float, ...]:
        """Untraced samples of a phase in seconds; empty where it was not timed."""
        for timing in self.timing or ():
            if (timing.scenario, timing.phase) == (scenario, phase):
                return timing.time_s.samples
        return ()
