"""All views say the same: the first screen's sentences, word for word, from every audit."""

from __future__ import annotations

import html
import io
import subprocess
import sys

import pytest
from rich.console import Console

from ftprof.reports import clean, markdown, terminal
from ftprof.reports import html as page_view
from ftprof.reports.summary import summarise
from tests.reports import example
from tests.reports.page import parse


def printed(variant: str, width: int = 80) -> str:
    stream = io.StringIO()
    terminal.render(example.VARIANTS[variant](), Console(file=stream, width=width, color_system=None))
    return stream.getvalue()


def plain_markdown(text: str) -> str:
    text = text.replace(markdown.BREAK, "").replace("\\\\", "\0").replace("\\", "").replace("\0", "\\")
    return " ".join(html.unescape(text).split())


@pytest.mark.parametrize("variant", example.VARIANTS)
def test_same_sentences_in_the_same_order(variant: str) -> None:
    audit = example.VARIANTS[variant]()
    wide = " ".join(printed(variant, width=2000).split())
    comment = plain_markdown(markdown.render(audit))
    first_screen = next(
        element for element in parse(page_view.render(audit)).all("section") if element.attributes["id"] == "verdict"
    ).text()
    for text in (wide, comment, first_screen):
        position = 0
        for sentence in summarise(clean.cleaned(audit)).sentences():
            found = text.find(" ".join(sentence.split()), position)
            assert found >= 0, f"not there, or not in order: {sentence}"
            position = found + len(sentence)


@pytest.mark.parametrize("variant", example.VARIANTS)
def test_the_verdict_and_the_lines_that_load_the_model(variant: str) -> None:
    audit = example.VARIANTS[variant]()
    summary = summarise(audit)
    for text in (printed(variant), markdown.render(audit), parse(page_view.render(audit)).text()):
        assert summary.verdict.lower() in text.lower()
        for line in summary.load.splitlines():
            assert line in text


def test_rendering_an_audit_imports_no_model_library() -> None:
    code = (
        "import sys, pathlib, tempfile\n"
        "from tests.reports.example import full\n"
        "from ftprof.reports.write import write_reports, load_audit\n"
        "folder = pathlib.Path(tempfile.mkdtemp())\n"
        "write_reports(full(), folder); load_audit(folder)\n"
        "print([name for name in ('torch', 'transformers', 'peft', 'onnxruntime', 'scipy') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
