from __future__ import annotations

import datetime
import json
import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace

from ftprof.advisors.artefact_digest import artefact_digest
from ftprof.advisors.audit import Audit, PhaseEntry
from ftprof.profiler.diagnosis import Interval
from ftprof.profiler.errors import FtprofError
from ftprof.profiler.rows import load_rows, write_rows
from ftprof.reports import check_views
from ftprof.reports.check import check
from ftprof.reports.check_budget import Budget, load_budget, parse_budget
from ftprof.reports.check_document import Checked, Judged, Site
from ftprof.reports.check_presets import PRESETS, with_preset
from ftprof.reports.check_site import look
from ftprof.reports.compare import compare
from tests.reports import example
from tests.reports.hostile import CORPUS, filled
from tests.reports.on_console import console_text
from tests.reports.test_compare import quiet

TODAY = datetime.date(2026, 12, 1)


def budget(text: str) -> Budget:
    return with_preset(parse_budget(tomllib.loads(text), "budget.toml"))


def judged(text: str, audit: Audit | None = None, site: Site | None = None) -> Checked:
    return check(audit or example.full(), budget(text), today=TODAY, site=site)


def one(found: Checked, name: str) -> Judged:
    return next(demand for demand in found.demands if demand.name == name)


@pytest.mark.parametrize(
    ("limit", "outcome", "code"),
    # The example's end-to-end time is 1.56 s (1.5288 to 1.5912).
    [
        ("1.6 s", "met", 0),
        ("1592 ms", "met", 0),
        ("1.56 s", "uncertain", 3),
        ("1.5 s", "broken", 1),
        ("2 min", "met", 0),
    ],
)
def test_a_time_is_held_by_its_interval(limit: str, outcome: str, code: int) -> None:
    found = judged(f'[latency.single]\ne2e = {{ p50 = "{limit}" }}')
    assert (one(found, "latency.single.e2e.p50").outcome, found.exit_code) == (outcome, code)


@pytest.mark.parametrize(("how", "code"), [("unreliable", 3), ("fail", 1), ("pass", 0)])
def test_uncertain_counts_as_the_budget_says(how: str, code: int) -> None:
    assert judged(f'on-uncertain = "{how}"\n[latency.single]\ne2e = {{ p50 = "1.56 s" }}').exit_code == code


def test_few_samples_have_no_interval() -> None:
    audit = example.full()
    entry = replace(audit.phases[4], time_s=replace(audit.phases[4].time_s, n=5))
    assert entry.name == "e2e"
    assert judged('[latency.single]\ne2e = { p50 = "9 s" }', replace(audit, phases=(entry,))).exit_code == 3


def test_a_phase_that_was_not_timed_fails() -> None:
    found = judged('[latency.single]\nforward = { p50 = "9 s" }')
    assert (one(found, "latency.single.forward.p50").outcome, found.exit_code) == ("not measured", 1)


