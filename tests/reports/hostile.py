"""Names that people, or attackers, give to models, modules and files; and audits that are full of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import get_args

import msgspec

from ftprof.advisors.audit import Audit, Status
from ftprof.profiler.comparison import Verdict
from ftprof.profiler.diagnosis import Bound
from ftprof.profiler.quality import QualityVerdict, Safety
from ftprof.profiler.record import Accuracy, Phase
from ftprof.profiler.workload import Attention, Dtype, Order, Padding, Task
from ftprof.reports.wording import FIGURES

CORPUS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></title></script><svg onload=alert(1)>",
    "]]> <!-- --> &amp; &#60;b&#62;",
    "{{ 7 * 7 }}{% raw %}",
    "a|b `c` *d* _e_ [f](http://g.example) ![h](https://i.example/j.png) ~~k~~",
    "@octocat closes #1 and GH-2, see www.example.com",
    "\n# heading\n\n* item\n\n```\nfence\n````\n</details>",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07\x08\x7f\x9b",
    "::error::stop ##[group]x",
    "\u202egnp.exe\u2066\u200b\ufeff\u2028\u2029",
    "$\\frac{1}{2}$ 100% \\n \\u0000",
    "[bold red]markup[/] [link=http://x.example]y[/link]",
    "模型 مرحبا שלום 🤗 e\u0301",
    "\ud800 lone surrogate \x00",
    "x" * 5000,
    "=cmd|' /C calc'!A0",
)
FIXED = {
    *get_args(Task),
    *get_args(Dtype),
    *get_args(Attention),
    *get_args(Padding),
    *get_args(Order),
    *get_args(Safety),
    *get_args(QualityVerdict),
    *get_args(Verdict),
    *get_args(Bound),
    *get_args(Status),
    *get_args(Accuracy),
    *get_args(Phase),
    *FIGURES,
    *("single", "batch", "ok", "merge", "A", "B", "C", "D", "off"),
}
"""Values that the types fix, and keys that join one part of an audit to another: no file can change these."""


def filled(audit: Audit, *texts: str) -> Audit:
    """`audit` with one of `texts`, in turn, in place of every string that comes from outside."""
    return msgspec.convert(_filled(msgspec.to_builtins(audit), cycle(texts)), Audit)


def _filled(value: object, texts: Iterator[str]) -> object:
    if isinstance(value, str):
        return value if value in FIXED else next(texts)
    if isinstance(value, list | tuple):
        return [_filled(item, texts) for item in value]
    if not isinstance(value, dict):
        return value
    # The keys of a mapping of numbers or texts are names from outside; those of a struct are not.
    foreign = value and all(isinstance(item, float | str) for item in value.values()) and not set(value) & STRUCT_KEYS
    return {
        (f"{index}{next(texts)}" if foreign and key not in FIXED else key): _filled(item, texts)
        for index, (key, item) in enumerate(value.items())
    }


STRUCT_KEYS = {
    *("rule", "name", "title", "what", "function", "path", "python", "speedup", "share", "median", "compute_s"),
    *("value", "working_set_bytes", "scenario", "phase", "dtype", "import_s", "summary", "peak_bytes", "objective"),
}
