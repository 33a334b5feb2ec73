"""What a whole variant is held to: the limits of its laxest change. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ftprof.advisors.advise import ORDER
from ftprof.advisors.rules import get_rule
from ftprof.profiler.judge_limits import ROW_OF, TOKENS, Row
from ftprof.profiler.quality import Safety


def laxest(names: Sequence[str], dtype: str) -> tuple[Safety, Row]:
    """Class and limits of a whole variant: its laxest change decides, since quality is judged against the original.

    Other rounding is small in fp32, so such a variant is held to the tighter row; in 16 bit the same fix rounds more.
    """
    rules = [get_rule(name) for name in names]
    safety = max((rule.safety for rule in rules), key=ORDER.index)
    rounding: Row = "equivalent" if dtype == "float32" else ROW_OF["rounding"]
    rows = [rule.gate or (rounding if rule.safety == "rounding" else ROW_OF[rule.safety]) for rule in rules]
    return safety, max(rows, key=list(TOKENS).index)