def _sampled(n: int, slowest: float = 1.0) -> Audit:
    samples = (*(1.0 + i / 1e6 for i in range(n - n // 50)), *(slowest for _ in range(n // 50)))
    entry = PhaseEntry(
        scenario="single",
        name="e2e",
        time_s=Interval(median=1.0, low=0.99, high=1.01, n=n),
        ledger=None,
        samples=samples,
    )
    return replace(example.full(), phases=(entry,))


@pytest.mark.parametrize(
    ("percentile", "n", "outcome"),
    [("p99", 661, "not measured"), ("p99", 662, "met"), ("p95", 129, "not measured"), ("p95", 130, "met")],
)
def test_a_percentile_takes_its_samples(percentile: str, n: int, outcome: str) -> None:
    found = judged(f'[latency.single]\ne2e = {{ {percentile} = "1.1 s" }}', _sampled(n))
    demand = one(found, f"latency.single.e2e.{percentile}")
    assert demand.outcome == outcome
    if outcome == "not measured":
        assert f"{n} samples; {percentile.upper()} takes {n + 1}" in demand.why


def test_a_percentile_beyond_its_limit() -> None:
    # One sample in fifty takes 5 s: P99 is there, P95 is not.
    audit = _sampled(700, slowest=5.0)
    found = judged('[latency.single]\ne2e = { p95 = "1.1 s", p99 = "1.1 s" }', audit)
    assert one(found, "latency.single.e2e.p95").outcome == "met"
    assert one(found, "latency.single.e2e.p99").outcome == "broken"


def test_an_old_audit_without_samples_judges_no_percentile() -> None:
    audit = _sampled(700)
    bare = replace(audit, phases=(replace(audit.phases[0], samples=()),))
    assert (
        "holds no samples" in one(judged('[latency.single]\ne2e = { p95 = "9 s" }', bare), "latency.single.e2e.p95").why
    )


@pytest.mark.parametrize(
    ("limit", "outcome"), [("20 tok/s", "met"), ("20.5 tok/s", "uncertain"), ("21 tok/s", "broken")]
)
def test_throughput_is_the_time_turned_round(limit: str, outcome: str) -> None:
    # 32 new tokens in 1.56 s: 20.5 tok/s (20.1 to 20.9).
    found = judged(f'[throughput]\nsingle = "{limit}"')
    assert one(found, "throughput.single").outcome == outcome
    assert "20.5 tok/s" in one(found, "throughput.single").found


def test_encoders_are_counted_in_rows() -> None:
    audit = example.encoder()
    assert one(judged('[throughput]\nbatch = "4 rows/s"', audit), "throughput.batch").outcome == "met"
    with pytest.raises(FtprofError, match="counted in rows/s") as caught:
        judged('[throughput]\nbatch = "4 tok/s"', audit)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("limit", "outcome"), [("1.4 GiB", "met"), ("1.3 GiB", "broken"), ("1480 MB", "met")])
def test_peak_memory(limit: str, outcome: str) -> None:
    assert one(judged(f'[memory]\npeak = "{limit}"'), "memory.peak").outcome == outcome


@pytest.mark.parametrize(("limit", "outcome"), [("25 %", "met"), ("22 %", "uncertain"), ("20 %", "broken")])
def test_lora_share(limit: str, outcome: str) -> None:
    assert one(judged(f'[lora]\nshare = "{limit}"'), "lora.share").outcome == outcome


def test_a_share_below_the_noise_is_refused_with_the_noise_named() -> None:
    audit = quiet(control=0.08)
    assert audit.lora is not None
    audit = replace(audit, lora=replace(audit.lora, phase="e2e"))
    with pytest.raises(FtprofError, match=r"'5 %' is below the noise of this audit, 8\.\d%") as caught:
        judged('[lora]\nshare = "5 %"', audit)
    assert caught.value.exit_code == 2
    assert one(judged('[lora]\nshare = "25 %"', audit), "lora.share").outcome == "met"


@pytest.mark.parametrize(
    ("limit", "seconds", "outcome"), [("10 %", 1.5, "met"), ("10 %", 1.8, "broken"), ("20 %", 1.8, "uncertain")]
)
def test_a_change_against_the_base(limit: str, seconds: float, outcome: str) -> None:
    head = quiet(seconds)
    limits = budget(f'[change]\ne2e = "{limit}"')
    found = check(head, limits, today=TODAY, compared=compare(quiet(1.5), head))
    assert one(found, "change.e2e").outcome == outcome


def test_a_change_below_the_noise_is_refused_and_without_a_base_it_fails() -> None:
    limits = budget('[change]\ne2e = "2 %"')
    noisy = quiet(1.5, control=0.06)
    with pytest.raises(FtprofError, match=r"change.e2e = '2 %' is below the noise"):
        check(noisy, limits, today=TODAY, compared=compare(noisy, noisy))
    assert one(check(noisy, limits, today=TODAY), "change.e2e").outcome == "not measured"


@pytest.mark.parametrize(("grade", "code"), [("A", 1), ("B", 0), ("C", 0)])
def test_trust(grade: str, code: int) -> None:
    assert judged(f'[trust]\ngrade = "{grade}"').exit_code == code


def test_quality() -> None:
    text = '[quality]\nverdict = "pass"'
    assert judged(text).exit_code == 0
    assert judged(text, example.damaged()).exit_code == 1
    assert judged(text, example.no_fix()).exit_code == 0, "nothing was changed"


def test_built_in_prompts_prove_nothing_about_your_data() -> None:
    audit = example.full()
    digest = write_rows(load_rows(None, task="causal-lm").rows, "/dev/null")
    text = "[quality]\nown-data = true"
    assert judged(text, audit).exit_code == 0
    assert judged(text, replace(audit, workload=replace(audit.workload, rows_digest=digest))).exit_code == 1
    assert judged(text, replace(audit, warnings=load_rows(None, task="causal-lm").notes)).exit_code == 1


def test_findings() -> None:
    assert one(judged('[findings]\nforbid = ["unmerged-adapter"]'), "findings.unmerged-adapter").outcome == "broken"
    assert judged('[findings]\nforbid = ["disabled-kv-cache"]').exit_code == 0
    assert one(judged("[findings]\nmost = 1"), "findings.most").outcome == "broken"
    assert judged("[findings]\nmost = 2").exit_code == 0
    best = judged('subject = "best"\n[findings]\nforbid = ["unmerged-adapter"]')
    assert best.exit_code == 0, "the best variant has it merged"


def test_fixes_left_undone_by_class() -> None:
    assert one(judged('[findings]\nsafety = ["rounding"]'), "findings.unmerged-adapter").outcome == "broken"
    # Advice without a fix is no fix left undone.
    assert [demand.name for demand in judged('[findings]\nsafety = ["exact"]\nmost = 9').demands] == [
        "complete",
        "findings.most",
    ]
    reverted = replace(example.full(), trials=(replace(example.full().trials[0], status="reverted"),))
    assert judged('[findings]\nsafety = ["rounding"]\nmost = 9', reverted).exit_code == 0, (
        "it was tried and did not help"
    )


IGNORE = """
[findings]
forbid = ["unmerged-adapter"]
[[ignore]]
rule = "unmerged-adapter"
reason = "several adapters"
expires = {day}
"""


def test_an_ignore_holds_until_its_day() -> None:
    found = judged(IGNORE.format(day=TODAY))
    assert (one(found, "findings.unmerged-adapter").outcome, found.exit_code) == ("ignored", 0)
    assert "several adapters" in one(found, "findings.unmerged-adapter").why
    late = judged(IGNORE.format(day=TODAY - datetime.timedelta(days=1)))
    assert late.exit_code == 1
    assert "expired on 2026-11-30" in one(late, "ignore.unmerged-adapter").why
    assert one(late, "findings.unmerged-adapter").outcome == "broken"


def test_an_ignore_that_is_not_needed_is_named() -> None:
    found = judged(IGNORE.format(day=TODAY).replace("unmerged-adapter", "disabled-kv-cache"))
    assert "disabled-kv-cache" in found.notes[0]


def test_an_unknown_rule_is_a_slip_of_the_pen() -> None:
    with pytest.raises(FtprofError) as caught:
        judged('[findings]\nforbid = ["unmerged-adaptor"]')
    assert "did you mean unmerged-adapter?" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("latncy = 1", "unknown key 'latncy'", "did you mean latency?"),
        ('[latency.single]\ne2e = { p5 = "1 s" }', "'latency.single.e2e.p5'", "did you mean p95?"),
        ("[memory]\npeak = 3", "memory.peak: 3 is not a number with a unit", "24 GiB"),
        ('[memory]\npeak = "3 ms"', "'ms' is not a unit of size", "24 GiB"),
        ('[memory]\npeak = "GiB"', "is not a number with a unit", "24 GiB"),
        ('[latency.single]\ntpot = { p50 = "-3 ms" }', "is not a number with a unit", "200 ms"),
        ('[trust]\ngrade = "D"', "trust.grade = 'D' is not allowed", "'A', 'B', 'C'"),
        ("[latency]\nsingle = 3", "latency.single is not a table", "[table]"),
        ('[[ignore]]\nrule = "x"\nexpires = 2027-01-01', "has no reason", "reason ="),
        ('[[ignore]]\nrule = "x"\nreason = " "\nexpires = 2027-01-01', "has no reason", "reason ="),
        ('[[ignore]]\nrule = "x"\nreason = "r"', "no date on which it expires", "2027-01-31"),
        ('[[ignore]]\nrule = "x"\nreason = "r"\nexpires = "2027-01-01"', "no date", "without quotes"),
        ('[[ignore]]\nreason = "r"\nexpires = 2027-01-01', "lacks rule", "add it"),
        ('[findings]\nsafety = ["exct"]', "findings.safety", "'exact'"),
        ('preset = "release"', "preset = 'release' is not allowed", "'pre-deployment'"),
    ],
)
def test_mistakes_in_a_budget(text: str, message: str, hint: str) -> None:
    with pytest.raises(FtprofError) as caught:
        budget(text)
    assert message in caught.value.message and hint in caught.value.hint
    assert caught.value.exit_code == 2
    assert "budget.toml" in caught.value.message


