"""Curves as data frames."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

import fedcert
from fedcert import Report

NAMES = ["radius", "certified_accuracy", "lower", "upper"]


@pytest.fixture
def site(make_report: Callable[..., Report]) -> Report:
    return make_report(
        "a", [60, 40], [80, 70, 60], classes=["cat", "dog"], class_certified_counts=[[50, 45, 40], [30, 25, 20]]
    )


def test_an_estimate_as_a_frame(site: Report) -> None:
    pytest.importorskip("pandas")
    result = fedcert.estimate(site)
    frame = result.to_frame()
    assert list(frame.columns) == NAMES
    for name in NAMES[1:]:
        assert tuple(frame[name]) == getattr(result, name)
    assert tuple(frame["radius"]) == result.radii


def test_an_estimate_by_class(site: Report) -> None:
    pytest.importorskip("pandas")
    result = fedcert.estimate(site)
    frame = result.to_frame(by_class=True)
    assert list(frame.columns) == ["class", *NAMES]
    assert list(frame["class"]) == ["cat"] * 3 + ["dog"] * 3
    assert result.by_class is not None
    assert tuple(frame[frame["class"] == "dog"]["lower"]) == result.by_class.lower[1]
    with pytest.raises(
        fedcert.CallError, match="the method 'vw' gives no curves of single classes; leave by_class out"
    ):
        fedcert.estimate(site, method="vw").to_frame(by_class=True)


def test_a_what_if_as_a_frame(site: Report) -> None:
    pytest.importorskip("pandas")
    result = fedcert.what_if(site, {"cats": {"cat": 1}, "half": "uniform"})
    frame = result.to_frame()
    assert list(frame.columns) == ["target", *NAMES]
    assert list(frame["target"]) == ["cats"] * 3 + ["half"] * 3
    assert tuple(frame["upper"][3:]) == result.targets[1].upper


def test_without_pandas_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["pandas"] = None
import fedcert
site = fedcert.Report(client="a", model="m", smoothing={"sigma": 1}, radii=[0], classes=["x"], label_counts=[9],
                      certified_counts=[7])
try:
    fedcert.estimate(site).to_frame()
except fedcert.MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "a data frame needs the package 'pandas', which is not installed; install it with: pip install 'fedcert[pandas]'"
    )
