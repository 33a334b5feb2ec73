"""Pictures of a report: `python docs/screenshots.py DIR` shows report.html of a run as people see it.

All go to build/screenshots; the first screen goes to docs/report.png as well, which README shows. Needs Debian's
chromium and the extra `test`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
README_HEIGHT = 730
"""As far as the trust grade: what follows are the lines that load the model, with the paths of whoever ran it."""


class Shot(NamedTuple):
    """One picture: its name, the colour scheme, the width in CSS pixels, and whether all of the page is shown."""

    name: str
    scheme: str
    width: int
    whole: bool


SHOTS = (
    Shot("first-light", "light", 1100, False),
    Shot("first-dark", "dark", 1100, False),
    Shot("whole-light", "light", 1100, True),
    Shot("whole-narrow", "light", 320, True),
)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not (page := Path(arguments[0]) / "report.html").is_file():
        print("usage: python docs/screenshots.py DIR   (DIR holds the report.html of a run)", file=sys.stderr)
        return 2
    if not CHROMIUM.exists():
        print("needs chromium: apt-get install chromium", file=sys.stderr)
        return 1
    target = Path("build/screenshots")
    target.mkdir(parents=True, exist_ok=True)
    for path in _taken(page, target):
        print(path)
    (DOCS / "report.png").write_bytes((target / "first-light.png").read_bytes())
    return 0


def _taken(page: Path, target: Path) -> Iterator[Path]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        for shot in SHOTS:
            size = {"width": shot.width, "height": README_HEIGHT}
            view = browser.new_page(viewport=size, color_scheme=shot.scheme)  # type: ignore[arg-type]
            view.goto(page.resolve().as_uri())
            path = target / f"{shot.name}.png"
            view.screenshot(path=path, full_page=shot.whole)
            view.close()
            yield path
        view = browser.new_page()
        view.goto(page.resolve().as_uri())
        view.pdf(path=target / "print.pdf")
        yield target / "print.pdf"
        browser.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
