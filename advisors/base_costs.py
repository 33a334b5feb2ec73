"""What the fine-tune changed against its base, each with what it costs where that was measured."""

from __future__ import annotations

from ftprof.advisors.audit import BaseDifference
from ftprof.profiler.base_diff import FileDifference, differences
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.located import Located
from ftprof.profiler.record import RunRecord


def base_differences(located: Located, diagnosis: Diagnosis, record: RunRecord) -> tuple[BaseDifference, ...]:
    """The differences that the files show, with measured costs as sentences."""
    found = [
        BaseDifference(what=one.what, base=one.base, tuned=one.tuned, cost=_cost(one, diagnosis, record))
        for one in differences(located)
    ]
    return tuple(found)


def _cost(one: FileDifference, diagnosis: Diagnosis, record: RunRecord) -> str | None:
    if one.what == "adapted modules":
        return _adapter_time(diagnosis)
    if one.what == "adapter" and record.memory is not None and record.memory.adapter_bytes:
        return f"{record.memory.adapter_bytes / 1e6:.1f} MB of memory as loaded"
    return None


def _adapter_time(diagnosis: Diagnosis) -> str | None:
    lora = diagnosis.lora
    share = (lora.ablation or lora.attributed) if lora else None
    if lora is None or share is None:
        return None
    return f"{share.share:.0%} ({share.low:.0%} to {share.high:.0%}) of {lora.scenario} {lora.phase}, {share.how}"
