"""Settings in a directory's generation_config.json, and whether ONNX Runtime GenAI's greedy search can honour them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ftprof.profiler.errors import FtprofError
from ftprof.profiler.workload import Scalar

# What changes a greedy answer and has no counterpart, by the value that means "off".
_UNSUPPORTED: dict[str, object] = {
    "num_beams": 1,
    "num_return_sequences": 1,
    "encoder_repetition_penalty": 1.0,
    "guidance_scale": 1.0,
    **dict.fromkeys(
        (
            *("bad_words_ids", "force_words_ids", "forced_bos_token_id", "forced_eos_token_id", "suppress_tokens"),
            *("begin_suppress_tokens", "sequence_bias", "exponential_decay_length_penalty", "stop_strings"),
            *("constraints", "penalty_alpha", "dola_layers", "watermarking_config", "token_healing", "max_time"),
            *("encoder_no_repeat_ngram_size", "forced_decoder_ids"),
        )
    ),
}
# What its search honours as transformers does: tried, token by token, alone and in batches.
_HONOURED: dict[str, float] = {"repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "min_length": 0}
_SAMPLING = ("do_sample", "temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")


def read_settings(directory: Path) -> dict[str, Any]:
    """The directory's generation settings; empty where it has none. FtprofError where they cannot be read."""
    path = directory / "generation_config.json"
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise FtprofError(f"cannot read {path}: {error}", "repair it, or remove it") from error
    return found if isinstance(found, dict) else {}


def refuse_unsupported(settings: Mapping[str, Any], directory: Path) -> None:
    """FtprofError where a setting changes greedy answers and GenAI has nothing like it."""
    for name, off in _UNSUPPORTED.items():
        value = settings.get(name)
        if value in (None, off, False, [], {}, 0):
            continue
        raise FtprofError(
            f"ONNX Runtime GenAI cannot honour {name}={json.dumps(value)[:80]} of {directory}/generation_config.json",
            "stay with PyTorch, or remove the setting there if your answers do not need it",
        )


def honoured(settings: Mapping[str, Any]) -> dict[str, Scalar]:
    """Search options that stand for the directory's settings; those that are off are left out."""
    return {name: settings[name] for name, off in _HONOURED.items() if settings.get(name) not in (None, off)}


def beams_note(settings: Mapping[str, Any]) -> str | None:
    """A sentence where the directory searches with beams: ftprof times and compares greedily."""
    beams = settings.get("num_beams")
    if not isinstance(beams, int) or beams < 2:
        return None
    return (
        f"generation_config.json asks for {beams} beams; timed and compared is greedy search, which decodes one sequence a "
        f"row where beams decode {beams}"
    )


def sampling_note(settings: Mapping[str, Any]) -> str | None:
    """A sentence where the directory samples: ftprof times and compares greedily, so nothing acts on these."""
    if not settings.get("do_sample"):
        return None
    named = ", ".join(f"{name}={settings[name]}" for name in _SAMPLING[1:] if settings.get(name) is not None)
    return f"The directory samples ({named or 'do_sample'}); set it in your own calls, timed and compared was greedy search."
