"""The architecture, held by tests: who may import whom, what is public, what needs no torch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fedcert

SOURCE = Path(fedcert.__file__).parent
ALWAYS = {"_arrays", "_threads", "errors", "version", "_files", "_schema"}
MAY_IMPORT: dict[str, set[str]] = {
    "_schema": set(),
    "_files": set(),
    "report": set(),
    "certification": {"report"},
    "prediction": {"report", "certification"},
    "population": {"report"},
    "estimation": {"report", "population"},
    "show": {"report", "population", "estimation"},
    "privacy": {"report"},
    "secagg": {"report", "population", "estimation", "privacy"},
    "rounds": {"report", "estimation", "privacy", "secagg"},
    "engines": {"report", "certification", "estimation", "privacy", "secagg", "show", "rounds"},
    "coordination": {
        "report",
        "population",
        "certification",
        "estimation",
        "privacy",
        "secagg",
        "show",
        "rounds",
        "engines",
    },
    "lab": {"report", "population", "certification", "estimation", "privacy", "secagg", "show", "rounds"},
    "cli": {
        "report",
        "population",
        "certification",
        "prediction",
        "estimation",
        "privacy",
        "secagg",
        "show",
        "rounds",
        "engines",
        "coordination",
        "lab",
    },
}


def imports(file: Path) -> set[str]:
    """The rooms of the house that a file imports from, wherever in the file it does."""
    rooms = set()
    for node in ast.walk(ast.parse(file.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        rooms |= {name.split(".")[1] for name in names if name.startswith("fedcert.")}
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{file}: relative import"
    return rooms


def test_every_room_is_in_the_table() -> None:
    rooms = {folder.name for folder in SOURCE.iterdir() if folder.is_dir() and folder.name != "__pycache__"}
    assert rooms == set(MAY_IMPORT)


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_it_may(room: str) -> None:
    for file in (SOURCE / room).rglob("*.py"):
        forbidden = imports(file) - MAY_IMPORT[room] - ALWAYS - {room}
        assert not forbidden, f"{file.relative_to(SOURCE)} imports {forbidden}"


def test_errors_import_nothing_of_ours() -> None:
    assert imports(SOURCE / "errors.py") == set()


@pytest.mark.parametrize("name", ["certify", "collect", "estimate", "page", "plan", "plot", "request"])
def test_no_module_bears_the_name_of_a_public_function(name: str) -> None:
    assert not (SOURCE / f"{name}.py").exists()
    assert not (SOURCE / name).exists()
    assert callable(getattr(fedcert, name))


def test_the_exported_names_are_frozen() -> None:
    assert sorted(fedcert.__all__) == [
        "AccuracyAtRadius",
        "CallError",
        "CannotCombine",
        "Comparison",
        "DataProblem",
        "DeviceProblem",
        "Estimate",
        "EstimationProblem",
        "FedcertError",
        "FedcertWarning",
        "FileProblem",
        "InvalidValue",
        "MissingExtra",
        "ModelProblem",
        "Plan",
        "ProgressListener",
        "Report",
        "Request",
        "Smoothing",
        "Sums",
        "Target",
        "Vote",
        "WhatIf",
        "__version__",
        "certify",
        "collect",
        "compare",
        "estimate",
        "onnx_classifier",
        "page",
        "plan",
        "plot",
        "read_reports",
        "request",
        "smooth",
        "what_if",
    ]
    assert all(getattr(fedcert, name).__doc__ for name in fedcert.__all__ if name != "__version__")


def test_there_is_no_grab_bag_and_no_large_module() -> None:
    for file in SOURCE.rglob("*.py"):
        assert file.stem not in {"utils", "helpers", "common", "misc"}
        assert len(file.read_text().splitlines()) <= 400, file


BLOCKED = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "onnxruntime", "matplotlib", "sklearn", "safetensors", "pyarrow"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
"""


def run_blocked(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python that has none of the extras."""
    return subprocess.run(
        [sys.executable, "-c", BLOCKED + code, *arguments], capture_output=True, text=True, check=False
    )


def test_importing_fedcert_needs_no_extra() -> None:
    done = run_blocked("import fedcert; assert 'torch' not in sys.modules; print(fedcert.__version__)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == fedcert.__version__


def test_importing_fedcert_does_not_import_torch_where_it_is_installed() -> None:
    code = "import sys, fedcert; assert not {'torch', 'matplotlib', 'typer'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_client_half_needs_neither_pydantic_nor_typer() -> None:
    code = """
class RefuseMore(Refuse):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"pydantic", "typer", "rich"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, RefuseMore())
import numpy as np, fedcert.certification.run as run
x, y = np.random.default_rng(0).random((4, 3)), [0, 1, 0, 1]
print(run.certify(lambda b: (b[:, 0] > 0.5).astype(int), x, y, sigma=0.2, client="a", model_id="m", n=100).examples)
"""
    done = run_blocked(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "4"


@pytest.mark.parametrize("room", [room for room in MAY_IMPORT if room != "cli"])
def test_the_architecture_page_names_every_module(room: str) -> None:
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    (row,) = re.findall(rf"^\| `{room}/` \| (.*) \|$", page, flags=re.MULTILINE)
    named = {name.rstrip("/") for name in re.findall(r"`([\w/]+)`", row)}
    inside = {path.stem for path in (SOURCE / room).rglob("*") if path.suffix == ".py" or path.is_dir()}
    at_the_door = {path.stem for path in (SOURCE / room).iterdir() if path.suffix not in (".md", ".npz")} - {
        "__init__",
        "__pycache__",
    }
    assert named <= inside
    assert at_the_door <= named
