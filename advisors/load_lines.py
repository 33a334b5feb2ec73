"""The few lines of Python that load and call a variant the way it was measured."""

from __future__ import annotations

from ftprof.advisors.worker import Loaded, changed_call
from ftprof.profiler.workload import Call, Workload

CLASSES = {
    "causal-lm": "AutoModelForCausalLM",
    "sequence-classification": "AutoModelForSequenceClassification",
    "embedding": "AutoModel",
}


def load_lines(workload: Workload, loaded: Loaded | None, directory: str | None = None) -> str:
    """Python source. With `directory`, of the saved copy; else of the original with the changes made by hand."""
    call = changed_call(workload)
    kind = CLASSES[workload.task]
    adapter = workload.adapter is not None and directory is None
    merged = adapter and loaded is not None and loaded.adapter is None
    path = directory or workload.model
    lines = [f"from transformers import AutoTokenizer, {kind}"]
    if adapter:
        lines.append("from peft import PeftModel")
    lines.append(f"tokenizer = AutoTokenizer.from_pretrained({(directory or workload.tokenizer or workload.model)!r})")
    lines.append(f"model = {kind}.from_pretrained({path!r}{_options(call, saved=directory is not None)})")
    if adapter:
        cast = "" if call.adapter_autocast else ", autocast_adapter_dtype=False"
        lines.append(f"model = PeftModel.from_pretrained(model, {workload.adapter!r}{cast})")
    if merged:
        lines.append("model = model.merge_and_unload(safe_merge=True)")
    lines += _advice(call, directory is not None)
    return "\n".join(lines)


def _options(call: Call, *, saved: bool) -> str:
    options = ""
    if call.dtype != "auto" and not saved:
        options += f', dtype="{call.dtype}"'
    if call.attention != "auto":
        options += f', attn_implementation="{call.attention}"'
    return options


def _advice(call: Call, saved: bool) -> list[str]:
    lines = []
    if call.use_cache and not saved:
        lines.append("model.generation_config.use_cache = True")
    if call.order == "length":
        lines.append("# sort rows by token count before batching, and restore their order afterwards")
    if call.padding == "longest" and call.order == "length":
        lines.append('# batch = tokenizer(rows, padding="longest", return_tensors="pt")')
    return lines
