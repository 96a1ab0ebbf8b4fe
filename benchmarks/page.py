"""How large a page is, how fast it opens in Chromium and how fast it follows a slider.

    python benchmarks/page.py [--out benchmarks/results/page-cpu.json] [--only population]

Opening is from the call to the moment when all of the page is shown and answers, with a file from the disk. A slider's
time is from its event to the new curve in the page; its interval's is to the interval, which comes with the curve or,
where it takes long, after it, when the slider rests. A step's is the evaluation of curve and interval alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fedcert.estimation.estimate import estimate_of
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.settings import Settings
from fedcert.report import Report
from fedcert.show.page.contents import Contents
from fedcert.show.page.rendering import rendered
from machine import describe_machine

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from factories import drawn_reports
from population_drawing import drawn_population

CASES = {
    "20 clients, 10 classes, BLUP": {"clients": 20, "classes": 10},
    "100 clients, 10 classes, BLUP": {"clients": 100, "classes": 10},
    "100 clients, 10 classes, post-stratified": {"clients": 100, "classes": 10, "tells": 1.0},
    "100 clients, 100 classes, BLUP": {"clients": 100, "classes": 100, "concentration": 0.1},
    "100 clients, 100 classes, post-stratified": {"clients": 100, "classes": 100, "concentration": 0.1, "tells": 1.0},
    "100 clients, 100 classes, clients differ": {
        "clients": 100, "classes": 100, "concentration": 0.1, "differ": 0.4, "examples": 2000,
    },
    "10,000 clients, 10 classes, BLUP": {"clients": 10_000, "classes": 10, "examples": 20},
}  # fmt: skip
POPULATION_CASES = {
    "100 clients, 10 classes, population, BLUP": {"clients": 100, "classes": 10, "radii": 21},
    "100 clients, 10 classes, population, post-stratified": {"clients": 100, "classes": 10, "radii": 21, "tells": 1.0},
    "100 clients, 10 classes, population, clients differ": {
        "clients": 100, "classes": 10, "radii": 21, "differ": 0.4, "examples": 2000,
    },
    "100 clients, 100 classes, population, post-stratified": {
        "clients": 100, "classes": 100, "radii": 21, "concentration": 0.1, "tells": 1.0,
    },
    "10,000 clients, 10 classes, population, BLUP": {"clients": 10_000, "classes": 10, "radii": 21, "examples": 20},
}  # fmt: skip
"""Population certificates, at as many radii."""
MOVE = """() => {
  const one = document.querySelector('#shares input[type=range]'), began = performance.now();
  one.value = 100 * Math.random();
  one.dispatchEvent(new Event('input', { bubbles: true }));
  return new Promise(done => {
    let curve = null;
    const look = () => {
      const now = performance.now() - began;
      curve = curve ?? now;
      if (document.querySelector('#curve').getAttribute('aria-busy') === 'true') setTimeout(look, 5);
      else done({ curve, interval: now, step: performance.getEntriesByName('evaluated').at(-1).duration });
    };
    requestAnimationFrame(() => setTimeout(look, 0));
  });
}"""


def measured(browser: Any, reports: list[Report], folder: Path) -> dict[str, Any]:
    """One page."""
    began = time.monotonic()
    prepared = PreparedClients.of(clients_of(reports), Settings())
    text = rendered(Contents.of_clients(prepared, estimate_of(prepared, "uniform", "auto")))
    made = time.monotonic() - began
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    opening, moves = [], []
    for _ in range(5):
        context = browser.new_context()
        tab = context.new_page()
        began = time.monotonic()
        tab.goto(path.as_uri())
        tab.wait_for_selector("html[data-ready=yes]")
        opening.append(time.monotonic() - began)
        moves += [tab.evaluate(MOVE) for _ in range(10)][2:]  # the first ones compile the script
        context.close()
    return {
        "bytes": path.stat().st_size, "made_in_seconds": made, "opens_in_seconds": statistics.median(opening),
        **{
            f"{part}_milliseconds{name}": of(move[part] for move in moves)
            for part in ("curve", "interval", "step")
            for name, of in (("", statistics.median), ("_most", max))
        },
    }  # fmt: skip


def main() -> None:
    """Measure, print and keep."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="cases whose names contain this")
    options = parser.parse_args()
    program = os.environ.get("FEDCERT_CHROMIUM") or shutil.which("chromium")
    rows = {}
    with sync_playwright() as play, tempfile.TemporaryDirectory() as folder:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for name, drawing in (CASES | POPULATION_CASES).items():
            if options.only not in name:
                continue
            draw = drawn_population if name in POPULATION_CASES else drawn_reports
            rows[name] = measured(browser, draw(**drawing), Path(folder))
            print(name, rows[name], flush=True)
        version = browser.version
        browser.close()
    if options.out is not None:
        result = {"machine": describe_machine("playwright", "numpy"), "chromium": version, "pages": rows}
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
