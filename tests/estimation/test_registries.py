"""Methods and kinds of intervals, registered in one place: they work from end to end, or are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedcert
from factories import drawn_reports
from fedcert import CallError, EstimationProblem, InvalidValue, Report, Sums, estimate, what_if
from fedcert.estimation.clients import Clients, examples
from fedcert.estimation.intervals.ingredients import of_volume
from fedcert.estimation.intervals.registry import INTERVALS, IntervalKind
from fedcert.estimation.methods import registry
from fedcert.estimation.methods.point_estimate import PointEstimate
from fedcert.estimation.methods.registry import METHODS, Method, method_names
from fedcert.estimation.settings import Settings

REPORTS = drawn_reports(8, 3, 4, seed=1)

SCRIPT = """
import sys
from fedcert.estimation.intervals.ingredients import of_volume
from fedcert.estimation.methods.point_estimate import PointEstimate
from fedcert.estimation.methods.registry import METHODS, Method

def pooled(clients, target, settings):
    uncertainty = of_volume(clients, target)
    return PointEstimate(uncertainty.centre, None, weights_note="none", uncertainty=uncertainty)

METHODS["pooled"] = Method("pooled", "pooled curve", pooled, from_sums=True, class_curves=True)

from fedcert.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


def pooled(clients: Clients, target: Any, settings: Settings) -> PointEstimate:
    return PointEstimate(clients.certified / examples(clients), None, uncertainty=of_volume(clients, target))


DUMMY = Method("pooled", "pooled curve", pooled, from_sums=True, class_curves=True)


def test_a_method_that_is_registered_works_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "pooled", DUMMY)
    result = estimate(REPORTS, "uniform", "pooled")
    assert result.certified_accuracy == estimate(REPORTS, "uniform", "vw").certified_accuracy
    assert result.by_class is not None
    assert result.interval is not None
    assert estimate(Sums.of(REPORTS), "uniform", "pooled").certified_accuracy == result.certified_accuracy
    row = what_if(REPORTS, ["uniform"], "pooled").targets[0]
    assert (row.lower, row.upper) == (result.lower, result.upper)
    assert method_names()[-1] == "pooled"
    with pytest.raises(CallError, match="method must be auto, poststratified, blup or pooled for a what-if"):
        what_if(REPORTS, ["uniform"], "vw")


def test_it_works_in_the_commands_their_help_and_the_page(tmp_path: Path) -> None:
    for report in REPORTS:
        (tmp_path / f"{report.client}.json").write_text(report.dumps())

    env = {**os.environ, "PYTHONPATH": str(Path(fedcert.__file__).parents[1])}

    def done(*words: str) -> str:
        command = [sys.executable, "-c", SCRIPT, *words]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=env)
        assert ran.returncode == 0, ran.stderr
        return " ".join(ran.stdout.split())

    assert "auto, poststratified, blup, minimax, pooled, vw, ap or ga." in done("estimate", "--help")
    assert "auto, poststratified, blup or pooled." in done("what-if", "--help")
    assert "Method: pooled" in done("estimate", ".", "--method", "pooled", "--page", "page.html")
    assert '"method":"pooled"' in (tmp_path / "page.html").read_text()
    (tmp_path / "page.html").unlink()
    done("page", ".", "--out", "page.html")
    assert '"method":"pooled"' in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("register", "sentence"),
    [
        (lambda: Method("half", "half", None), "the method 'half' must have a function, or its place as 'module:name'"),  # type: ignore[arg-type]
        (lambda: Method("", "half", pooled), "a method's name must be a text, but is ''"),
        (lambda: Method("half", "", pooled), "a method's title must be a text, but is ''"),
        (
            lambda: replace(DUMMY, name="other"),
            "the method 'half' is registered as 'other': both names must be the same",
        ),
        (lambda: pooled, "the method 'half' is registered as"),
        (
            lambda: Method("half", "half", "fedcert.nowhere:half"),
            r"the method 'half' \(fedcert.nowhere:half\) cannot be loaded: ModuleNotFoundError",
        ),
        (
            lambda: Method("half", "half", "fedcert.estimation.methods.blup:half"),
            r"the method 'half' \(fedcert.estimation.methods.blup:half\) cannot be loaded: AttributeError",
        ),
    ],
)
def test_a_half_registered_method_is_refused(
    register: Callable[[], Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tried() -> None:
        monkeypatch.setitem(METHODS, "half", register())
        estimate(REPORTS, "uniform", "half")

    with pytest.raises(CallError, match=sentence):
        tried()


def entry(monkeypatch: pytest.MonkeyPatch, given: object) -> None:
    point = EntryPoint("pooled", "somewhere:pooled", "fedcert.estimators")
    monkeypatch.setattr(EntryPoint, "load", lambda self: given)
    monkeypatch.setattr(registry, "entry_points", lambda **_: EntryPoints([point]))


def test_another_package_may_say_that_its_method_takes_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    entry(monkeypatch, pooled)
    assert estimate(REPORTS, "uniform", "pooled").method == "pooled"
    with pytest.raises(EstimationProblem, match="the method 'pooled' needs the clients' own reports, but sums are"):
        estimate(Sums.of(REPORTS), "uniform", "pooled")
    entry(monkeypatch, DUMMY)
    assert estimate(Sums.of(REPORTS), "uniform", "pooled").clients == 8
    entry(monkeypatch, replace(DUMMY, function=lambda *_: 7))
    with pytest.raises(EstimationProblem, match="the method 'pooled' must give a PointEstimate, but gave int"):
        estimate(REPORTS, "uniform", "pooled")


def longer(of: Any, target: Any, confidence: float, simultaneous: bool, target_examples: int | None) -> Any:
    lower, upper = INTERVALS["hoeffding"].ends(of, target, confidence, simultaneous, target_examples)
    return 2 * lower - of.centre, 2 * upper - of.centre


def test_a_kind_of_interval_that_is_registered_works(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = IntervalKind("twice", "twice as long", "more than", longer, INTERVALS["finite-sample"].deviations)
    monkeypatch.setitem(INTERVALS, "twice", kind)
    many: list[Report] = drawn_reports(30, 3, 4, seed=1, examples=5000)
    pool = np.sum([report.label_counts for report in many], axis=0)  # as a target it leaves no bias
    plain, wide = (estimate(many, pool, "vw", interval=kind) for kind in ("hoeffding", "twice"))
    assert wide.guarantee.startswith("With probability more than 0.95")
    assert wide.interval is not None
    assert wide.interval.kind == "twice"
    assert max(wide.upper or ()) < 1
    assert np.subtract(wide.upper, wide.certified_accuracy) == pytest.approx(
        2 * np.subtract(plain.upper, plain.certified_accuracy)
    )
    assert what_if(many, ["uniform"], interval="twice").interval.kind == "twice"


def test_an_unknown_or_half_registered_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        InvalidValue, match="interval must be 'finite-sample', 'hoeffding' or 'asymptotic', but is 'twice'"
    ):
        Settings(interval="twice")
    with pytest.raises(CallError, match="the interval 'twice' must have a function deviations, but has null"):
        IntervalKind("twice", "twice", "more than", longer, None)  # type: ignore[arg-type]
    monkeypatch.setitem(INTERVALS, "twice", INTERVALS["asymptotic"])
    with pytest.raises(CallError, match="the interval 'twice' is registered as 'asymptotic'"):
        estimate(REPORTS, interval="twice")
