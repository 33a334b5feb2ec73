"""Audits as the tool writes them, with figures like those of the bundled samples; and what can go wrong with them."""

from __future__ import annotations

from msgspec.structs import replace

from ftprof.advisors.audit import (
    AdviceEntry,
    Artefact,
    Audit,
    BaseDifference,
    Control,
    Environment,
    Final,
    ModelEntry,
    PhaseEntry,
    Predicted,
    Settings,
    Trade,
    Trial,
    Trust,
)
from ftprof.advisors.rule import Evidence, Finding, PredictedRatio
from ftprof.profiler.comparison import Comparison
from ftprof.profiler.diagnosis import Diagnosis
from ftprof.profiler.quality import Bounded, QualityCheck
from ftprof.profiler.record import HostFrame
from ftprof.profiler.workload import Call, Change, Scenario, Workload
from tests.reports.parts import diagnosis, interval, lora, machine, model, phase, quality, ratio

MERGE = Change(rule="unmerged-adapter")
LOAD_LINES = """from transformers import AutoModelForCausalLM, AutoTokenizer
model = AutoModelForCausalLM.from_pretrained("out/faster")
tokenizer = AutoTokenizer.from_pretrained("out/faster")"""


def predicted(speedup: float, basis: str = "LoRA's share by attribution") -> Predicted:
    """A prediction for the end-to-end and decode times of the single scenario."""
    guess = PredictedRatio(speedup=speedup, low=speedup * 0.92, high=speedup * 1.09)
    return Predicted(ratios={"single": {"e2e": guess, "decode": guess}}, basis=basis, at="2026-11-30T16:41:07Z")


def trials() -> tuple[Trial, ...]:
    """One trial of every status."""
    merge = ratio(1.58)
    return (
        Trial(
            rule="unmerged-adapter",
            title="Merge the adapter into the weights",
            safety="rounding",
            status="kept",
            why="The lower bound 1.50 is above 1.01 and the outputs passed.",
            change=MERGE,
            predicted=predicted(1.49),
            measured={"single": {"e2e": merge, "decode": ratio(1.61), "prefill": ratio(1.12)}},
            objective=merge,
            quality=quality(),
            artefact="trials/1",
            seconds=41.2,
            log_error=-0.058,
        ),
        Trial(
            rule="fp32-weights",
            title="Load the weights as bfloat16",
            safety="rounding",
            status="reverted",
            why="the objective became slower",
            base=(MERGE,),
            change=Change(rule="fp32-weights", options={"dtype": "bfloat16"}),
            predicted=predicted(1.08, "probe of the model's own shapes"),
            measured={"single": {"e2e": ratio(0.81, "slower"), "decode": ratio(0.77, "slower")}},
            objective=ratio(0.81, "slower"),
            quality=quality(identical=13),
            seconds=38.0,
            log_error=0.29,
        ),
        Trial(
            rule="padded-batches",
            title="Sort the rows by length and pad each batch to its longest",
            safety="exact",
            status="kept",
            why="",
            base=(MERGE,),
            change=Change(rule="padded-batches"),
            measured={"batch": {"e2e": ratio(1.31)}, "single": {"e2e": ratio(1.02, "equivalent", 0.01)}},
            objective=ratio(1.02, "faster", 0.008),
            quality=quality(),
            trades=(Trade(scenario="batch", phase="prefill", ratio=ratio(0.88, "slower", 0.03)),),
            seconds=30.1,
        ),
        Trial(
            rule="eager-attention",
            title="Use SDPA attention",
            safety="rounding",
            status="failed",
            why="The worker died (signal 9) after 12 s; it may have run out of memory.",
            predicted=predicted(1.2),
        ),
        Trial(
            rule="fp32-adapter",
            title="Load the adapter in the dtype of its base",
            safety="rounding",
            status="refused",
            why="the adapter is merged already",
        ),
        Trial(
            rule="disabled-kv-cache",
            title="Switch the key-value cache on",
            safety="exact",
            status="not_tried",
            why="the budget was spent",
            predicted=predicted(3.4),
        ),
    )


def settings(**changes: object) -> Settings:
    """The default choices."""
    plain = Settings(
        objective="e2e",
        objective_scenario="single",
        objective_phase="e2e",
        max_loss="int8",
        budget_s=300.0,
        spent_s=274.0,
        complete=True,
    )
    return replace(plain, **changes)


