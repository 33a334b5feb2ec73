"""The public traces that lie beside the repository; a test is skipped where they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "traces"


def public(pattern: str) -> Path:
    """The one trace that matches; skips the test where the collection is absent."""
    if not FOLDER.is_dir():
        pytest.skip(f"the collection of public traces is not at {FOLDER}")
    found = sorted(FOLDER.glob(pattern))
    assert len(found) == 1, f"{pattern}: {found}"
    return found[0]


BERT = "tracelens/h100/gaunernst*"
VIT = "tracelens/h100/Falconsai*"
QWEN = "tracelens/h100/Qwen*"
TIMESFORMER = "tracelens/h100/*timesformer*"
OWL = "tracelens/h100/google_owlv2*"
B200 = "tracelens/b200/*"
SGLANG_DECODE = "tracelens/inference/sglang_decode/*"
VLLM_DECODE = "tracelens/inference/vllm_decode_full/*"
MI210 = "tracelens/mi210/*/*.gz"
STREAMS = "hta/timeline_analysis/*"
OLD = "kineto/test/*"
SYNC = "hta/critical_path/cuda_event_sync_multi_stream/*"
FFMA = "nsys/h100_2gpu_1s.sqlite"
