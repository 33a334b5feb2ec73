"""What secrets look like, which names identify nobody, and which words are the report's own."""

from __future__ import annotations

import re

SECRET = "<secret>"
LEFT = r"(?<![A-Za-z0-9])"
# The issuers' own prefixes, at lengths a little below the documented ones: a cut-off key is a secret too.
KEYS = (
    LEFT + r"hf_[A-Za-z0-9]{10,}",
    LEFT + r"sk-[A-Za-z0-9_-]{16,}",
    LEFT + r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    LEFT + r"gh[pousr]_[A-Za-z0-9]{20,}",
    LEFT + r"github_pat_[A-Za-z0-9_]{20,}",
    LEFT + r"glpat-[A-Za-z0-9_-]{16,}",
    LEFT + r"xox[abeprs]-[A-Za-z0-9-]{10,}",
    LEFT + r"AIza[A-Za-z0-9_-]{30,}",
    LEFT + r"pypi-[A-Za-z0-9_-]{16,}",
    LEFT + r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
)
_KEYS = re.compile("|".join(KEYS))
_NAMED = re.compile(
    # The value after a name that says what it is: HF_TOKEN=..., aws_secret_access_key: ..., --token ...
    r"(?P<name>(?:[\w-]*(?:api[_-]?key|secret|password|passwd|credential)[\w-]*|[\w-]+[_-]token)[\"']?\s*[=:]\s*[\"']?"
    r"|--[\w-]*(?:token|password|secret|api-key)(?:\s+|=)[\"']?"
    r"|\bbearer\s+)(?!<)(?P<value>[^\s\"',;&]{6,})",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^\s/@:\"']+(?::[^\s/@\"']*)?@", re.IGNORECASE)
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}(?![\w-])")
_SECRET_NAME = re.compile(r"(?:^|_|-)(?:token|key|secret|password|passwd|credentials?)$", re.IGNORECASE)

GENERIC = frozenset(
    {
        *(
            "root",
            "user",
            "users",
            "admin",
            "administrator",
            "runner",
            "ubuntu",
            "debian",
            "docker",
            "build",
            "builder",
        ),
        *("jenkins", "git", "node", "app", "jovyan", "vscode", "nobody", "localhost", "localhost.localdomain", "vm"),
        *("codespace", "gitpod", "circleci", "travis", "buildkite-agent", "ec2-user", "sagemaker-user", "worker"),
    }
)
"""Names of accounts and machines that thousands share."""

VOCABULARY = frozenset(
    {
        *("single", "batch", "load", "tokenise", "prefill", "decode", "forward", "e2e", "ttft", "tpot", "throughput"),
        *("kept", "reverted", "refused", "failed", "cpu", "cuda", "gpu", "torch", "model", "adapter", "base", "lora"),
        *("compute", "memory", "host", "merge", "exact", "rounding", "int8", "int4", "float32", "bfloat16", "float16"),
        *(
            "attention",
            "norm",
            "head",
            "linear",
            "matmul",
            "python",
            "data",
            "test",
            "train",
            "rule",
            "default",
            "auto",
        ),
        *(
            "norm",
            "copy",
            "cast",
            "reduce",
            "view",
            "other",
            "causal-lm",
            "embedding",
            "ftprof",
            "out",
            "import",
            "from",
        ),
    }
)
"""Words that join the parts of an audit, or that its code consists of; someone of that name keeps it in their paths."""


def hide_secrets(text: str) -> str:
    """`text` with keys, tokens, passwords, credentials in addresses, and mail addresses replaced."""
    text = _KEYS.sub(SECRET, text)
    text = _ADDRESS.sub(rf"\g<scheme>{SECRET}@", text)
    text = _NAMED.sub(rf"\g<name>{SECRET}", text)
    return _EMAIL.sub("<email>", text)


def secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret."""
    return bool(_SECRET_NAME.search(name))