def advice() -> tuple[AdviceEntry, ...]:
    """One entry of each kind; those tried have their trial."""
    finding = Finding(
        summary="The adapter is applied as two small matrix products at each of 210 layers.",
        scenario="single",
        phase="decode",
        at_stake_s=0.0099,
        evidence=(
            Evidence(name="LoRA's share of decode", value=0.221, unit="of 1", condition="at least 0.05"),
            Evidence(name="modules wrapped", value=210, condition="at least 1"),
        ),
        where=("model.layers.*.self_attn.q_proj", "model.layers.*.mlp.down_proj"),
    )
    loading = Finding(
        summary="4.9 s of the cold load of 6.9 s are imports.", scenario="single", phase="load", at_stake_s=4.9
    )
    return (
        AdviceEntry(
            rule="unmerged-adapter",
            title="Merge the adapter into the weights",
            safety="rounding",
            finding=finding,
            predicted=predicted(1.49),
            steps="model = model.merge_and_unload()\nmodel.save_pretrained('merged')",
        ),
        AdviceEntry(
            rule="slow-weight-load",
            title="Load from safetensors on a local disk",
            safety="exact",
            finding=loading,
            fixable=False,
            steps="Keep one process alive instead of starting one for each request.",
        ),
        AdviceEntry(rule="healthy", title="Nothing to do", safety="exact", finding=None),
        AdviceEntry(
            rule="broken-rule", title="A rule with a fault", safety="exact", finding=None, error="KeyError: 'decode'"
        ),
    )


def final() -> Final:
    """The best variant against the original."""
    return Final(
        changes=(MERGE, Change(rule="padded-batches")),
        comparison=Comparison(
            ratios={
                "single": {"e2e": ratio(1.58), "decode": ratio(1.61), "prefill": ratio(1.12)},
                "batch": {"e2e": ratio(1.4), "prefill": ratio(0.88, "slower", 0.03)},
            },
            design="ABBA quads in fresh processes",
            processes=3,
            seconds=40.0,
        ),
        objective=ratio(1.58),
        quality=quality(),
        phases=(phase("single", "decode", 0.0277, "memory"),),
        trades=(Trade(scenario="batch", phase="prefill", ratio=ratio(0.88, "slower", 0.03)),),
        before={
            "single": {"e2e": interval(1.56), "decode": interval(0.0446), "prefill": interval(0.187)},
            "batch": {"e2e": interval(3.2), "prefill": interval(0.9)},
        },
        after={
            "single": {"e2e": interval(0.987), "decode": interval(0.0277), "prefill": interval(0.167)},
            "batch": {"e2e": interval(2.29), "prefill": interval(1.02)},
        },
        artefact=Artefact(path="out/faster", load=LOAD_LINES, sha256="cd34" * 16, size_bytes=542_000_000, reload="ok"),
        load_lines=LOAD_LINES,
    )


def full() -> Audit:
    """A finished audit of a LoRA fine-tune, with a trial of every status, a trade and a saved model."""
    found = diagnosis()
    return Audit(
        ftprof_version="0.1.0",
        created="2026-11-30T16:44:10Z",
        command="ftprof diagnose samples/smollm2-tickets --save out/faster",
        settings=settings(guards={"ttft": 1.1}),
        environment=Environment(
            python="3.11.2",
            platform="Linux-6.1-x86_64",
            packages={"torch": "2.13.0", "transformers": "5.24.0", "peft": "0.21.2"},
            variables={"OMP_NUM_THREADS": "2"},
            start_method="forkserver",
            fingerprint="9b1f",
            commit="5e1f0c" * 6 + "7a2b",
        ),
        machine=machine(),
        model=model(),
        workload=Workload(
            model="samples/smollm2-tickets",
            adapter="samples/smollm2-tickets",
            task="causal-lm",
            rows="rows.jsonl",
            rows_digest="77aa" * 16,
            prompt_tokens=(61, 64, 72, 80),
            scenarios=(Scenario(name="single", units=((0,), (1,))), Scenario(name="batch", units=((0, 1, 2, 3),))),
            new_tokens=32,
            call=Call(batch_size=8),
        ),
        phases=tuple(
            PhaseEntry(scenario=entry.scenario, name=entry.name, time_s=entry.time_s, ledger=entry.ledger)
            for entry in found.phases
        ),
        diagnosis=found,
        base_diff=(
            BaseDifference(what="adapter", base="none", tuned="LoRA, rank 8, 210 modules", cost="9.9 ms per token"),
            BaseDifference(what="vocabulary", base="49152", tuned="49152"),
        ),
        lora=lora(),
        frames=(
            HostFrame(function="forward", file="peft/tuners/lora/layer.py", share=0.31),
            HostFrame(function="_call_impl", file="torch/nn/modules/module.py", share=0.22),
        ),
        advice=advice(),
        checked=(
            "fp32-weights: predicted 0.84x (0.78 to 0.91) on single e2e: left alone",
            "padded-batches: found nothing",
        ),
        not_applicable=("fixed-shape-export: it reads ort, and the model runs on torch",),
        trials=trials(),
        final=final(),
        trust=Trust(
            grade="B",
            reasons=("the measured limits drifted by 6% during the audit",),
            controls=(Control(scenario="single", phase="e2e", ratio=ratio(1.003, "equivalent", 0.012)),),
            drift=0.06,
            traced_ratio=1.3,
            predictions=(-0.058, 0.29),
        ),
        warnings=("2 of 64 prompts were cut to the context of the model",),
    )


