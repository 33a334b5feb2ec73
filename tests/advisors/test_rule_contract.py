"""What every rule must keep to, run over all of them."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

import ftprof.advisors.rules as rules_package
from ftprof.advisors.advise import advise, applies, wanted_probes
from ftprof.advisors.rule import Rule
from ftprof.advisors.rules import SECTIONS, get_rule, load_rules, read_rule
from ftprof.profiler.errors import Exit, FtprofError
from ftprof.profiler.record import RunRecord
from ftprof.profiler.workload import labelled
from tests.advisors.records import DEFECTIVE, healthy, objective, probe_seconds, probed

FOLDER = Path(str(rules_package.__file__)).parent
RULES = load_rules()
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def source(rule: Rule) -> Path:
    return FOLDER / f"{rule.name.replace('-', '_')}.py"


def filled(rule: Rule) -> tuple[RunRecord, object]:
    """The rule's defective record with its probes run."""
    record, diagnosis = DEFECTIVE[rule.name]()
    return msgspec.structs.replace(record, probes=probed(wanted_probes(record, diagnosis, [rule]))), diagnosis


def test_every_file_is_a_rule_and_every_rule_has_a_defective_record() -> None:
    files = sorted(path.stem.replace("_", "-") for path in FOLDER.glob("*.py") if path.stem != "__init__")
    assert files == [rule.name for rule in RULES] == sorted(DEFECTIVE)


@each_rule
def test_its_page_has_the_five_sections_in_order(rule: Rule) -> None:
    lines = [line for line in rule.page.splitlines() if line.startswith("## ")]
    assert lines == list(SECTIONS)
    blocks = rule.page.split("## ")[1:]
    assert all(len(block.split("\n", 1)[1].strip()) > 40 for block in blocks), "a section is empty"


@each_rule
def test_its_last_statement_builds_the_rule(rule: Rule) -> None:
    last = ast.parse(source(rule).read_text("utf-8")).body[-1]
    assert isinstance(last, ast.Assign)
    assert ast.unparse(last.targets[0]) == "RULE"
    assert 50 <= len(source(rule).read_text("utf-8").splitlines()) <= 120


@each_rule
def test_what_it_refers_to_exists(rule: Rule) -> None:
    names = {other.name for other in RULES}
    assert set(rule.conflicts) | set(rule.requires) <= names - {rule.name}
    assert set(rule.replaces) <= names
    assert set(rule.needs) <= set(RunRecord.__struct_fields__)
    assert rule.steps
    assert rule.title[0].isupper()


@each_rule
def test_it_fires_on_its_defect_within_bounds_and_changes_nothing(rule: Rule) -> None:
    record, diagnosis = DEFECTIVE[rule.name]()
    before = msgspec.json.encode((record, diagnosis))
    finding = rule.detect(record, diagnosis)
    assert finding is not None
    finding = msgspec.structs.replace(finding, options=rule.alternatives(record)[0])
    cases = rule.probes(record, finding)
    assert len(set(cases)) == len(cases)
    shared = {"depth", "passes"}
    assert all(case.rule == rule.name or case.rule in shared for case in cases)
    record_probed = msgspec.structs.replace(record, probes=probed(cases))
    prediction = rule.predict(record_probed, finding)
    for phases in prediction.ratios.values():
        for ratio in phases.values():
            assert 0 < ratio.low <= ratio.speedup <= ratio.high
    whole = max(record.times(finding.scenario, finding.phase), default=float("inf"))
    assert 0 <= finding.at_stake_s <= whole
    assert msgspec.json.encode((record, diagnosis)) == before


@each_rule
def test_its_advice_survives_the_document(rule: Rule) -> None:
    record, diagnosis = filled(rule)
    advised = advise(record, diagnosis, [rule], objective(record), now="2026-01-01T00:00:00Z")  # type: ignore[arg-type]
    keys = [labelled(rule.name, options) for options in rule.alternatives(record)]
    assert [entry.key for entry in advised.entries] == keys, advised.checked
    assert not any(entry.error for entry in advised.entries)
    assert msgspec.json.decode(msgspec.json.encode(advised), type=type(advised)) == advised


@each_rule
def test_it_has_nothing_to_advise_on_healthy_records(rule: Rule) -> None:
    for record, diagnosis in healthy():
        # Another runtime gains on that machine; on one where it does not, it must not be advised.
        seconds = (lambda case: 0.01) if rule.convert else probe_seconds
        record = msgspec.structs.replace(record, probes=probed(wanted_probes(record, diagnosis, [rule]), seconds))
        advised = advise(record, diagnosis, [rule], objective(record), now="now")
        assert advised.entries == ()


@each_rule
def test_it_is_silent_where_its_parts_were_not_seen(rule: Rule) -> None:
    record, _ = DEFECTIVE[rule.name]()
    for part in rule.needs:
        assert not applies(rule, msgspec.structs.replace(record, **{part: None}))


@each_rule
def test_a_rewrite_reaches_a_fixed_point(rule: Rule) -> None:
    record, _ = DEFECTIVE[rule.name]()
    if rule.rewrite is None:
        pytest.skip("changes the engine, or only advises")
    assert record.workload
    once = rule.rewrite(record.workload.call)
    assert once != record.workload.call
    assert rule.rewrite(once) == once


def test_loading_the_rules_imports_nothing_slow() -> None:
    slow = ("torch", "transformers", "peft", "onnxruntime", "matplotlib", "scipy", "numpy")
    code = f"import sys; from ftprof.advisors.rules import load_rules; load_rules(); import ftprof.advisors.advise; print([m for m in {slow} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    assert get_rule("eager-attention") in RULES
    with pytest.raises(FtprofError) as caught:
        get_rule("eagre_atention")
    assert caught.value.hint == "did you mean eager-attention?"
    assert caught.value.exit_code == Exit.USAGE


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"RULE": None}, "last statement"),
        ({"__doc__": "No sections."}, "docstring lacks"),
        ({"__name__": "other"}, "is called"),
    ],
)
def test_a_faulty_file_is_named_with_its_fault(change: dict[str, object], said: str) -> None:
    real = importlib.import_module("ftprof.advisors.rules.eager_attention")
    module = ModuleType("eager_attention", real.__doc__)
    module.__dict__.update({"RULE": real.RULE} | change)
    stem = "other" if "__name__" in change else "eager_attention"
    with pytest.raises(FtprofError, match=said) as caught:
        read_rule(stem, module)
    assert f"{stem}.py" in caught.value.message
