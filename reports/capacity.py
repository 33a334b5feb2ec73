"""How much context and batch the memory holds: the key-value cache from the model's shape, on top of the measured peak."""

from __future__ import annotations

from ftprof.advisors.audit import Audit
from ftprof.reports import units
from ftprof.reports.compare_counts import kv_bytes_per_token
from ftprof.reports.table import Table, table

CONTEXTS = (512, 2048, 8192, 32768, 131072)
BATCHES = (1, 8, 32)
CAPTION = "Key-value cache by context and batch"


def capacity(audit: Audit) -> Table:
    """Bytes of the cache, and whether they fit beside what the run already took; no rows where there is no cache."""
    a_token, facts = kv_bytes_per_token(audit), audit.model.facts
    if a_token is None or facts is None:
        return table(CAPTION, ("Context", "Batch"), [])
    longest = facts.max_context
    contexts = [length for length in CONTEXTS if longest is None or length < longest]
    contexts += [longest] if longest else []
    batches = sorted({*BATCHES, audit.workload.call.batch_size})
    rows = [
        (units.count(length), *(_cell(audit, a_token * length * batch) for batch in batches)) for length in contexts
    ]
    head = ("Tokens of context", *(f"Batch of {batch}" for batch in batches))
    note = "Computed from the model's shape, not measured; activations, which grow with the batch, come on top."
    if _room(audit) is not None:
        note += " Fits: beside the peak that was measured, in the memory of this machine."
    return table(CAPTION, head, rows, note=note)


def _cell(audit: Audit, count: float) -> str:
    room = _room(audit)
    return units.size(count) if room is None else f"{units.size(count)}, {'fits' if count <= room else 'does not fit'}"


def _room(audit: Audit) -> float | None:
    """Bytes that the run left free; None where that is not known: of a GPU, or without a measured peak."""
    machine, memory = audit.machine, audit.model.memory
    if machine is None or memory is None or not machine.memory_bytes or machine.device != "cpu":
        return None
    return float(machine.memory_bytes - memory.peak_bytes)
