"""The child process of `genai_build`: runs onnxruntime-genai's builder, which prints much and holds several copies.

`python -m ftprof.profiler.genai_child JOB` reads a `Job`, builds, and leaves an `Answer` beside it.
"""

from __future__ import annotations

import ctypes
import errno
import math
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from ftprof.profiler.sensitivity import Sensitivity
from ftprof.profiler.workload import Row

ANSWER = "answer.json"
HEAD = "/lm_head/MatMul"
Algorithm = Literal["plain", "8-bit head", "k-quant mixed", "measured"]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What the child builds: builder options as `key=value`, and for "measured" the rows and its limits."""

    directory: str
    output: str
    cache: str
    precision: Literal["fp32", "int8", "int4"]
    algorithm: Algorithm
    options: tuple[str, ...] = ()
    tied: bool = False
    keep: float = 0.0
    budget_s: float = 0.0
    rows: tuple[Row, ...] = ()
    eos_id: int | None = None
    trust_remote_code: bool = False


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """How it went. `sensitivity` and the `kept` layers only for "measured"; `no_space` where the disk filled up."""

    error: str | None = None
    unsupported: bool = False
    no_space: bool = False
    sensitivity: Sensitivity | None = None
    kept: tuple[int, ...] = ()


def build(job: Job) -> Answer:
    """Build into `job.output`."""
    from onnxruntime_genai.models.builder import create_model, parse_extra_options

    def run(output: str, precision: str, options: Sequence[str], **structured: Any) -> None:
        given = [*options, f"hf_remote={str(job.trust_remote_code).lower()}", "hf_token=false"]
        place = (None, job.directory, output, precision, "cpu", job.cache)
        create_model(*place, **parse_extra_options(*place, given, **structured))

    if job.algorithm != "measured":
        run(job.output, job.precision, job.options)
        return Answer()
    sensitivity = _measure(job)
    kept = kept_layers(sensitivity, job.keep)
    # One layer without its table and head is built in a second, and tells what the builder calls a layer's products.
    probe = Path(job.cache) / "probe"
    run(str(probe), "fp32", ["num_hidden_layers=1", "exclude_embeds=true", "exclude_lm_head=true"])
    names = [name.replace("/layers.0/", f"/layers.{layer}/") for layer in kept for name in _products(probe)]
    overrides = [{"match": {"name": name}, "type": "int8"} for name in (*names, HEAD)]
    config = {"quant_config": {"weights": {"overrides": overrides}}}
    run(job.output, job.precision, job.options, builder_config_version=2, target_options=config)
    return Answer(sensitivity=sensitivity, kept=tuple(sorted(kept)))


def check(folder: Path) -> None:
    """Open what was built and make a token: the builder writes some graphs that do not open."""
    import onnxruntime_genai as og

    model = og.Model(str(folder))
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=4, do_sample=False)
    generator = og.Generator(model, params)
    generator.append_tokens([[0, 0]])
    generator.generate_next_token()


def kept_layers(sensitivity: Sensitivity, share: float) -> tuple[int, ...]:
    """The most sensitive layers, as many as the share of all says (rounded up); worst first."""
    count = math.ceil(share * (len(sensitivity.layers) + len(sensitivity.left_out)))
    return tuple(one.layer for one in sensitivity.layers[:count])


def _measure(job: Job) -> Sensitivity:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from ftprof.profiler.sensitivity import measure, sample

    remote = job.trust_remote_code
    tokenizer = AutoTokenizer.from_pretrained(job.directory, trust_remote_code=remote)
    model = AutoModelForCausalLM.from_pretrained(job.directory, dtype="float32", trust_remote_code=remote).eval()
    return measure(model, sample(tokenizer, job.rows, job.eos_id), budget_s=job.budget_s)


def _products(folder: Path) -> list[str]:
    import onnx

    graph = onnx.load(str(folder / "model.onnx"), load_external_data=False).graph
    return [node.name for node in graph.node if node.op_type == "MatMul" and "/layers.0/" in node.name]


def no_space(error: BaseException | None) -> bool:
    """Whether the disk was full, somewhere down the chain of causes."""
    while error is not None:
        if getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _first_line(error: BaseException) -> str:
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {line[:300]}" if line else type(error).__name__


def main(job_path: str) -> int:
    """Run the job; 0 where it worked."""
    path = Path(job_path)
    job = msgspec.json.decode(path.read_bytes(), type=Job)
    try:
        answer = build(job)
        check(Path(job.output))
    except Exception as error:  # noqa: BLE001  whatever the builder raises, the parent says what it means
        import traceback

        traceback.print_exc()
        unsupported = isinstance(error, NotImplementedError) and "not currently supported" in str(error)
        answer = Answer(error=_first_line(error), unsupported=unsupported, no_space=no_space(error))
    target = path.with_name(ANSWER)
    with suppress(OSError):
        target.with_suffix(".part").write_bytes(msgspec.json.encode(answer))
        target.with_suffix(".part").replace(target)
    return 1 if answer.error else 0


def _die_with_the_parent() -> None:
    """A killed worker must not leave a builder behind; 1 is PR_SET_PDEATHSIG."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)


if __name__ == "__main__":
    _die_with_the_parent()
    sys.exit(main(sys.argv[1]))
