"""The examples, run as they stand."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import fedcert

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
    assert "Verdict: ok" in said
    assert "vote of 11 noisy copies" in said
    assert "\nradius 0.25: " in said
    reports = {"north.json", "middle.json", "south.json"}
    assert {file.name for file in tmp_path.iterdir()} == reports | {"estimate.json", "page.html"}


@pytest.mark.slow
def test_watch_training(tmp_path: Path) -> None:
    said = ran("watch_training.py", tmp_path)
    assert said.splitlines()[-1].startswith("round 8: 11 votes at radius 0.25: 0.")
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


PUBLIC = {"fedcert", "fedcert.engines.flower", "fedcert.show.tracking", "fedcert.show.figures"}
"""What examples may import from: what the API page lists."""


def sources() -> list[tuple[str, str]]:
    files = [(str(path.relative_to(EXAMPLES)), path.read_text()) for path in sorted(EXAMPLES.rglob("*.py"))]
    for path in sorted(EXAMPLES.rglob("*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        files.append((path.name, code))
    return files


@pytest.mark.parametrize(("name", "text"), sources(), ids=[name for name, _ in sources()])
def test_examples_use_the_public_api_alone(name: str, text: str) -> None:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fedcert":
            assert node.module in PUBLIC, name
            if node.module in ("fedcert", "fedcert.show.figures"):
                assert {alias.name for alias in node.names} <= set(import_module(node.module).__all__), name
        if isinstance(node, ast.Import):
            named = {alias.name for alias in node.names if alias.name.split(".")[0] == "fedcert"}
            assert named <= PUBLIC, name
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "fedcert":
            assert node.attr in fedcert.__all__, name


def test_the_readme_names_all_of_them() -> None:
    told = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.iterdir():
        if path.name not in ("README.md", "__pycache__"):
            assert f"`{path.name}" in told
