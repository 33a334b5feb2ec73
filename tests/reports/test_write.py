from __future__ import annotations

import hashlib
import stat
from pathlib import Path

import msgspec
import pytest

from ftprof.profiler.errors import FtprofError
from ftprof.reports import html
from ftprof.reports.write import load_audit, write_audit, write_reports
from tests.reports import example
from tests.reports.hostile import CORPUS, filled


@pytest.mark.parametrize("variant", example.VARIANTS)
def test_round_trip(variant: str, tmp_path: Path) -> None:
    audit = example.VARIANTS[variant]()
    write_audit(audit, tmp_path / "new" / "folder")
    assert load_audit(tmp_path / "new" / "folder") == audit
    assert load_audit(tmp_path / "new" / "folder" / "audit.json") == audit


def test_three_files_and_no_rest(tmp_path: Path) -> None:
    write_reports(example.full(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit.json", "report.html", "report.md"]
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == html.render(load_audit(tmp_path))
    written = hashlib.sha256((tmp_path / "audit.json").read_bytes()).hexdigest()
    assert written in (tmp_path / "report.html").read_text(encoding="utf-8")
    # As readable as any file that the user makes.
    (tmp_path / "other").touch()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_keys_of_the_document(tmp_path: Path) -> None:
    document = msgspec.json.decode(write_audit(example.full(), tmp_path).read_bytes())
    promised = (
        "schema_version ftprof_version created command environment machine model workload phases diagnosis base_diff "
        "lora advice trials final trust warnings"
    )
    assert set(promised.split()) <= set(document)
    assert document["lora"]["agree"] is True and document["phases"][0]["time_s"]["median"] == 6.9


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_audit(example.full(), tmp_path)

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(FtprofError, match="No space left"):
        write_audit(example.bare(), tmp_path)
    assert load_audit(tmp_path) == example.full()
    assert [path.name for path in tmp_path.iterdir()] == ["audit.json"]


def test_a_page_that_fails_does_not_cost_the_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "SIZE_LIMIT_BYTES", 10)
    with pytest.raises(FtprofError):
        write_reports(example.full(), tmp_path)
    assert load_audit(tmp_path) == example.full()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema_version": 1, "ftprof', "not whole JSON"),
        ("", "not whole JSON"),
        ("[1, 2]", "not an audit"),
        ('{"name": "package.json"}', "not an audit"),
        ('{"schema_version": 99, "ftprof_version": "9.0"}', "schema 99"),
        ('{"schema_version": 1, "ftprof_version": "0.1.0"}', "not a valid audit"),
    ],
)
def test_files_that_are_no_audit(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    path.write_text(text)
    with pytest.raises(FtprofError, match=message) as caught:
        load_audit(path)
    assert "\n" not in caught.value.message and "\n" not in caught.value.hint and caught.value.hint


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FtprofError, match="no such file"):
        load_audit(tmp_path / "audit.json")


@pytest.mark.parametrize("asked", ["ftprof-out/run-2/audit.json", "ftprof-out/run-2", "ftprof-out/old.jso"])
def test_a_name_that_is_nearly_right_is_offered(asked: str, tmp_path: Path) -> None:
    out = tmp_path / "ftprof-out"
    (out / "run-1").mkdir(parents=True)
    (out / "run-1" / "audit.json").write_text("{}")
    (out / "old.json").write_text("{}")
    (out / "run-3").mkdir()  # holds no audit
    with pytest.raises(FtprofError, match="no such file") as caught:
        load_audit(tmp_path / asked)
    assert caught.value.hint == f"did you mean {out / ('old.json' if 'old' in asked else 'run-1')}?"


def test_binary_rubbish(tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_bytes(b"\x80\x81\xff")
    with pytest.raises(FtprofError, match="not whole JSON"):
        load_audit(tmp_path)


@pytest.mark.parametrize("text", [text for text in CORPUS if "\ud800" not in text])
def test_names_survive_the_round_trip_as_they_are(text: str, tmp_path: Path) -> None:
    audit = filled(example.full(), text)
    write_audit(audit, tmp_path)
    assert load_audit(tmp_path) == audit


def test_a_file_name_that_is_no_text_does_not_cost_the_audit(tmp_path: Path) -> None:
    write_reports(filled(example.full(), "caf\udce9"), tmp_path)
    assert load_audit(tmp_path).model.name == "caf\\udce9"
