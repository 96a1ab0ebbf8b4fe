"""One answer per class mix: estimates, what-ifs, the classes' own curves and the evaluator agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from factories import drawn_reports
from fedcert import Estimate, Sums, estimate, what_if
from fedcert.estimation import prepared as preparing
from fedcert.estimation.estimate import estimate_of
from fedcert.estimation.method_comparison import compare_methods, forms_for_page
from fedcert.estimation.methods.registry import METHODS
from fedcert.estimation.mix_evaluator import MixEvaluator
from fedcert.estimation.prepared import PreparedClients, clients_of
from fedcert.estimation.settings import Settings
from fedcert.report import Report

CASES: dict[str, dict[str, Any]] = {
    "8 clients, 10 classes": {"clients": 8, "classes": 10},
    "as many clients as classes": {"clients": 10, "classes": 10},
    "fewer clients than classes": {"clients": 4, "classes": 12},
    "many clients": {"clients": 40, "classes": 5},
    "some disclose counts per class": {"clients": 12, "classes": 6, "tells": 0.5},
    "all disclose counts per class": {"clients": 12, "classes": 6, "tells": 1.0},
    "clients differ": {"clients": 30, "classes": 5, "differ": 0.4, "examples": 2000},
    "clients differ, some disclose": {"clients": 30, "classes": 5, "differ": 0.4, "examples": 2000, "tells": 0.5},
    "grouped examples": {"clients": 12, "classes": 6, "grouped": True},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "asymptotic": {"interval": "asymptotic"},
    "at once, of a finite target": {"interval": "asymptotic", "simultaneous": True, "target_examples": 300},
}
CURVES = ("certified_accuracy", "lower", "upper")


def drawn(case: str) -> list[Report]:
    return drawn_reports(radii=5, seed=3, **CASES[case])


def same(first: Any, second: Any) -> None:
    for name in CURVES:
        assert getattr(first, name) == pytest.approx(getattr(second, name), abs=1e-9)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_estimate_and_what_if_are_one(case: str, summed: bool, options: str) -> None:
    reports = drawn(case)
    source = Sums.of(reports) if summed else reports
    classes = reports[0].classes
    mixes: list[object] = ["uniform", {classes[0]: 1}, {name: index for index, name in enumerate(classes)}]
    rows = what_if(source, mixes, **OPTIONS[options])
    for row, mix in zip(rows.targets, mixes, strict=True):
        single = estimate(source, mix, **OPTIONS[options])
        same(row, single)
        assert (rows.interval, rows.guarantee) == (single.interval, single.guarantee)


@pytest.mark.parametrize("case", CASES)
def test_the_curves_of_classes_are_the_estimates_of_targets_of_one_class(case: str) -> None:
    reports = drawn(case)
    result = estimate(reports)
    assert result.by_class is not None
    for index, name in enumerate(result.classes):
        single = estimate(reports, {name: 1})
        for curve in CURVES:
            assert getattr(result.by_class, curve)[index] == pytest.approx(getattr(single, curve), abs=1e-9)


def test_the_cases_hold_what_they_say() -> None:
    for case in CASES:
        clients = PreparedClients.of(clients_of(drawn(case)), Settings())
        assert clients.clients_differ == ("differ" in case)


def test_the_evaluator_gives_the_estimate() -> None:
    prepared = PreparedClients.of(clients_of(drawn("8 clients, 10 classes")), Settings())
    evaluation = MixEvaluator(prepared, METHODS["blup"]).at(np.full(10, 0.1))
    result: Estimate = estimate_of(prepared, "uniform", "blup")
    assert evaluation.interval is not None
    assert tuple(evaluation.curve) == result.certified_accuracy
    assert tuple(evaluation.interval.lower) == result.lower


def test_clients_are_tested_and_screened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is made of them: an estimate, all methods beside it, and what a page needs."""
    calls: list[str] = []
    for name in ("label_shift_test", "screen_clients"):
        function = getattr(preparing, name)
        monkeypatch.setattr(preparing, name, lambda *given, f=function, n=name: calls.append(n) or f(*given))
    prepared = PreparedClients.of(clients_of(drawn("many clients")), Settings(screen=True))
    result = estimate_of(prepared, "uniform", "auto")
    assert compare_methods(prepared, result).estimates[0] is result
    assert forms_for_page(prepared)[0]
    assert sorted(calls) == ["label_shift_test", "screen_clients"]
