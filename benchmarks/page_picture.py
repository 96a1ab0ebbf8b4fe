"""Draw docs/images/page.png: the page of the demo's new district.

    fedcert demo --out demo
    python benchmarks/page_picture.py demo --out docs/images/page.png

The noise of the demo's certificates is secret, so numbers differ a little from run to run. The Chromium is that of
tests/page (FEDCERT_CHROMIUM names another one).
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

import fedcert

UNIT = "in pixel values from 0 to 1"
CONTEXT = "0.25 is reached by changing 25 of the 64 pixels by 5% of their range each."
WIDTH, HEIGHT = 1160, 900
"""Pixels: the page's own width, and what is seen of it first."""


def draw(page: Path, picture: Path) -> None:
    """What is seen first of a page, as a picture."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("FEDCERT_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-ready=yes]")
        tab.screenshot(path=picture)
        browser.close()


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("demo", type=Path, help="the demo's folder")
    parser.add_argument("--out", type=Path, required=True, help="the picture to write (.png)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        target = fedcert.Request.load(given.demo / "request.json").target
        fedcert.page(given.demo / "reports", page, target=target, unit=UNIT, context=CONTEXT)
        draw(page, given.out.resolve())


if __name__ == "__main__":
    main()
