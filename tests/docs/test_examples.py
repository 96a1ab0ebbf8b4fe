"""The examples, run as they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def ran(name: str, folder: Path) -> str:
    made = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", str(EXAMPLES / name)],
        cwd=folder, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    return made.stdout


def test_hospitals(tmp_path: Path) -> None:
    said = ran("hospitals.py", tmp_path)
    assert said.startswith("radius 0.0: ")
    assert "vote of 11 noisy copies" in said
    assert {file.name for file in tmp_path.iterdir()} == {"north.json", "middle.json", "south.json"}


@pytest.mark.slow
def test_watch_training(tmp_path: Path) -> None:
    said = ran("watch_training.py", tmp_path)
    assert said.splitlines()[-1].startswith("round 8: proven of a vote of 11 at radius 0.25: ")
    assert list((tmp_path / "runs" / "digits").iterdir())


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_notebook(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(EXAMPLES / "explore.ipynb", as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")


def test_the_readme_names_all_of_them() -> None:
    told = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.iterdir():
        if path.name not in ("README.md", "__pycache__"):
            assert f"`{path.name}" in told
