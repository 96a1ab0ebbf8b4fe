"""The wheel, installed without extras in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_the_wheel_works_without_extras(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"fedcert/py.typed", "fedcert/population/designs.npz"} <= set(names)
    assert not [name for name in names if name.startswith(("tests", "shared", "docs"))]
    run(sys.executable, "-m", "venv", "lean", cwd=tmp_path)
    scripts = tmp_path / "lean" / ("Scripts" if sys.platform == "win32" else "bin")
    python = scripts / "python"
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel, cwd=tmp_path)
    assert "torch" not in run(python, "-m", "pip", "list", cwd=tmp_path)
    golden = ROOT / "tests" / "golden"
    assert "5 valid" in run(scripts / "fedcert", "validate", golden, cwd=tmp_path)
    assert "Method: post-stratification" in run(
        scripts / "fedcert", "estimate", golden / "report-1.json", "--out", "estimate.json", cwd=tmp_path
    )
    run(scripts / "fedcert", "page", golden / "report-1.json", "--out", "page.html", cwd=tmp_path)
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count("<script") == 2
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", f"{wheel}[onnx]", cwd=tmp_path)
    assert "torch" not in run(python, "-m", "pip", "list", cwd=tmp_path)
    run(sys.executable, "-c", ONNX, cwd=tmp_path)
    command = ["certify", "m.onnx", "d.npz", "--sigma", "0.25", "--client", "a", "--n", "100", "--out", "r.json"]
    said = " ".join(run(scripts / "fedcert", *command, cwd=tmp_path).split())
    assert "on average (20 examples, 100 noisy passes each)" in said


ONNX = """
import numpy as np, onnx
from onnx import TensorProto as T, helper as h, numpy_helper
w = numpy_helper.from_array(np.array([[1, -1], [-1, 1]], dtype=np.float32), "w")
x, s = (h.make_tensor_value_info(name, T.FLOAT, ["b", 2]) for name in "xs")
graph = h.make_graph([h.make_node("MatMul", ["x", "w"], ["s"])], "g", [x], [s], [w])
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9), "m.onnx")
x = np.random.default_rng(0).random((20, 2)).astype(np.float32)
np.savez("d.npz", x=x, y=(x[:, 1] > x[:, 0]).astype(int))
"""
