"""BLUP against the mixed-model equations written down densely."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from factories import dirichlet, federation, limited, ordinary
from fedcert import Report, Sums, estimate
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.clients.statistics import SufficientStatistics
from fedcert.estimation.methods.blup import blup
from fedcert.estimation.methods.linear_model import Fit, decreasing, fit
from fedcert.estimation.settings import Settings


def made_up(seed: int, classes: int = 6, opens: bool = False, partition: object = None) -> ReportedClients:
    """A federation of 100 clients."""
    generator = np.random.default_rng(seed)
    labels = (partition or dirichlet(0.3))(classes, generator)  # type: ignore[operator]
    return federation(labels, ordinary(classes, generator).draw(labels, generator), opens)


def dense(made: ReportedClients, ratio: float) -> tuple[np.ndarray, float]:
    """Class accuracies by generalised least squares over all clients, and the criterion for the ratio.

    That is REML, radii weighted by the variance of one example, with the prior Beta(1, 9) on ratio/(1 + ratio).
    """
    mixes, curves, sizes = made.mixes, made.certified_accuracy, made.sizes.astype(float)
    covariance = ratio * mixes @ mixes.T + np.diag(1 / sizes)
    inverse = np.linalg.inv(covariance)
    ones = np.ones(len(sizes))
    mean = (ones @ inverse @ curves) / (ones @ inverse @ ones)
    effects = ratio * mixes.T @ inverse @ (curves - mean)
    rest = curves - mean
    quadratic = np.einsum("ir,ij,jr->r", rest, inverse, rest)
    told = np.ptp(curves, axis=0) > 0
    determinant = np.linalg.slogdet(covariance)[1] + np.log(ones @ inverse @ ones)
    pooled = (sizes @ curves)[told] / sizes.sum()
    share = pooled * (1 - pooled) / np.sum(pooled * (1 - pooled))
    between = ratio / (1 + ratio)
    # The density of log ratio: that of the share times ratio/(1 + ratio)².
    prior = stats.beta.logpdf(between, 1, 9) + np.log(between * (1 - between))
    return mean + effects, float((len(sizes) - 1) * share @ np.log(quadratic[told]) + determinant - 2 * prior)


@pytest.mark.parametrize("ratio", [1e-3, 0.05, 1.0, 100.0])
def test_class_accuracies_are_those_of_dense_gls(ratio: float) -> None:
    for seed in range(5):
        made = made_up(seed)
        fitted = Fit(made.statistics, ratio)
        assert fitted.class_accuracy == pytest.approx(dense(made, ratio)[0], abs=1e-8)


def test_the_ratio_minimises_the_dense_criterion() -> None:
    for seed in range(5):
        made = made_up(seed)
        best = fit(made.statistics).ratio
        here = dense(made, best)[1]
        for factor in (0.5, 0.9, 1.1, 2.0):
            assert dense(made, best * factor)[1] > here
        grid = np.geomspace(1e-6, 1e6, 60)
        assert here <= min(dense(made, ratio)[1] for ratio in grid) + 1e-6


def test_weights_reproduce_the_estimate_and_add_up_to_1() -> None:
    for seed in range(5):
        made = made_up(seed, classes=10)
        target = np.random.default_rng(seed).dirichlet(np.ones(10))
        fitted = fit(made.statistics)
        weights = made.label_counts @ fitted.rule(target).coefficients
        assert weights.sum() == pytest.approx(1, abs=1e-10)
        assert weights @ made.certified_accuracy == pytest.approx(target @ fitted.class_accuracy, abs=1e-10)


def test_non_negative_weights_on_request() -> None:
    """The same risk over the simplex, against CVXPY."""
    import cvxpy as cp

    generator = np.random.default_rng(0)
    labels = generator.multinomial(60, np.random.default_rng(1).dirichlet(np.full(10, 0.2), size=12))
    made = federation(labels, ordinary(10, generator).draw(labels, generator), False)
    target = generator.dirichlet(np.ones(10))
    answer = blup(made, target, Settings(non_negative=True))
    assert answer.weights is not None
    assert np.all(answer.weights >= 0)
    ratio = answer.details["ratio"]
    weights = cp.Variable(12, nonneg=True)
    risk = cp.sum_squares(cp.multiply(weights, 1 / np.sqrt(made.sizes))) + ratio * cp.sum_squares(
        target - made.mixes.T @ weights
    )
    cp.Problem(cp.Minimize(risk), [cp.sum(weights) == 1]).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13
    )

    def value(some: np.ndarray) -> float:
        return float(np.sum(some**2 / made.sizes) + ratio * np.sum((target - some @ made.mixes) ** 2))

    assert value(answer.weights) <= value(np.maximum(weights.value, 0) / np.maximum(weights.value, 0).sum()) * (
        1 + 1e-8
    )


def test_evidence_merges_and_reads_the_same_from_sums(make_report: Callable[..., Report]) -> None:
    generator = np.random.default_rng(0)
    reports = []
    for index in range(40):
        labels = generator.multinomial(generator.integers(0, 80), [0.5, 0.3, 0.2])
        first = generator.binomial(labels.sum(), 0.6)
        reports.append(make_report(f"site {index:02d}", labels.tolist(), [int(first), int(first // 2)]))
    whole = ReportedClients.of(reports).statistics
    parts = ReportedClients.of(reports[:15]).statistics + ReportedClients.of(reports[15:]).statistics
    sums = Sums.of(reports)
    assert sums.moments is not None
    from_sums = SufficientStatistics.of_moments(sums.label_counts, sums.certified_counts, sums.moments)
    for name in ("clients", "labels", "certified", "labels_labels", "labels_certified", "certified_squared"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-12)
        assert getattr(from_sums, name) == pytest.approx(getattr(whole, name), abs=40 / sums.moments.scale)


def test_counts_per_class_enter_the_same_model_as_curves() -> None:
    """Half of the clients open: better than ignoring either half, on average."""
    errors: dict[str, list[float]] = {"both": [], "curves": [], "classes": []}
    for seed in range(30):
        generator = np.random.default_rng(seed)
        labels = dirichlet(0.3)(10, generator)
        world = ordinary(10, generator)
        cells = world.draw(labels, generator)
        target = generator.dirichlet(np.full(10, 0.5))
        half = labels.copy()
        half[50:] = 0
        closed = SufficientStatistics.of_clients(labels[50:], cells[50:].sum(axis=1))
        opened = SufficientStatistics.of_classes(half.sum(axis=0).astype(float), cells[:50].sum(axis=0).astype(float))
        truth = target @ world.accuracy
        for name, evidence in (
            ("both", closed + opened),
            ("curves", SufficientStatistics.of_clients(labels, cells.sum(axis=1))),
            ("classes", opened),
        ):
            errors[name].append(float(np.mean((target @ fit(evidence).class_accuracy - truth) ** 2)))
    mean = {name: np.mean(values) for name, values in errors.items()}
    assert mean["both"] < mean["classes"]
    assert mean["both"] < mean["curves"]


def test_curves_are_made_to_fall() -> None:
    assert decreasing(np.array([0.9, 0.5, 0.6, -0.1])) == pytest.approx([0.9, 0.55, 0.55, 0.0])
    assert decreasing(np.array([1.2, 0.5])) == pytest.approx([1.0, 0.5])


def test_when_all_clients_agree_nothing_is_divided_by_zero(make_report: Callable[..., Report]) -> None:
    reports = [make_report(f"site {index}", [5, 5], [10, 10, 0]) for index in range(4)]
    result = estimate(reports, {"class 0": 1}, "blup")
    assert result.certified_accuracy == pytest.approx((1.0, 1.0, 0.0))


def test_class_limited_clients_are_told_apart() -> None:
    made = made_up(3, classes=10, partition=limited(0.2))
    fitted = fit(made.statistics)
    assert fitted.ratio > 1e-3
    assert np.ptp(fitted.class_accuracy[:, 0]) > 0.1
