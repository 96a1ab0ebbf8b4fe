"""Asymptotic intervals of few examples: exact coverage of one class or client, and thin classes by simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from factories import RADII, dirichlet, federation, ordinary
from fedcert.estimation.clients import ReportedClients
from fedcert.estimation.intervals.half_widths import asymptotic
from fedcert.estimation.intervals.ingredients import CLOSEST_TO_CERTAIN, Uncertainty
from fedcert.estimation.intervals.statement import make_interval
from fedcert.estimation.methods.registry import estimator
from fedcert.estimation.settings import Settings

SETTINGS = Settings(interval="asymptotic")
ACCURACIES = np.linspace(0.005, 0.995, 199)
NOMINAL = 0.94
"""What asymptotic intervals at 0.95 are held to."""


def clients_of(labels: np.ndarray, cells: np.ndarray, by_class: bool) -> ReportedClients:
    """Clients with counts of any number of radii, which need not fall: each stands for an outcome of its own."""
    made = federation(labels, np.zeros((*labels.shape, len(RADII)), int), by_class)
    rows = cells if by_class else cells[:0]
    return replace(
        made, radii=tuple(range(cells.shape[2])), certified_counts=cells.sum(axis=1).astype(float), class_rows=rows
    )


def uncertainty_of(method: str, labels: np.ndarray, cells: np.ndarray, target: np.ndarray) -> Uncertainty:
    uncertainty = estimator(method)(clients_of(labels, cells, method == "poststratified"), target, SETTINGS).uncertainty
    assert uncertainty is not None
    return uncertainty


def outcomes(method: str, examples: int) -> tuple[Uncertainty, np.ndarray]:
    """The ingredients for every outcome of one class, and how probable each is (accuracies x outcomes)."""
    certified = np.arange(examples + 1)
    labels, target = np.array([[examples]]), np.ones(1)
    uncertainty = uncertainty_of(method, labels, certified[None, None, :], target)
    return uncertainty, stats.binom.pmf(certified, examples, ACCURACIES[:, None])


@pytest.mark.parametrize("method", ["poststratified", "minimax", "vw"])
@pytest.mark.parametrize("examples", [20, 30, 50, 100, 1000])
def test_one_class_is_covered_whatever_its_accuracy(method: str, examples: int) -> None:
    """Exact, without simulation: the docstring's 0.92 at least, 0.95 on average."""
    uncertainty, probability = outcomes(method, examples)
    half = asymptotic(uncertainty, np.ones(1), 0.95, False, None)
    inside = np.abs(uncertainty.centre - ACCURACIES[:, None]) <= half + 1e-12
    coverage = np.sum(probability * inside, axis=1)
    assert coverage.min() > 0.92
    assert coverage.mean() > 0.95 - 1e-3
    runs = 1000
    assert stats.binomtest(round(runs * coverage.min()), runs, NOMINAL, alternative="less").pvalue > 0.001


@pytest.mark.parametrize("method", ["poststratified", "minimax"])
def test_intervals_of_many_examples_hardly_grow(method: str) -> None:
    """At 1,000 examples less than 0.5% is added on average, to what a normal interval has."""
    uncertainty, probability = outcomes(method, 1000)
    half = asymptotic(uncertainty, np.ones(1), 0.95, False, None)
    assert uncertainty.class_accuracy is not None
    accuracy = uncertainty.class_accuracy[0]
    normal = stats.norm.ppf(0.975) * np.sqrt(accuracy * (1 - accuracy) / 1000)
    middle = (ACCURACIES >= 0.1) & (ACCURACIES <= 0.9)
    assert np.mean(((probability @ half) / (probability @ normal))[middle]) < 1.005


def test_the_variance_of_a_class_is_never_too_small_on_average() -> None:
    for examples in (1, 2, 3, 10, 100):
        uncertainty, probability = outcomes("poststratified", examples)
        assert uncertainty.class_variance is not None
        expected = probability @ uncertainty.class_variance[0]
        right = ACCURACIES * (1 - ACCURACIES)
        assert np.all(expected >= right - 1e-12)
        assert expected[99] == pytest.approx(right[99])  # at ½ it is right


