"""Which faults are planted in which variant. A variant has one fault, or none, so that a finding can be judged."""

from __future__ import annotations

from dataclasses import dataclass, field

CallValue = str | int | bool


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a variant differs from a healthy model."""

    sample: str
    planted: str
    dtype: str = "float32"
    # Goes to call.toml: how the user's own program would load and call the model.
    call: dict[str, CallValue] = field(default_factory=dict)
    # The file in which `use_cache` is false.
    no_cache_in: str | None = None
    long_data: bool = False
    # The adapter is left apart, on a base stored in bf16.
    unmerged_on_bf16: bool = False


SMOLLM2, MINILM = "smollm2-tickets", "minilm-tickets"

RECIPES: dict[str, Recipe] = {
    "smollm2-healthy": Recipe(
        sample=SMOLLM2,
        planted="nothing: merged, bf16, SDPA, padded to the longest, ordered by length",
        dtype="bfloat16",
        call={"dtype": "bfloat16", "attention": "sdpa", "padding": "longest", "order": "length"},
    ),
    "smollm2-merged-no-cache": Recipe(
        sample=SMOLLM2,
        planted="generation_config.json turns the key-value cache off, as training left it",
        no_cache_in="generation_config.json",
    ),
    "smollm2-merged-config-only": Recipe(
        sample=SMOLLM2,
        planted="nothing that matters: use_cache is false in config.json alone, which generate() does not read",
        no_cache_in="config.json",
    ),
    "minilm-adapter-dtype": Recipe(
        sample=MINILM,
        planted="an adapter that must stay apart and that PEFT loads in fp32 on a base in bf16, so every layer casts",
        call={"keep_adapter": True, "attention": "sdpa", "padding": "longest", "order": "length", "batch_size": 8},
        long_data=True,
        unmerged_on_bf16=True,
    ),
    "minilm-healthy": Recipe(
        sample=MINILM,
        planted="nothing: merged, bf16, SDPA, padded to the longest, ordered by length",
        dtype="bfloat16",
        call={"dtype": "bfloat16", "attention": "sdpa", "padding": "longest", "order": "length"},
    ),
    "minilm-padded": Recipe(
        sample=MINILM,
        planted="every row padded to 256 tokens, rows in order of arrival",
        call={"dtype": "bfloat16", "padding": "max_length", "pad_to": 256, "order": "arrival", "batch_size": 8},
    ),
    "minilm-fp32": Recipe(
        sample=MINILM,
        planted="fp32 where bf16 would do",
        call={"dtype": "float32", "padding": "longest", "order": "length"},
    ),
    "minilm-eager": Recipe(
        sample=MINILM,
        planted="eager attention on texts of 400 to 500 tokens",
        call={"dtype": "bfloat16", "attention": "eager", "padding": "longest", "order": "length"},
        long_data=True,
    ),
}
