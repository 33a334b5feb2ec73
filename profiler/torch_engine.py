"""The PyTorch engine: Hugging Face models, with or without a PEFT adapter, through their public calls."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import GenerationConfig, StoppingCriteria, StoppingCriteriaList

from ftprof.profiler.batching import padded_length
from ftprof.profiler.cuda_trace import DevicePhase, trace_device
from ftprof.profiler.engine import Batch, Generated
from ftprof.profiler.model_facts import adapter_facts, base_of, model_facts, output_head_weight
from ftprof.profiler.record import AdapterFacts, Machine, ModelFacts, OpTrace, Phase, PhaseWaits
from ftprof.profiler.trace import trace_ops
from ftprof.profiler.units import stamped
from ftprof.profiler.workload import Call, Task, generates

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class TokenClock(StoppingCriteria):
    """Stamps the end of each generated token; asks for nothing to stop."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stamps: list[int] = [self._now()]

    def _now(self) -> int:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter_ns()

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor, **_: Any) -> torch.BoolTensor:
        self.stamps.append(self._now())
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)  # type: ignore[return-value]


class TorchEngine:
    """A model on PyTorch. `adapter_dir` is where the attached adapter came from, None when there is none."""

    def __init__(self, model: Any, tokenizer: Any, call: Call, task: Task, adapter_dir: str | None = None) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.call = call
        self.task = task
        self.adapter_dir = adapter_dir
        self.device: torch.device = next(model.parameters()).device
        self.device_waits: dict[str, tuple[PhaseWaits, ...]] | None = {} if self._on_cuda else None
        """On a GPU the waits that its traces showed, by scenario; None elsewhere."""
        self.device_phases: tuple[DevicePhase, ...] = ()
        self.device_notes: tuple[str, ...] = ()

    @property
    def _on_cuda(self) -> bool:
        return self.device.type == "cuda"

    def _wait(self) -> None:
        """Until the device has done what was launched."""
        if self._on_cuda:
            torch.cuda.synchronize(self.device)

    def thaw_head(self) -> None:
        """Lets the output head's weight take a gradient, which decides the product that PyTorch takes; none is computed."""
        weight = output_head_weight(base_of(self.model))
        if weight is not None:
            weight.requires_grad_(True)

    def with_model(self, model: Any, *, adapter_dir: str | None = None) -> TorchEngine:
        """The same engine around another model (merged, cast, ...); without an adapter unless one is named."""
        return type(self)(model, self.tokenizer, self.call, self.task, adapter_dir)

    def with_call(self, call: Call) -> TorchEngine:
        """The same model called in another way; only settings that act at run time (cache, padding, order, batch)."""
        return type(self)(self.model, self.tokenizer, call, self.task, self.adapter_dir)

    @property
    def eos_id(self) -> int | None:
        """The token that ends a text: the tokenizer's own where the model's list of ends has several."""
        own = self.tokenizer.eos_token_id
        return int(own) if own is not None else next(iter(self.eos_ids), None)

    @property
    def pad_id(self) -> int:
        """The padding token; end-of-sequence where the tokenizer has none, else 0 (masked out anyway)."""
        for token in (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id):
            if token is not None:
                return int(token)
        return 0

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """End-of-sequence tokens, of the generation config where it has them, else of the tokenizer."""
        found = self.model.generation_config.eos_token_id if generates(self.task) else None
        if found is None:
            found = self.tokenizer.eos_token_id
        if found is None:
            return ()
        return tuple(found) if isinstance(found, list | tuple) else (int(found),)

    def tokenise(self, texts: Sequence[str]) -> list[list[int]]:
        if generates(self.task):
            encoded = self.tokenizer(list(texts))
        else:
            encoded = self.tokenizer(list(texts), truncation=True, max_length=self._longest())
        return [list(ids) for ids in encoded["input_ids"]]

    def _longest(self) -> int:
        limit = getattr(self.model.config, "max_position_embeddings", None) or 512
        return int(min(limit, self.tokenizer.model_max_length))

    def pad(self, ids: Sequence[Sequence[int]]) -> Batch:
        lengths = [len(row) for row in ids]
        length = padded_length(lengths, self.call)
        left = self.task == "causal-lm"
        return self._layout(ids, lengths, length, left=left)

    def _layout(self, ids: Sequence[Sequence[int]], lengths: list[int], length: int, *, left: bool) -> Batch:
        rows, masks = [], []
        for row, real in zip(ids, lengths, strict=True):
            filler, zeros, ones = [self.pad_id] * (length - real), [0] * (length - real), [1] * real
            rows.append(filler + list(row) if left else list(row) + filler)
            masks.append(zeros + ones if left else ones + zeros)
        inputs = {
            "input_ids": torch.tensor(rows, dtype=torch.long, device=self.device),
            "attention_mask": torch.tensor(masks, dtype=torch.long, device=self.device),
        }
        return Batch(inputs=inputs, tokens=tuple(lengths), length=length)

    def generation_config(self, new_tokens: int, *, exact: bool) -> GenerationConfig:
        """The directory's own generation settings, made greedy, with the token count fixed."""
        config = GenerationConfig.from_dict(self.model.generation_config.to_dict())
        config.update(do_sample=False, num_beams=1, temperature=None, top_p=None, top_k=None)
        config.update(max_new_tokens=new_tokens, max_length=None, pad_token_id=self.pad_id)
        config.update(min_new_tokens=new_tokens if exact else None)
        if self.call.use_cache is not None:
            config.update(use_cache=self.call.use_cache)
        return config

    @torch.inference_mode()
    def generate(self, batch: Batch, new_tokens: int, *, exact: bool = True) -> Generated:
        config = self.generation_config(new_tokens, exact=exact)
        clock = TokenClock(self.device)
        out = self.model.generate(
            **batch.inputs, generation_config=config, stopping_criteria=StoppingCriteriaList([clock])
        )
        new = self._new_tokens(out, batch).tolist()
        return Generated(tokens=tuple(self._trim(row, exact=exact) for row in new), stamps_ns=tuple(clock.stamps))

    def _new_tokens(self, out: torch.Tensor, batch: Batch) -> torch.Tensor:
        """What `generate` added, of shape (rows, new tokens)."""
        return out[:, batch.length :]

    def _trim(self, row: list[int], *, exact: bool) -> tuple[int, ...]:
        if not exact:
            for place, token in enumerate(row):
                if token in self.eos_ids:
                    return tuple(row[: place + 1])
        return tuple(row)

    @torch.inference_mode()
    def forward(self, batch: Batch) -> None:
        self.model(**batch.inputs)
        self._wait()

    @torch.inference_mode()
    def logits(self, ids: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        lengths = [len(row) for row in ids]
        causal = self.task == "causal-lm"
        # Right padding keeps the real positions of a causal model exact without position ids.
        batch = self._layout(ids, lengths, max(lengths), left=False) if causal else self.pad(ids)
        found = self.model(**batch.inputs).logits
        # Prompt-learning adapters put rows of their virtual tokens in front.
        found = found[:, -batch.length :] if causal else found
        out: NDArray[np.float32] = found.float().cpu().numpy()
        return out

    @torch.inference_mode()
    def embed(self, ids: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        batch = self.pad(ids)
        hidden = self.model(**batch.inputs).last_hidden_state[:, -batch.length :].float()
        mask = batch.inputs["attention_mask"].unsqueeze(-1).float()
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1.0)
        out: NDArray[np.float32] = torch.nn.functional.normalize(mean, dim=-1).cpu().numpy()
        return out

    def detokenise(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))

    def facts(self) -> ModelFacts:
        return model_facts(self.model, self.call)

    def adapter(self) -> AdapterFacts | None:
        return adapter_facts(self.model, self.adapter_dir) if self.adapter_dir else None

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
        run = stamped(self, batch, new_tokens)
        phases: tuple[Phase, ...] = ("prefill", "decode") if new_tokens else ("forward",)
        if not self._on_cuda:
            return trace_ops(run, scenario=scenario, phases=phases, untraced=untraced, machine=machine, repeats=repeats)
        found = trace_device(
            run,
            scenario=scenario,
            phases=phases,
            untraced=untraced,
            machine=machine,
            causal=self.task == "causal-lm",
            repeats=repeats,
        )
        self.device_waits = {**(self.device_waits or {}), scenario: found.waits}
        self.device_phases = (*self.device_phases, *found.phases)
        self.device_notes = tuple(dict.fromkeys((*self.device_notes, *found.notes)))
        return found.ops

    def save(self, directory: Path) -> None:
        """Write a directory that plain `from_pretrained` opens: weights as safetensors, config, tokenizer."""
        if self.call.use_cache is not None and generates(self.task):
            self.model.generation_config.use_cache = self.call.use_cache
        self.model.save_pretrained(directory)
        self.tokenizer.save_pretrained(directory)