@pytest.mark.parametrize("accuracy", [0.5, 0.4, "mixed"])
def test_thin_classes_are_covered(accuracy: float | str) -> None:
    """1,000 classes of two examples each."""
    generator, runs, classes = np.random.default_rng(0), 2000, 1000
    truth = np.linspace(0.2, 0.8, classes) if accuracy == "mixed" else np.full(classes, float(accuracy))
    covered, target = 0, np.full(classes, 1 / classes)
    for _ in range(10):
        cells = generator.binomial(2, truth[:, None], size=(classes, runs // 10))[None]
        uncertainty = uncertainty_of("poststratified", np.full((1, classes), 2), cells, target)
        half = asymptotic(uncertainty, target, 0.95, False, None)
        covered += int(np.sum(np.abs(uncertainty.centre - target @ truth) <= half))
    assert stats.binomtest(covered, runs, 0.95, alternative="less").pvalue > 0.001


@pytest.mark.parametrize("target_examples", [None, 100])
@pytest.mark.parametrize("accuracy", [0.05, 0.1, 0.2, 0.4, 0.5, 0.93])
def test_a_class_of_20_examples_that_most_of_the_target_is_of(accuracy: float, target_examples: int | None) -> None:
    generator, runs = np.random.default_rng(1), 5000
    labels, target = np.array([[20, 500, 500]]), np.array([0.82, 0.09, 0.09])
    truth = np.array([accuracy, 0.5, 0.7])
    cells = generator.binomial(labels[0][:, None], truth[:, None], size=(3, runs))[None]
    uncertainty = uncertainty_of("poststratified", labels, cells, target)
    half = asymptotic(uncertainty, target, 0.95, False, target_examples)
    wanted = np.full(runs, target @ truth)
    if target_examples is not None:
        of_target = np.round(target * target_examples).astype(int)
        wanted = generator.binomial(of_target[:, None], truth[:, None], size=(3, runs)).sum(axis=0) / target_examples
    covered = int(np.sum(np.abs(uncertainty.centre - wanted) <= half + 1e-12))
    assert stats.binomtest(covered, runs, NOMINAL, alternative="less").pvalue > 0.001


@pytest.mark.parametrize("accuracy", [0.05, 0.1, 0.2, 0.5])
def test_two_clients_of_15_examples(accuracy: float) -> None:
    generator, runs = np.random.default_rng(2), 500
    labels, target, truth = np.array([[10, 5], [5, 10]]), np.full(2, 0.5), np.array([accuracy, 0.6 * accuracy])
    covered = 0
    for _ in range(runs):
        cells = generator.binomial(labels, truth)[:, :, None]
        uncertainty = uncertainty_of("minimax", labels, cells, target)
        half = asymptotic(uncertainty, target, 0.95, False, None)
        covered += bool(abs(uncertainty.centre[0] - target @ truth) <= half[0])
    assert stats.binomtest(covered, runs, NOMINAL, alternative="less").pvalue > 0.001


def test_nothing_certified_still_has_an_interval() -> None:
    """With none of 30 examples certified, the exact two-sided interval at 0.95 ends at 0.116."""
    for method in ("poststratified", "minimax"):
        uncertainty, _ = outcomes(method, 30)
        half = asymptotic(uncertainty, np.ones(1), 0.95, False, None)
        assert half[0] > 0.09
        assert CLOSEST_TO_CERTAIN < half[0] < 0.13


@pytest.mark.slow
def test_all_radii_at_once_with_few_clients() -> None:
    """Ten draws of ten clients with some hundred examples each, post-stratified."""
    settings, runs, total = replace(SETTINGS, simultaneous=True), 300, 0
    for seed in range(10):
        generator = np.random.default_rng(1000 + seed)
        labels = dirichlet(0.5)(10, generator)[:10]
        labels = labels[labels.sum(axis=1) > 0]
        target, world = generator.dirichlet(np.full(10, 0.7)), ordinary(10, generator)
        truth, covered = target @ world.accuracy, 0
        for _ in range(runs):
            clients = federation(labels, world.draw(labels, generator), True)
            uncertainty = estimator("poststratified")(clients, target, settings).uncertainty
            assert uncertainty is not None
            bounds = make_interval(uncertainty, target, clients, settings)
            covered += bool(np.all((bounds.lower <= truth + 1e-12) & (truth <= bounds.upper + 1e-12)))
        assert stats.binomtest(covered, runs, NOMINAL, alternative="less").pvalue > 0.001, seed
        total += covered
    assert stats.binomtest(total, 10 * runs, 0.95, alternative="less").pvalue > 0.001
