"""What the fork server imports before it forks workers: imports only, never an operation.

One parallel operation before the fork leaves the children with a thread pool whose threads do not exist, and the
first operation of every worker hangs for ever.
"""

from __future__ import annotations

import time

_begin = time.perf_counter()

import peft  # noqa: F401
import torch  # noqa: F401
import transformers
import transformers.generation.utils
from transformers.models.auto import modeling_auto, tokenization_auto  # noqa: F401

IMPORT_S = time.perf_counter() - _begin
"""Seconds that the imports took in this process or in the fork server that it came from."""

transformers.logging.set_verbosity_error()
