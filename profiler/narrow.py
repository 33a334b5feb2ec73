"""A narrow twin of a model: all its layers and adapters, hardly any width. What is left of its time is the host's.

The same Python runs and the same operations are launched, on a few numbers each, without a profiler: the host's time
(with the fixed cost of each operation) measured on its own, so that the ledger's rows for it can be held against it.

Method: Time (docs/method.md).
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ftprof.profiler.record import HostTwin, Phase
from ftprof.profiler.units import stamped
from ftprof.profiler.windows import no_collection, seconds_by_phase

if TYPE_CHECKING:
    from ftprof.profiler.torch_engine import TorchEngine

HEAD_SIZE = 8
VOCABULARY = 512
PROMPT_TOKENS = 4
LEAST_RUNS, MOST_RUNS = 4, 12
# The names that families use for the same width; each is shrunk where the config has it.
_HIDDEN = ("hidden_size", "n_embd", "d_model", "dim", "embedding_size")
_INNER = ("intermediate_size", "n_inner", "ffn_dim", "hidden_dim", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")


def narrow_config(config: Any) -> Any:
    """A copy with heads of eight numbers and a small vocabulary; as many layers, heads and experts.

    ValueError where the config does not name a width and a head count.
    """
    narrow = copy.deepcopy(config)
    heads = next((getattr(config, name) for name in _HEADS if isinstance(getattr(config, name, None), int)), None)
    hidden = [name for name in _HIDDEN if isinstance(getattr(config, name, None), int)]
    if heads is None or not hidden:
        raise ValueError("the config names no width or no head count")
    for name in hidden:
        setattr(narrow, name, heads * HEAD_SIZE)
    for name in _INNER:
        if isinstance(getattr(config, name, None), int):
            setattr(narrow, name, 2 * HEAD_SIZE)
    if isinstance(getattr(config, "head_dim", None), int):
        narrow.head_dim = HEAD_SIZE
    narrow.vocab_size = VOCABULARY
    if isinstance(getattr(config, "decoder_vocab_size", None), int):
        narrow.decoder_vocab_size = VOCABULARY
    narrow.pad_token_id = 0
    return narrow


def narrow_engine(engine: TorchEngine) -> TorchEngine:
    """The engine around a random twin of its model, with the same adapters attached.

    ValueError (or what the model's own class raises) where no such model can be made.
    """
    import torch

    model = engine.model
    base = model.get_base_model() if engine.adapter_dir else model
    config = narrow_config(base.config)
    with torch.random.fork_rng(devices=[]):
        twin = type(base)._from_config(config, dtype=base.dtype, attn_implementation=config._attn_implementation)
        if engine.adapter_dir:
            twin = _adapted(twin, model)
    twin.eval()
    if twin.can_generate():
        _quiet_generation(twin, base)
    return engine.with_model(twin.to(engine.device), adapter_dir=engine.adapter_dir)


def _quiet_generation(twin: Any, base: Any) -> None:
    """The original's settings without those that name tokens beyond the twin's vocabulary."""
    settings = copy.deepcopy(base.generation_config)
    settings.update(eos_token_id=1, pad_token_id=0, bos_token_id=2)
    if settings.decoder_start_token_id is not None:
        settings.decoder_start_token_id = 2
    for name in (
        "suppress_tokens",
        "begin_suppress_tokens",
        "bad_words_ids",
        "forced_bos_token_id",
        "forced_eos_token_id",
    ):
        setattr(settings, name, None)
    twin.generation_config = settings


def _adapted(twin: Any, model: Any) -> Any:
    """The adapters of `model` on the twin, with fresh weights of the same kinds."""
    from peft import get_peft_model

    names = list(model.peft_config)
    cast = any(
        parameter.dtype != next(model.get_base_model().parameters()).dtype
        for name, parameter in model.named_parameters()
        if "lora_" in name
    )
    configs = {name: copy.deepcopy(model.peft_config[name]) for name in names}
    for config in configs.values():
        # Weights that a file or a decomposition of the original would give cannot be had for another width.
        if hasattr(config, "init_lora_weights"):
            config.init_lora_weights = True
    adapted = get_peft_model(twin, configs[names[0]], adapter_name=names[0], autocast_adapter_dtype=cast)
    for name in names[1:]:
        adapted.add_adapter(name, configs[name])
    adapted.set_adapter(model.active_adapter)
    return adapted


def time_twin(
    engine: TorchEngine,
    new_tokens: int,
    *,
    phases: tuple[Phase, ...],
    budget_s: float = 1.5,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[HostTwin, ...]:
    """Untraced seconds per occurrence of each phase of `engine`, a narrow twin, on one short row.

    What a phase launches does not depend on the length of its rows, so these stand for every scenario.
    """
    run = stamped(engine, engine.pad([[3] * PROMPT_TOKENS]), new_tokens)
    runs: list[tuple[int, ...]] = []
    with no_collection():
        run()
        end = clock() + budget_s
        while len(runs) < MOST_RUNS and (len(runs) < LEAST_RUNS or clock() < end):
            runs.append(run())
    return tuple(HostTwin(phase=phase, time_s=taken) for phase, taken in seconds_by_phase(runs, phases).items())
