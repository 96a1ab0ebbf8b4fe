"""Draw docs/images/page.png: the page of a population certificate on the demo's digits, with a named target.

    fedcert demo --out demo
    python benchmarks/page_picture.py demo --out docs/images/page.png

The demo's clients certify again, each with a secret seed, as sites do; so numbers differ a little from run to run. The
Chromium is that of tests/page (FEDCERT_CHROMIUM names another one).
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import safetensors.torch

import fedcert
from fedcert.estimation.estimate import estimate_of
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.settings import Settings
from fedcert.lab.networks import digits_network
from fedcert.report import Report, Request, Target, read_record
from fedcert.show.page.contents import Contents
from fedcert.show.page.rendering import write_page

TARGET = Target(
    name="Parcel labels",
    distribution={
        "zero": 0.22, "one": 0.15, "two": 0.1, "three": 0.12, "four": 0.1, "five": 0.08, "six": 0.08, "seven": 0.07,
        "eight": 0.04, "nine": 0.04,
    },
)  # fmt: skip
UNIT = "in pixel values from 0 to 1"
CONTEXT = "0.15 is reached by changing 9 of the 64 pixels by 5% of their range each."
RADIUS = 0.15
WIDTH, HEIGHT = 1160, 900
"""Pixels: the page's own width, and what is seen of it first."""


def reports_of(folder: Path) -> list[Report]:
    """The reports of the demo's clients, with counts per class and secret noise."""
    network = digits_network()
    network.load_state_dict(safetensors.torch.load_file(folder / "model.safetensors"))
    request: Request = read_record(folder / "population" / "request.json", Request)
    reports = []
    for path in sorted((folder / "data").glob("*.npz")):
        with np.load(path) as data:
            report = fedcert.certify(
                network, data["x"], data["y"], client=path.stem, request=request, class_counts=True
            )  # fmt: skip
        reports.append(report)
    return reports


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
    prepared = PreparedClients.of(clients_of(reports_of(given.demo)), Settings())
    contents = Contents.of_clients(prepared, estimate_of(prepared, TARGET, "auto"))
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        write_page(contents, page, unit=UNIT, context=CONTEXT, radius=RADIUS)
        draw(page, given.out.resolve())


if __name__ == "__main__":
    main()