def test_where_a_budget_is_found(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text('[tool.ftprof.check]\npreset = "pull-request"\n[tool.ftprof.check.trust]\ngrade = "A"\n')
    (tmp_path / "sub").mkdir()
    found, source = load_budget(None, tmp_path / "sub")
    assert found.trust is not None and found.trust.grade == "A"
    assert "pyproject.toml" in source
    project.write_text("[project]\nname = 'x'\n")
    assert load_budget(None, tmp_path) == (Budget(), "")
    with pytest.raises(FtprofError, match="cannot read"):
        load_budget(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[[[")
    with pytest.raises(FtprofError, match="not valid TOML"):
        load_budget(tmp_path / "bad.toml")


def test_nothing_demanded_is_nothing_judged() -> None:
    assert judged("").exit_code == 5


def test_an_unfinished_audit_passes_no_gate() -> None:
    found = judged('[latency.single]\ne2e = { p50 = "9 s" }', example.interrupted())
    assert (one(found, "complete").outcome, found.exit_code) == ("broken", 1)


def test_ones_own_limits_go_before_the_presets() -> None:
    mine = budget('preset = "pull-request"\n[findings]\nmost = 1\n[trust]\ngrade = "A"')
    assert mine.trust is not None and mine.trust.grade == "A"
    assert mine.findings is not None and (mine.findings.most, mine.findings.safety) == (1, ("exact",))
    assert mine.quality == PRESETS["pull-request"].quality


DEPLOYMENT = (
    "deployment.this_machine",
    "deployment.cold_start",
    "deployment.peak_at_largest_context",
    "deployment.artefact",
    "quality.verdict",
    "quality.own_data",
    "trust.grade",
)


def deployable() -> tuple[Audit, Site]:
    """An audit of a model that is deployed as it is, fit for release; and the machine that it was made on."""
    audit = example.no_fix()
    assert audit.model.load is not None
    model = replace(audit.model, load=replace(audit.model.load, evicted=True))
    site = Site(fingerprint=audit.environment.fingerprint, directory="out", digest=audit.model.sha256)
    return replace(audit, model=model, workload=replace(audit.workload, prompt_tokens=(8160,))), site


def test_a_release_that_may_go() -> None:
    audit, site = deployable()
    found = check(audit, PRESETS["pre-deployment"], today=TODAY, site=site)
    assert found.exit_code == 0, found.headline
    assert {demand.name for demand in found.demands} >= set(DEPLOYMENT)


def test_each_demand_of_a_release_can_fail_alone() -> None:
    audit, site = deployable()
    assert audit.model.load is not None
    warm = replace(audit.model, load=replace(audit.model.load, evicted=False))
    cases = {
        "deployment.this_machine": (audit, replace(site, fingerprint="other")),
        "deployment.artefact": (audit, replace(site, digest="00" * 32)),
        "deployment.cold_start": (replace(audit, model=warm), site),
        "deployment.peak_at_largest_context": (
            replace(audit, workload=replace(audit.workload, prompt_tokens=(99,))),
            site,
        ),
        "quality.own_data": (replace(audit, warnings=load_rows(None, task="causal-lm").notes), site),
        "trust.grade": (replace(audit, trust=None), site),
    }
    for name, (doctored, there) in cases.items():
        found = check(doctored, PRESETS["pre-deployment"], today=TODAY, site=there)
        assert [demand.name for demand in found.demands if demand.outcome != "met"] == [name]
        assert found.exit_code == 1


def test_peak_memory_that_was_not_measured_is_said_to_be_so() -> None:
    audit, site = deployable()
    short = replace(audit, workload=replace(audit.workload, prompt_tokens=(99,)))
    found = check(short, PRESETS["pre-deployment"], today=TODAY, site=site)
    assert "not measured: the longest sample had 131 tokens" in one(found, "deployment.peak_at_largest_context").why
    served = budget('preset = "pre-deployment"\n[memory]\nlargest-context = "128 tokens"')
    assert check(short, served, today=TODAY, site=site).exit_code == 0


def test_the_files_to_be_deployed_are_looked_at(tmp_path: Path) -> None:
    audit = example.full()
    assert audit.final is not None and audit.final.artefact is not None
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    limits = budget('subject = "best"\n[deployment]\nartefact = true')
    site = look(audit, limits, tmp_path)
    assert len(site.digest) == 64 and site.directory == str(tmp_path)
    proven = replace(audit.final.artefact, sha256=site.digest)
    good = replace(audit, final=replace(audit.final, artefact=proven))
    assert one(check(good, limits, today=TODAY, site=site), "deployment.artefact").outcome == "met"
    (tmp_path / "model.safetensors").write_bytes(b"Weights")
    assert (
        one(check(good, limits, today=TODAY, site=look(good, limits, tmp_path)), "deployment.artefact").outcome
        == "broken"
    )
    gone = look(good, limits, tmp_path / "gone")
    assert "there is no " in one(check(good, limits, today=TODAY, site=gone), "deployment.artefact").why


@pytest.mark.parametrize("text", CORPUS)
def test_hostile_names_break_no_view(text: str) -> None:
    found = check(filled(example.full(), text), budget('[trust]\ngrade = "A"\n[findings]\nmost = 0'), today=TODAY)
    json.loads(check_views.as_json(found))
    comment = check_views.as_markdown(found)
    assert "<script" not in comment and "\x1b" not in comment
    assert "FAILED" in console_text(lambda console: check_views.render(found, console))


def test_views_agree() -> None:
    found = judged('[latency.single]\ne2e = { p50 = "1.5 s" }\n[trust]\ngrade = "B"')
    text = console_text(lambda console: check_views.render(found, console))
    assert json.loads(check_views.as_json(found))["exit_code"] == 1
    assert "latency.single.e2e.p50" in text and "latency.single.e2e.p50" in check_views.as_markdown(found)
    assert max(map(len, text.splitlines())) <= 80


def test_the_digest_covers_every_kind_of_weights(tmp_path: Path) -> None:
    assert artefact_digest(tmp_path) == "", "no weights prove nothing"
    seen = set()
    for name in ("model.safetensors", "model.onnx", "model.onnx.data", "huggingface/model.safetensors"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"weights")
        seen.add(artefact_digest(tmp_path))
        path.write_bytes(b"Weights")
        seen.add(artefact_digest(tmp_path))
    assert len(seen) == 8
    (tmp_path / "load.py").write_text("notes may change")
    assert artefact_digest(tmp_path) in seen
