"""The README's Python, run as it stands."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from fedcert import Report

pytestmark = pytest.mark.filterwarnings("default::fedcert.FedcertWarning")  # models that guess are warned of

README = Path(__file__).parent.parent / "README.md"


def test_the_snippet_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_report: Callable[..., Report]) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    x = np.random.default_rng(0).random((20, 4)).astype(np.float32)
    reports = [
        make_report(f"site-{index}", [30 - index, index + 1], [25, 9], classes=["healthy", "ill"]) for index in range(5)
    ]
    names = {"model": torch.nn.Linear(4, 2), "x": x, "y": np.arange(20) % 2, "reports": reports}
    exec(code, names)  # noqa: S102  our own README
    assert names["report"].classes == ("healthy", "ill")
    assert names["report"].smoothing.procedure == "population"
    assert names["classifier"](torch.from_numpy(x)).shape == (20,)
    assert (tmp_path / "curve.png").exists()


def test_the_files_it_links_to_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
