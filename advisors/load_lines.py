"""The few lines of Python that load a variant the way it was measured."""

from __future__ import annotations

from ftprof.advisors.changes import changed_call
from ftprof.advisors.rules import get_rule
from ftprof.advisors.stacking import conversion
from ftprof.advisors.worker import Loaded
from ftprof.profiler.gguf_files import pretrained
from ftprof.profiler.workload import Call, Workload

CLASSES = {
    "causal-lm": "AutoModelForCausalLM",
    "seq2seq-lm": "AutoModelForSeq2SeqLM",
    "sequence-classification": "AutoModelForSequenceClassification",
    "embedding": "AutoModel",
}
MERGE = [
    "model = PeftModel.from_pretrained(model.float(), {adapter}).merge_and_unload(safe_merge=True)",
    "model = model.to({dtype})",
]
GENAI = """import onnxruntime_genai as og
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained({directory!r})
model = og.Model({directory!r})
options = og.GeneratorParams(model)
options.set_search_options(max_length={length}, do_sample=False)
generator = og.Generator(model, options)
generator.append_tokens(tokenizer("Hello")["input_ids"])
while not generator.is_done():
    generator.generate_next_token()
print(tokenizer.decode(generator.get_sequence(0)))"""
SHOWN_LENGTH = 256
"""Tokens of prompt and answer in the lines that show how a model is used, where its context allows."""
ORT = """from transformers import AutoTokenizer
from transformers.exporters import ExportedModel

tokenizer = AutoTokenizer.from_pretrained({directory!r})
model = ExportedModel.from_pretrained({directory!r}, device="cpu")
print(model(**tokenizer(["Hello"], padding=True, return_tensors="pt")))"""


def load_lines(workload: Workload, loaded: Loaded | None, directory: str | None = None) -> str:
    """Python source. With `directory`, of the saved copy; else of the original with the changes made by hand."""
    change = conversion(workload.changes)
    convert = get_rule(change.rule).convert if change else None
    if change is not None and convert is not None:
        if directory is None:
            return "# ftprof diagnose ... --save DIR builds it and writes the lines that load it"
        context = loaded.model.max_context if loaded is not None else None
        length = min(SHOWN_LENGTH, context or SHOWN_LENGTH)
        shown = GENAI if convert(change.options).runtime == "genai" else ORT
        return shown.format(directory=directory, length=length)
    call = changed_call(workload)
    kind = CLASSES[workload.task]
    attached = loaded is not None and loaded.adapter is not None
    adapter = (directory if attached and directory else workload.adapter) if attached or directory is None else None
    model, gguf = pretrained(workload.model) if directory is None or attached else (directory, None)
    lines = [f"from transformers import AutoTokenizer, {kind}"]
    if adapter:
        lines.append("from peft import PeftModel")
    if adapter and not attached:
        lines.append("import torch")
    file = f", gguf_file={gguf!r}" if gguf else ""
    words, inside = pretrained(directory or workload.tokenizer or workload.model)
    lines.append(f"tokenizer = AutoTokenizer.from_pretrained({words!r}{f', gguf_file={inside!r}' if inside else ''})")
    saved = directory is not None and not attached
    lines.append(f"model = {kind}.from_pretrained({model!r}{file}{_options(workload, call, saved=saved)})")
    if adapter:
        lines += _adapter(workload, call, loaded, adapter, attached=attached)
    lines += [line for change in workload.changes if (line := get_rule(change.rule).load_line)]
    return "\n".join([*lines, *_advice(call, saved=saved)])


def _options(workload: Workload, call: Call, *, saved: bool) -> str:
    options = ""
    if call.dtype != "auto" and not saved:
        options += f', dtype="{call.dtype}"'
    if call.attention != "auto":
        options += f', attn_implementation="{call.attention}"'
    if workload.task == "sequence-classification" and workload.labels and not saved:
        options += f", num_labels={len(workload.labels)}, id2label={dict(enumerate(workload.labels))!r}"
    if workload.trust_remote_code:
        options += ", trust_remote_code=True"
    return options


def _adapter(workload: Workload, call: Call, loaded: Loaded | None, adapter: str, *, attached: bool) -> list[str]:
    lines = [f"model.resize_token_embeddings({workload.vocab_rows})"] if workload.vocab_rows else []
    if not attached:
        # Merged in fp32 and cast back once, as it was measured.
        dtype = f"torch.{loaded.model.dtype}" if loaded is not None else "model.dtype"
        return lines + [line.format(adapter=repr(adapter), dtype=dtype) for line in MERGE]
    if call.adapter_autocast:
        return [*lines, f"model = PeftModel.from_pretrained(model, {adapter!r})"]
    return [
        *lines,
        f"model = PeftModel.from_pretrained(model, {adapter!r}, autocast_adapter_dtype=False)",
        "model = model.to(model.get_base_model().dtype)",
    ]


def _advice(call: Call, *, saved: bool) -> list[str]:
    lines = []
    if call.use_cache and not saved:
        lines.append("model.generation_config.use_cache = True")
    if call.order == "length":
        lines.append("# sort rows by token count before batching, and restore their order afterwards")
    if call.padding == "longest" and call.order == "length":
        lines.append('# batch = tokenizer(rows, padding="longest", return_tensors="pt")')
    return lines