def encoder() -> Audit:
    """A classifier: no adapter, phases tokenise, forward and end to end, a figure that is not proven."""
    found = Diagnosis(
        phases=(
            phase("batch", "tokenise", 0.004, "host"),
            phase("batch", "forward", 0.86, "compute", work=(2.1e11, 1.1e9)),
            phase("batch", "e2e", 0.865, "compute"),
        )
    )
    check = QualityCheck(
        verdict="pass",
        safety="rounding",
        figures={
            "label_agreement": Bounded(value=1.0, low=0.993, high=1.0, limit=0.99, passed=True),
            "accuracy_change": Bounded(value=-0.002, low=-0.011, high=0.007),
        },
        documents=400,
        flips=0,
    )
    speed = ratio(1.82)
    trial = Trial(
        rule="eager-attention",
        title="Use SDPA attention",
        safety="rounding",
        status="kept",
        why="",
        change=Change(rule="eager-attention"),
        measured={"batch": {"forward": speed}},
        objective=speed,
        quality=check,
    )
    base = full()
    return replace(
        base,
        settings=settings(objective="throughput", objective_scenario="batch", objective_phase="forward"),
        model=replace(base.model, name="minilm-tickets", task="sequence-classification", adapter=None, padding=None),
        workload=replace(base.workload, task="sequence-classification", adapter=None, new_tokens=0),
        phases=tuple(
            PhaseEntry(scenario=entry.scenario, name=entry.name, time_s=entry.time_s, ledger=None)
            for entry in found.phases
        ),
        diagnosis=found,
        lora=None,
        advice=(),
        trials=(trial,),
        final=Final(
            changes=(Change(rule="eager-attention"),),
            comparison=Comparison(ratios={"batch": {"forward": speed}}, design="ABBA", processes=3),
            objective=speed,
            quality=check,
            load_lines='model = AutoModel.from_pretrained("minilm-tickets", attn_implementation="sdpa")',
        ),
        warnings=(),
    )


def bare() -> Audit:
    """Nothing but what must be there: stopped before anything was measured."""
    base = full()
    return Audit(
        ftprof_version="0.1.0",
        created=base.created,
        command="ftprof diagnose model/",
        settings=settings(complete=False, spent_s=0.0),
        environment=Environment(python="3.11.2", platform="Linux", packages={}),
        model=ModelEntry(name="model", path="model/", base=None, task="embedding", sha256="00" * 32),
        workload=Workload(model="model/", task="embedding", rows="rows.jsonl", rows_digest="00"),
    )


def interrupted() -> Audit:
    """Stopped after two trials, before the final comparison."""
    base = full()
    return replace(base, settings=settings(complete=False), trials=base.trials[:2], final=None, trust=None)


def no_fix() -> Audit:
    """`--no-fix`: diagnosed, advised, nothing tried."""
    return replace(full(), settings=settings(fixes=False), trials=(), final=None)


def nothing_helped() -> Audit:
    """Every fix reverted."""
    base = full()
    unchanged = Final(changes=(), comparison=None, objective=None, quality=None)
    return replace(base, trials=base.trials[1:2], final=unchanged)


def damaged() -> Audit:
    """The best variant turned out to change the outputs, and its artefact does not load."""
    base = full()
    assert base.final is not None and base.final.artefact is not None
    broken = replace(base.final.artefact, reload="failed", reload_detail="size mismatch for lm_head.weight")
    checked = replace(base.final, quality=replace(quality("fail", 2), why="KL 0.41 > 0.005"), artefact=broken)
    return replace(base, final=checked)


VARIANTS = {
    "full": full,
    "encoder": encoder,
    "bare": bare,
    "interrupted": interrupted,
    "no_fix": no_fix,
    "nothing_helped": nothing_helped,
    "damaged": damaged,
}
