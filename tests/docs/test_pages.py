"""The documentation, followed as it stands: every command and every piece of Python on these pages is run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import fedcert

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("tutorial.md", "howto/sites.md", "howto/shifted.md", "howto/tracking.md", "howto/sigma.md")
"""In this order: each goes on with the files of those before."""


BY_CHANCE = "1 warning: the clients differ beyond chance"
"""What one in a hundred runs says in place of "All checks passed.": the level of the check of label shift."""


class Block(NamedTuple):
    language: str
    words: tuple[str, ...]
    code: str


def blocks(page: str) -> list[Block]:
    found = re.findall(r"^```(\w+)([^\n]*)\n(.*?)^```$", (DOCS / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    return [Block(language, tuple(words.split()), code) for language, words, code in found]


def wording(text: str) -> str:
    """What is said, however lines are broken; figures may differ in their last digits from one processor to another."""
    return re.sub(r"[\d.]+", "#", " ".join(text.split()))


def follow(page: str, folder: Path) -> list[str]:
    """Run a page's blocks in a folder; what they print."""
    program = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{program}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(folder)}
    said = []
    session: list[str] = []
    for block in blocks(page):
        if {"no-run", "install"} & set(block.words):
            continue
        if block.language == "text":  # what the command before it must have said
            for line in block.code.splitlines():
                if line == "All checks passed." and BY_CHANCE in said[-1]:
                    continue
                assert wording(line) in wording(said[-1]), f"{page}:\n{line}\n{said[-1]}"
            continue
        files = [word.removeprefix("file=") for word in block.words if word.startswith("file=")]
        if files:
            (folder / files[0]).write_text(block.code)
            continue
        if block.language == "python":
            session.append(block.code)
            call, code = [sys.executable, "-W", "ignore", "-c"], "\n".join(session)
        else:
            call, code = ["bash", "-e", "-c"], block.code
        made = subprocess.run([*call, code], cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
        assert (made.returncode == 0) != ("fails" in block.words), f"{page}:\n{block.code}\n{made.stdout}{made.stderr}"
        assert "Traceback" not in made.stderr
        said.append(made.stdout + made.stderr)
    return said


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("ward")
    yield made
    shutil.rmtree(made)


@pytest.mark.slow
def test_pages_one_after_the_other(folder: Path) -> None:
    said = {page: follow(page, folder) for page in PAGES}
    first = next((folder / "round-1" / "estimates").glob("0001.json"))  # before it was asked at another radius
    estimate = fedcert.Estimate.load(first)
    answer = estimate.at(estimate.radii[round(0.25 * (len(estimate.radii) - 1))])
    assert {check.verdict for check in estimate.checks if check.name != "label shift"} == {"ok"}
    assert answer.lower is not None
    assert answer.upper is not None
    assert answer.upper - answer.lower <= 2 * 0.1  # see tests/lab/test_demo.py: nearly always at most 8 points
    assert (folder / "labels.csv").read_text().startswith("index,label,")
    assert "error: " in said["tutorial.md"][-1]
    assert (folder / "page.html").stat().st_size > 50_000
    assert (folder / "table.csv").exists()


@pytest.mark.slow
def test_your_own_model(tmp_path: Path) -> None:
    follow("howto/model.md", tmp_path)
    assert {file.name for file in tmp_path.glob("site-a*.json")} == {
        "site-a.json",
        "site-a-onnx.json",
        "site-a-table.json",
        "site-a-rule.json",
        "site-a-asked.json",
        "site-a-triage.json",
    }


@pytest.mark.slow
def test_deploy_what_was_certified(tmp_path: Path) -> None:
    follow("howto/deploy.md", tmp_path)
    assert (tmp_path / "careful.csv").exists()


@pytest.mark.slow
def test_train_with_noise(tmp_path: Path) -> None:
    follow("howto/train.md", tmp_path)
    assert {file.stem for file in tmp_path.glob("*.json")} == {"plain", "noisy", "too-much"}


@pytest.mark.slow
def test_correct_or_withdraw_a_report(tmp_path: Path) -> None:
    said = follow("howto/corrections.md", tmp_path)
    assert "'site-b': 'its report was withdrawn'" in said[-1]
    run = tmp_path / "round-1"
    assert (run / "settings.json").exists()
    assert list((run / "replaced").glob("site-b-*.json"))
    assert list((run / "withdrawn").glob("site-b-*.json"))
    assert list((run / "estimates").glob("*.json"))


def test_what_a_radius_means(tmp_path: Path) -> None:
    """The tables have the figures that the page's own lines print."""
    (said,) = follow("howto/radius.md", tmp_path)
    page = (DOCS / "howto" / "radius.md").read_text()
    covered = re.findall(r"\[([\d., ]+)\]", said)
    assert len(covered) == 3
    for figures in covered:
        first, second, third, _ = figures.split(", ")
        assert f"| {first}/255 | {float(second):.2f}/255 | {float(third):.2f}/255 |" in page


def test_every_page_is_in_the_navigation_and_linked() -> None:
    named = (DOCS.parent / "mkdocs.yml").read_text()
    for page in DOCS.rglob("*.md"):
        assert str(page.relative_to(DOCS)) in named, page
