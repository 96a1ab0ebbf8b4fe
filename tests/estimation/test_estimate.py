"""Estimates as a whole: settings, edge cases, what is recorded."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcert import (
    CallError,
    CannotCombine,
    Estimate,
    EstimationProblem,
    FileProblem,
    InvalidValue,
    Report,
    compare,
    estimate,
)
from fedcert.estimation.methods import registry as methods
from fedcert.estimation.methods.point_estimate import PointEstimate


@pytest.fixture
def reports(make_report: Callable[..., Report]) -> list[Report]:
    """Thirty clients with mixes of three classes."""
    generator = np.random.default_rng(0)
    made = []
    for index in range(30):
        labels = generator.multinomial(generator.integers(5, 120), generator.dirichlet([0.4] * 3))
        certified = int(sum(generator.binomial(labels, [0.9, 0.6, 0.3])))
        made.append(make_report(f"site {index}", labels.tolist(), [certified, certified // 2]))
    return made


@pytest.mark.parametrize("method", ["vw", "ap", "ga"])
def test_an_estimate_says_how_it_came_about(reports: list[Report], method: str) -> None:
    result = estimate(reports, {"class 0": 2, "class 2": 2}, method)
    assert result.target.distribution == {"class 0": 0.5, "class 1": 0.0, "class 2": 0.5}
    assert (result.clients, result.examples) == (30, sum(report.examples for report in reports))
    assert result.weights is not None
    assert sum(result.weights.values()) == pytest.approx(1, abs=1e-12)
    assert result.effective_examples is not None
    assert 0 < result.effective_examples <= result.examples * (1 + 1e-12)
    weights = np.array([result.weights[report.client] for report in reports])
    assert weights @ [report.certified_accuracy for report in reports] == pytest.approx(result.certified_accuracy)
    mixes = np.array([np.array(report.label_counts) / report.examples for report in reports])
    difference = np.array([0.5, 0, 0.5]) - weights @ mixes
    assert result.mismatch is not None
    assert result.mismatch.l2 == pytest.approx(np.linalg.norm(difference), abs=1e-12)
    assert result.mismatch.tv == pytest.approx(np.abs(difference).sum() / 2, abs=1e-12)
    sizes = np.array([report.examples for report in reports])
    assert result.effective_examples == pytest.approx(1 / np.sum(weights**2 / sizes))
    assert result.bias_bound is not None
    assert result.bias_bound.sharp == result.mismatch.tv
    # Three classes: the worst accuracies are (1, 0, 0), a third of it away from their mean, or (1, 1, 0).
    assert result.bias_bound.spread == pytest.approx(np.linalg.norm([2 / 3, -1 / 3, -1 / 3]))
    assert result.bias_bound.theorem_1 == pytest.approx(result.mismatch.l2 * result.bias_bound.spread)
    assert result.guarantee.startswith("With probability at least 0.95, for each radius, the interval covers")
    assert result.lower is not None
    assert result.upper is not None
    assert all(
        low <= point <= high
        for low, point, high in zip(result.lower, result.certified_accuracy, result.upper, strict=True)
    )
    again = estimate(reports, result.target, method, **result.settings)
    assert again.certified_accuracy == result.certified_accuracy


def test_the_seed_decides_and_the_order_of_the_reports_does_not(reports: list[Report]) -> None:
    assert estimate(reports, method="ga", seed=3).weights == estimate(reports[::-1], method="ga", seed=3).weights
    assert (
        estimate(reports, "uniform", "ga", seed=3).details["subset"]
        != estimate(reports, "uniform", "ga", seed=4).details["subset"]
    )


def test_one_client_has_all_the_weight(make_report: Callable[..., Report]) -> None:
    for method in ("vw", "ap", "ga"):
        assert dict(estimate([make_report("a", [3, 4], [5, 2])], "uniform", method).weights or {}) == {"a": 1.0}


def test_more_clients_per_subset_than_there_are(reports: list[Report]) -> None:
    result = estimate(reports, "uniform", "ga", subset_size=1000)
    assert result.details["subsets_drawn"] == 1
    assert len(result.details["subset"]) == 30


def test_clients_without_examples_are_left_out_and_named(
    reports: list[Report], make_report: Callable[..., Report]
) -> None:
    empty = make_report("empty", [0, 0, 0], [0, 0])
    for method in ("vw", "ap", "ga"):
        result = estimate([empty, *reports], "uniform", method)
        assert dict(result.excluded) == {"empty": "it has no test examples"}
        assert "empty" not in (result.weights or {})
        assert result.certified_accuracy == estimate(reports, "uniform", method).certified_accuracy


def test_nobody_with_examples_is_an_error(make_report: Callable[..., Report]) -> None:
    with pytest.raises(EstimationProblem, match="no client has any test example, so there is nothing to estimate from"):
        estimate([make_report("empty", [0, 0], [0])])


def test_a_class_that_nobody_has_is_named(make_report: Callable[..., Report]) -> None:
    reports = [make_report("a", [5, 5, 0], [8]), make_report("b", [9, 1, 0], [7])]
    result = estimate(reports, "uniform", "ga")
    check = {check.name: check for check in result.checks}
    assert check["class coverage"].verdict == "unreliable"
    assert check["class coverage"].sentence == (
        "No client has test examples of 'class 2' (33.3% of the target), so their accuracy is unknown."
    )
    assert result.mismatch is not None
    assert result.mismatch.tv >= 1 / 3 - 1e-12
    fine = estimate(reports, {"class 0": 1, "class 1": 1}, "ga")
    assert {check.name: check.verdict for check in fine.checks}["class coverage"] == "ok"


def test_radii_beyond_the_cap_are_named(make_report: Callable[..., Report]) -> None:
    result = estimate([make_report("a", [5, 5], [8, 7, 6, 0, 0])])
    check = {check.name: check for check in result.checks}["radii in reach"]
    assert check.verdict == "warning"
    assert check.sentence.startswith(
        "2 of 5 radii are beyond 0.616, the largest that these settings can certify, so accuracy is 0 there by construction. Use a larger sigma or smaller radii"
    )


@pytest.mark.parametrize(
    ("changes", "error", "sentence"),
    [
        (
            {"method": "best"},
            CallError,
            "method must be one of vw, ap, ga, blup, poststratified, minimax, auto, but is 'best'",
        ),
        ({"subsets": 0}, InvalidValue, "subsets must be a whole number from 1 to 2\\^53, but is 0"),
        ({"subset_size": 0}, InvalidValue, "subset_size must be a whole number from 1 to 2\\^53, but is 0"),
        ({"threshold": -1}, InvalidValue, "threshold must be a whole number from 0 to 2\\^53, but is -1"),
        ({"seed": -1}, InvalidValue, "seed must be a whole number from 0 to 2\\^53, but is -1"),
        ({"subsets": 1.5}, InvalidValue, "subsets must be a whole number from 1 to 2\\^53, but is 1.5"),
        (
            {"target": "skewed"},
            CallError,
            "target must be 'uniform', a JSON file from class name to weight, or class=weight,…, but is 'skewed'",
        ),
        ({"target": "class 0=x"}, CallError, "but 'class 0=x' in it is not class=weight"),
        ({"target": "class 0=1,class 0=1"}, CallError, "target names the class 'class 0' twice"),
        ({"target": [0.5, 0.5]}, CallError, r"one weight for each of the 3 classes, but has shape \(2,\)"),
        ({"target": 7}, CallError, r"one weight for each of the 3 classes, but has shape \(\)"),
        (
            {"target": {"cow": 1}},
            CallError,
            "unknown class 'cow' in the target; known classes: 'class 0', 'class 1', 'class 2'",
        ),
        (
            {"target": {"class 0": -1}},
            InvalidValue,
            "the target's weight of 'class 0' must be a finite number of at least 0, but is -1",
        ),
        ({"target": "class 0=nan"}, CallError, "must be a finite number of at least 0, but is nan"),
        ({"target": {"class 0": 0}}, CallError, "at least one weight of the target must be above 0"),
        ({"target": "cow=1"}, CallError, "unknown class 'cow' in the target"),
        ({"method": []}, CallError, "method must be one of .*, but is an empty list"),
        ({"target": [0, 0, 0]}, CallError, "at least one weight of the target must be above 0"),
    ],
)
def test_wrong_calls_are_named(
    reports: list[Report], changes: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        estimate(reports, **changes)


def test_no_reports_and_things_that_are_none() -> None:
    with pytest.raises(CannotCombine, match="there are no reports to combine; give at least one"):
        estimate([])
    with pytest.raises(CallError, match="reports must be reports, sums or paths, but one is int"):
        estimate([7])  # type: ignore[list-item]
    for wrong in (None, 5):
        with pytest.raises(CallError, match="reports must be reports, sums or paths, but is (null|5)"):
            estimate(wrong)  # type: ignore[arg-type]


def test_numbers_of_numpy_and_huge_ones_are_numbers(reports: list[Report], tmp_path: Path) -> None:
    plain = estimate(reports, {"class 0": 1, "class 1": 1}, "ga", threshold=5)
    other = estimate(reports, {"class 0": np.float32(1), "class 1": np.int64(1)}, "ga", threshold=np.int64(5))  # type: ignore[arg-type]
    huge = estimate(reports, "class 0=1e308,class 1=1e308", "ga", threshold=5)
    assert plain.certified_accuracy == other.certified_accuracy == huge.certified_accuracy
    (tmp_path / "huge.json").write_text('{"class 0": 1' + "0" * 400 + "}")
    with pytest.raises(InvalidValue, match="the target's weight of 'class 0' must be a finite number of at least 0"):
        estimate(reports, tmp_path / "huge.json")


def test_clients_that_drew_fewer_samples_are_pointed_out(make_report: Callable[..., Report]) -> None:
    few = make_report("few", [5, 5], [8, 7, 6, 0], smoothing={"sigma": 0.25, "n": 1000})
    many = make_report("many", [5, 5], [8, 7, 6, 5], smoothing={"sigma": 0.25, "n": 100_000})
    result = estimate([few, many], "uniform", "vw")
    assert result.guarantee.startswith("None: the clients certified with different samples")
    assert {check.name: check.verdict for check in result.checks}["same settings"] == "warning"
    assert result.largest_radius == pytest.approx(0.953, abs=1e-3)
    check = {check.name: check for check in result.checks}["radii in reach"]
    assert check.verdict == "warning"
    assert check.sentence == (
        "These settings can certify all of the radii (up to 0.953). At 1 radii beyond 0.616 some clients drew too few "
        "samples to certify anything, which lowers the estimate there."
    )


def test_more_examples_than_can_be_counted_are_refused(make_report: Callable[..., Report]) -> None:
    reports = [make_report(f"site {index}", [2**52, 2**52], [5]) for index in range(3)]
    with pytest.raises(EstimationProblem, match="the clients claim 27021597764222976 examples together"):
        estimate(reports)


def test_a_target_file(reports: list[Report], tmp_path: Path) -> None:
    path = tmp_path / "ward.json"
    path.write_text('{"class 0": 1, "class 1": 3}')
    result = estimate(reports, str(path), "vw")
    assert result.target.name == "ward"
    assert result.target.distribution["class 1"] == 0.75
    path.write_text('{"class 9": 1}')
    with pytest.raises(
        FileProblem,
        match=r"ward\.json: unknown class 'class 9' in the target; known classes: 'class 0', 'class 1', 'class 2'",
    ):
        estimate(reports, str(path))
    path.write_text("[1]")
    with pytest.raises(
        InvalidValue, match="the target must be a JSON object from class name to weight, but is a list of 1"
    ):
        estimate(reports, str(path))
    with pytest.raises(CallError, match="there is no file"):
        estimate(reports, str(tmp_path / "none.json"))


def test_reports_may_be_paths(reports: list[Report], tmp_path: Path) -> None:
    for report in reports:
        (tmp_path / f"{report.client}.json").write_text(report.dumps())
    by_path = estimate(tmp_path, "uniform", "vw")  # type: ignore[arg-type]
    assert by_path.certified_accuracy == pytest.approx(estimate(reports, "uniform", "vw").certified_accuracy)


def test_a_registered_estimator_is_found(reports: list[Report], monkeypatch: pytest.MonkeyPatch) -> None:
    def half(federation: Any, target: Any, settings: Any) -> PointEstimate:
        return PointEstimate(np.full(len(federation.radii), 0.5), None, weights_note="it does not look at anybody")

    entry = EntryPoint("half", "somewhere:half", "fedcert.estimators")
    monkeypatch.setattr(EntryPoint, "load", lambda self: half)

    def entry_points(group: str, name: str | None = None) -> EntryPoints:
        return EntryPoints([entry] if name in (None, "half") else [])

    monkeypatch.setattr(methods, "entry_points", entry_points)
    result = estimate(reports, "uniform", "half")
    assert result.certified_accuracy == (0.5, 0.5)
    assert (result.weights, result.weights_note, result.mismatch) == (None, "it does not look at anybody", None)
    assert methods.method_names() == ["vw", "ap", "ga", "blup", "poststratified", "minimax", "auto", "half"]
    assert result.guarantee == "A point estimate. Its method states no guarantee."


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda *_: 1 / 0, r"the method 'odd' \(somewhere:odd\) failed: ZeroDivisionError: division by zero"),
        (lambda *_: 7, "the method 'odd' must give a PointEstimate, but gave int"),
        (
            lambda federation, *_: PointEstimate(np.zeros(2), np.full(len(federation.clients), 0.5)),
            "the weights of 'odd' must add up to 1, but add up to 15.0",
        ),
    ],
)
def test_a_registered_estimator_that_fails_is_named(
    reports: list[Report], monkeypatch: pytest.MonkeyPatch, function: Any, sentence: str
) -> None:
    entry = EntryPoint("odd", "somewhere:odd", "fedcert.estimators")
    monkeypatch.setattr(methods, "entry_points", lambda **_: EntryPoints([entry]))
    with pytest.raises(CallError, match=r"the method 'odd' \(somewhere:odd\) cannot be loaded: ModuleNotFoundError"):
        estimate(reports, "uniform", "odd")
    monkeypatch.setattr(EntryPoint, "load", lambda self: function)
    with pytest.raises(EstimationProblem, match=sentence):
        estimate(reports, "uniform", "odd")


def test_the_accuracy_at_a_radius(make_report: Callable[..., Report]) -> None:
    result = estimate([make_report("a", [5, 5], [8, 7, 6])])
    points = [result.at(radius) for radius in (0, 0.1, 0.25, 0.5)]
    assert [point.certified_accuracy for point in points] == pytest.approx([0.8, 0.7, 0.7, 0.6])
    assert [point.radius for point in points] == [0.0, 0.25, 0.25, 0.5]
    assert result.lower is not None
    assert result.upper is not None
    assert [(point.lower, point.upper) for point in points] == [
        (result.lower[index], result.upper[index]) for index in (0, 1, 1, 2)
    ]
    assert {point.confidence for point in points} == {0.95}
    with pytest.raises(ValueError, match="^radius must be at most 0.5, the largest of this curve, but is 0.6; ask for"):
        result.at(0.6)
    for wrong in (-0.1, float("nan"), "wide", None, True):
        with pytest.raises(CallError, match="^radius must be a number of at least 0, but is "):
            result.at(wrong)  # type: ignore[arg-type]
    assert isinstance(result, Estimate)


def test_errors_by_hand() -> None:
    made = compare([0.8, 0.4, 0.1, 0.0], [0.8, 0.5, 0.0, 0.0])
    assert made.rmse == pytest.approx(np.sqrt((0.1**2 + 0.1**2) / 4))
    assert made.mape == pytest.approx((0 + 0.2) / 2)
    assert (made.radii, made.left_out) == (4, 2)
    assert compare([0.1], [0.0]).mape is None
    for wrong in ([0.1], [[0.1, 0.2]], [], [np.nan, 0.1]):
        with pytest.raises(CallError, match="both curves must"):
            compare(wrong, [0.1, 0.2])


def test_the_target_of_a_request_or_an_estimate_can_be_used_again(reports: list[Report], tmp_path: Path) -> None:
    made = estimate(reports, {"class 0": 1, "class 2": 3}, "vw")
    (tmp_path / "estimate.json").write_text(made.dumps())
    assert estimate(reports, tmp_path / "estimate.json", "vw").target == made.target


def test_an_estimate_is_frozen_all_through(reports: list[Report]) -> None:
    result = estimate(reports, "uniform", "ga")
    with pytest.raises(TypeError):
        result.details["x"] = 1  # type: ignore[index]
    with pytest.raises(TypeError):
        result.details["groups"][0]["weight"] = 1
    assert isinstance(hash(result), int)
