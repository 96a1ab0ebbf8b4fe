"""The page on writing an estimator, followed to the letter: its package is installed and found."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from fedcert import Report

PAGE = Path(__file__).parent.parent / "docs" / "estimator.md"


def test_its_estimator_is_found_by_entry_point(tmp_path: Path, make_report: Callable[..., Report]) -> None:
    text = PAGE.read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (entry,) = re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "majority.py").write_text(code)
    # What an installer would make of the page's pyproject.toml.
    info = tmp_path / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my_package\nVersion: 1.0\n")
    name, target = re.findall(r'^(\w+) = "(.*)"$', entry, flags=re.MULTILINE)[0]
    (info / "entry_points.txt").write_text(f"[fedcert.estimators]\n{name} = {target}\n")
    reports = tmp_path / "reports"
    reports.mkdir()
    for index, labels in enumerate(([40, 5], [8, 60], [30, 10], [2, 50])):
        (reports / f"{index}.json").write_text(make_report(f"site {index}", labels, [30, 10]).dumps())
    command = [sys.executable, "-m", "fedcert", "estimate", str(reports), "--method", "majority"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(tmp_path)}
    )
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "Method: MAJORITY" in said or "Method: majority" in said
    assert "(95% CI " in said
