"""The packaged samples as `ftprof demo` uses them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ftprof.profiler.errors import FtprofError
from ftprof.samples.prepare import base_weights
from ftprof.samples.progress import Progress

HERE = Path(__file__).parent
BASES = {"smollm2-tickets": "smollm2", "minilm-tickets": "minilm"}


@dataclass(frozen=True, kw_only=True)
class Demo:
    """What `ftprof diagnose` is given: an adapter, the model it was trained on, and rows to try it with."""

    model: Path
    base: Path
    data: Path


def demo_sample(name: str = "smollm2-tickets", progress: Progress | None = None) -> Demo:
    """The sample `name`, its base fetched and converted on first use; raises what `base_weights` raises."""
    if name not in BASES:
        raise FtprofError(f"there is no sample called {name!r}", f"choose one of: {', '.join(BASES)}", 2)
    return Demo(model=HERE / name, base=base_weights(BASES[name], progress), data=HERE / "tickets" / "test.jsonl")
