"""The page in a real browser: silent, still, legible in light and dark, narrow and wide."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

from ftprof.profiler.traces.analyse import analyse
from ftprof.reports import html, trace_html
from ftprof.reports.trace_document import report
from tests.profiler.traces.chrome import write
from tests.reports import example
from tests.reports.hostile import CORPUS, filled
from tests.reports.test_trace_view import steps

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Debian's chromium: apt-get install chromium"),
]

CONTRAST = """() => {
  const luminance = colour => {
    const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(Number).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05); };
  const behind = element => { for (let e = element; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$|transparent/.test(colour)) return colour; } return 'rgb(255, 255, 255)'; };
  document.querySelectorAll('details').forEach(d => { d.open = true; });
  const faults = [];
  for (const element of document.querySelectorAll('body *')) {
    const inked = [...element.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    const style = getComputedStyle(element);
    if (inked && !['title', 'desc'].includes(element.tagName)) {
      const colour = element.closest('svg') ? style.fill : style.color;
      if (ratio(colour, behind(element)) < 4.5) faults.push(element.tagName + ': ' + element.textContent + colour);
    }
    // Paper-coloured edges and hatches are gaps on purpose; what they cut is coloured.
    for (const paint of ['fill', 'stroke']) {
      const shown = style[paint], meant = /^(fill|stroke)-(?!paper)/.test(element.className.baseVal || '');
      if (meant && element.className.baseVal.includes(paint + '-') && shown.startsWith('rgb')
          && !element.className.baseVal.includes(paint + '-paper') && ratio(shown, behind(element)) < 3)
        faults.push(element.className.baseVal + ' ' + shown);
    }
  }
  return faults;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pages")
    pages = {name: example.VARIANTS[name]() for name in ("full", "encoder", "bare")}
    pages["hostile"] = filled(example.full(), *CORPUS)
    for name, audit in pages.items():
        (made / f"{name}.html").write_text(html.render(audit), encoding="utf-8")
    return made


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("variant", ["full", "encoder", "bare", "hostile"])
def test_silent_still_and_legible(browser: Browser, folder: Path, variant: str, scheme: str) -> None:
    context = browser.new_context(viewport={"width": 320, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    noise: list[str] = []
    page.on("request", lambda request: noise.append(request.url))
    page.on("console", lambda message: noise.append(message.text))
    page.on("dialog", lambda dialog: noise.append(dialog.message))
    address = (folder / f"{variant}.html").as_uri()
    page.goto(address)
    assert noise == [address]
    for width in (320, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
    assert page.evaluate(CONTRAST) == []
    context.close()


JENKINS = "sandbox; default-src 'none'; img-src 'self'; style-src 'self';"


class _Served(BaseHTTPRequestHandler):
    """Serves the example page with the header that Jenkins sets on what a build leaves."""

    body = b""
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Security-Policy", JENKINS)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Tests are quiet."""


@pytest.fixture(scope="module")
def jenkins(folder: Path) -> Iterator[str]:
    _Served.body = (folder / "full.html").read_bytes()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Served)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/report.html"
    server.shutdown()
    server.server_close()
    thread.join()


def test_as_jenkins_serves_it_the_text_and_the_charts_remain(browser: Browser, folder: Path, jenkins: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(jenkins)
    assert page.locator("h2", has_text="Faster").is_visible()
    charts = html.render(example.VARIANTS["full"]()).count("<svg")
    assert charts >= 10
    assert page.locator("svg").count() == charts
    fills = page.evaluate("[...document.querySelectorAll('svg .fill-compute')].map(e => getComputedStyle(e).fill)")
    assert fills and set(fills) == {"rgb(60, 154, 219)"}
    served = page.evaluate("document.body.textContent")
    page.goto((folder / "full.html").as_uri())
    assert page.evaluate("document.body.textContent") == served
    context.close()
    # A browser asks any server for its icon by itself; the page asks for nothing.
    assert {path for path in _Served.asked if path != "/favicon.ico"} == {"/report.html"}


@pytest.mark.parametrize("variant", ["full", "encoder", "bare", "hostile"])
def test_without_scripts_the_facts_are_the_same(browser: Browser, folder: Path, variant: str) -> None:
    seen = []
    for enabled in (True, False):
        context = browser.new_context(java_script_enabled=enabled)
        page = context.new_page()
        page.goto((folder / f"{variant}.html").as_uri())
        seen.append((page.inner_text("body"), page.locator("svg").count(), page.locator("td").count()))
        context.close()
    assert seen[0] == seen[1]
    assert len(seen[0][0]) > 500


def test_a_trace_page_fits_a_telephone(browser: Browser, tmp_path: Path) -> None:
    path = write(tmp_path / "long.json", steps(["aten::mm", "ampere_sgemm_128x64_tn", "void at::native::softmax"]))
    (tmp_path / "trace.html").write_text(trace_html.render(report(analyse(path), "0")), encoding="utf-8")
    page = browser.new_page(viewport={"width": 320, "height": 800})
    page.goto((tmp_path / "trace.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 320, "the page scrolls sideways"
    page.close()


def test_print_opens_what_is_folded(browser: Browser, folder: Path) -> None:
    page = browser.new_page()
    page.goto((folder / "full.html").as_uri())
    page.emulate_media(media="print")
    folded = page.locator("details:not([open]) table").first
    assert folded.bounding_box() is not None
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("variant", ["full", "bare", "hostile"])
def test_axe_finds_no_violation(browser: Browser, folder: Path, variant: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python").Axe()
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto((folder / f"{variant}.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    found = axe.run(page).response["violations"]
    context.close()
    assert [(fault["id"], [node["html"][:200] for node in fault["nodes"][:3]]) for fault in found] == []


def test_print_cuts_no_table_off(browser: Browser, folder: Path) -> None:
    page = browser.new_page(viewport={"width": 718, "height": 1000})
    page.emulate_media(media="print")
    page.goto((folder / "full.html").as_uri())
    rights = page.evaluate("[...document.querySelectorAll('table')].map(t => t.getBoundingClientRect().right)")
    page.close()
    assert rights and max(rights) <= 718, "a sheet of A4 has no scroll bar"
