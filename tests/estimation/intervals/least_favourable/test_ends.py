"""Inverted tests against exact sums over all outcomes: no θ is rejected too often, and none much too seldom."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import stats

from fedcert.estimation.intervals.least_favourable.cells import Cells, ClassRows, client_rows
from fedcert.estimation.intervals.least_favourable.ends import (
    Segment,
    Statistic,
    least_favourable_ends,
    rejected_by_tilting,
)
from tail_bounds import tilted_bound

ALPHA = 0.025
LEVEL = float(np.log(1 / ALPHA))
SIZES = (20, 50, 200, 1_000, 3_000, 10_000)
NEAR_0 = np.geomspace(1e-6, 0.05, 150)
THETA = np.unique(np.concatenate([NEAR_0, np.linspace(0.05, 0.95, 301), 1 - NEAR_0]))
ROUNDING = 1e-12


def one_binomial(examples: int) -> Cells:
    """T is the certified share of so many examples of one class."""
    return Cells(np.ones(1), client_rows(np.array([1 / examples]), np.array([[float(examples)]])))


def by_chernoff(cells: Cells, values: np.ndarray, level: float) -> np.ndarray:
    """The largest θ that each value rejects without the bracket, by any of many tilts."""
    tilts = np.geomspace(0.5, 20, 60) * np.sqrt(8 * level / cells.sum_squares)
    tilts = tilts[tilts * cells.largest_weight < 50]
    return np.max([tilted_bound(cells, float(tilt), with_bracket=False).rejected(values, level) for tilt in tilts], 0)


def whole_test(cells: Cells, values: np.ndarray, level: float) -> np.ndarray:
    statistic = Statistic(values, cells, np.full(len(values), cells.sum_squares))
    return statistic.rejected(np.arange(len(values)), level)


@cache
def rejected_up_to(test: str, examples: int) -> np.ndarray:
    """The largest θ that 0, 1, … certified examples reject."""
    values = np.arange(examples + 1) / examples
    tests = {"chernoff": by_chernoff, "tilting": rejected_by_tilting, "whole": whole_test}
    return tests[test](one_binomial(examples), values, LEVEL)


def rejection(examples: int, largest: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The exact probability that θ is rejected, at accuracies of θ."""
    counts = np.arange(examples + 1)
    return np.array([float(stats.binom.pmf(counts[largest >= one], examples, one).sum()) for one in theta])


@pytest.mark.parametrize("test", ["chernoff", "tilting", "whole"])
@pytest.mark.parametrize("examples", SIZES)
def test_no_accuracy_of_one_binomial_is_rejected_too_often(examples: int, test: str) -> None:
    largest = rejected_up_to(test, examples)
    assert rejection(examples, largest, THETA).max() <= ALPHA + ROUNDING
    # Where it is tightest: just up to the θ that an outcome rejects.
    edges = largest[(largest > 0) & (largest < 1)]
    assert rejection(examples, largest, edges[:: max(1, len(edges) // 300)]).max() <= ALPHA + ROUNDING


@pytest.mark.parametrize("examples", [size for size in SIZES if size >= 1_000])
def test_many_examples_are_rejected_about_as_often_as_allowed(examples: int) -> None:
    """In the middle at least 0.6 of it by tilting alone, and 0.75 with the binomial test: intervals are hardly longer."""
    middle = THETA[(THETA >= 0.2) & (THETA <= 0.8)]
    assert rejection(examples, rejected_up_to("tilting", examples), middle).min() > 0.6 * ALPHA
    most = THETA[(THETA >= 0.1) & (THETA <= 0.9)]
    assert rejection(examples, rejected_up_to("tilting", examples), most).mean() > 0.7 * ALPHA
    assert rejection(examples, rejected_up_to("whole", examples), most).min() > 0.75 * ALPHA


def interval(certified: float, examples: int) -> tuple[float, float]:
    statistic = Statistic(np.array([certified / examples]), one_binomial(examples), np.array([1 / examples]))
    lower, upper = least_favourable_ends((Segment(1.0, ((statistic, 1.0),)),), LEVEL)
    return float(lower[0]), float(upper[0])


@pytest.mark.parametrize("examples", SIZES)
def test_none_certified_is_as_sure_as_it_can_be(examples: int) -> None:
    """The exact upper end of 0 out of n is 1 - α^(1/n); no valid interval can end below it at all n."""
    exact = 1 - ALPHA ** (1 / examples)
    lower, upper = interval(0, examples)
    assert lower == 0
    assert exact - ROUNDING <= upper <= 1.002 * exact
    tilted = 1 - float(rejected_by_tilting(one_binomial(examples), np.ones(1), LEVEL)[0])
    assert exact - ROUNDING <= tilted <= 1.002 * exact


def test_0_of_1000_ends_at_0_00368() -> None:
    assert interval(0, 1_000)[1] == pytest.approx(0.00368, abs=5e-6)
    assert interval(1_000, 1_000)[0] == pytest.approx(1 - 0.00368, abs=5e-6)


def poisson_binomial(accuracies: np.ndarray) -> np.ndarray:
    """Probabilities of 0, 1, … certified examples with these accuracies, by convolution."""
    chances = np.ones(1)
    for accuracy in accuracies:
        chances = np.convolve(chances, [1 - accuracy, accuracy])
    return chances


def equal_weights(labels: np.ndarray) -> Cells:
    """Every example weighs the same, and the target has the examples' mix."""
    total = float(labels.sum())
    return Cells(labels / total, client_rows(np.array([1 / total]), labels[None, :].astype(float)))


@pytest.mark.parametrize("alpha", [0.25, 0.025, 0.0005])
@pytest.mark.parametrize("examples", [2, 3, 5, 10, 30])
def test_the_binomial_test_holds_for_accuracies_that_differ(examples: int, alpha: float) -> None:
    """A class for each example, so that accuracies are any numbers: a few sure ones are where binomial tails fail."""
    labels = np.ones(examples)
    cells, values = equal_weights(labels), np.arange(examples + 1) / examples
    largest = whole_test(cells, values, float(np.log(1 / alpha)))
    assert np.all(np.diff(largest) >= -ROUNDING)
    generator = np.random.default_rng([examples, round(1 / alpha)])
    worlds = [generator.uniform(0, 1, examples) ** power for power in (0.1, 0.3, 1, 3, 10, 30) for _ in range(10)]
    for sure in range(min(examples, 6)):  # some surely certified, some surely not, the others alike
        for never in range(min(examples - sure, 6)):
            alike = np.geomspace(1e-5, 1, 25)
            alike = np.concatenate([alike, 1 - alike[:-1]])
            for accuracy in alike:
                world = np.full(examples, accuracy)
                world[:sure], world[examples - never :] = 1.0, 0.0
                worlds.append(world)
    for world in worlds:
        chances, theta = poisson_binomial(world), world.mean()
        assert chances[largest >= theta].sum() <= alpha + ROUNDING, (theta, world)


@pytest.mark.parametrize("examples", [5, 10, 100])
def test_one_certified_example_rejects_less_than_a_binomial_test_would(examples: int) -> None:
    """One example that is certified with probability α, and others never: P(K >= 1) = α at a mean of α/n.

    The binomial test of one certified example rejects up to 1 - (1 - α)^(1/n), which is more.
    """
    cells = equal_weights(np.ones(examples))
    largest = whole_test(cells, np.arange(examples + 1) / examples, LEVEL)
    assert largest[1] <= ALPHA / examples + ROUNDING
    assert largest[1] < 1 - (1 - ALPHA) ** (1 / examples)
    statistic = Statistic(np.array([1 - 1 / examples]), cells, np.array([1 / examples]))
    upper = least_favourable_ends((Segment(1.0, ((statistic, 1.0),)),), LEVEL)[1]
    assert upper[0] >= 1 - ALPHA / examples - ROUNDING


def test_classes_of_one_weight_have_the_exact_test_for_any_accuracies() -> None:
    """Clients of three classes, pooled: by convolution, for accuracies of 0 and 1 and between."""
    labels = np.array([5, 20, 15])
    cells = equal_weights(labels)
    largest = whole_test(cells, np.arange(41) / 40, LEVEL)
    for first in (0.0, 0.02, 0.3, 1.0):
        for second in (0.0, 0.01, 0.5, 0.97, 1.0):
            for third in (0.0, 0.05, 0.6, 1.0):
                accuracy = np.array([first, second, third])
                chances = poisson_binomial(np.repeat(accuracy, labels))
                assert chances[largest > cells.target @ accuracy].sum() <= ALPHA + ROUNDING


@pytest.mark.parametrize("examples", SIZES)
def test_no_tilt_rejects_more_than_the_exact_test(examples: int) -> None:
    """Which is why none is tried where weights are equal and the mix is the target's."""
    assert np.all(rejected_up_to("tilting", examples) <= np.maximum(rejected_up_to("whole", examples), 0.0) + 1e-9)


@pytest.mark.parametrize("alpha", [0.025, 0.005])
@pytest.mark.parametrize("each", [100, 3 * 10**6, 10**7, 10**9, 10**11])
@pytest.mark.parametrize("classes", [2, 3, 5, 10])
def test_counts_of_many_examples_are_not_misread(classes: int, each: int, alpha: float) -> None:
    """Few examples that are not certified, of very many: their number is exact in spite of rounded weights."""
    examples, few = np.full(classes, float(each)), np.arange(12)
    target = np.full(classes, 1 / classes)
    cells = Cells(target, None, ClassRows((target / examples)[None], examples[None], np.array([True])))
    certified = np.tile(examples[:, None], (1, len(few)))
    certified[-1] -= few
    values = (target / examples) @ certified
    statistic = Statistic(values, cells, np.full(len(values), cells.sum_squares))
    uncertified = statistic.rejected(np.arange(len(values), 2 * len(values)), -np.log(alpha)) * examples.sum()
    whole = examples.sum()
    assert np.all(uncertified[2:] <= 1.01 * stats.beta.ppf(alpha, few[2:], whole - few[2:] + 1) * whole)
    lower = 1 - statistic.rejected(np.arange(len(values)), -np.log(alpha))
    assert np.all(lower * whole >= 0.99 * stats.beta.isf(alpha, few + 1, whole - few) * whole)


def test_levels_above_a_quarter_do_without_the_binomial_test() -> None:
    """At 0.3 the binomial tail can be below the true one: mean 1.4 of 2 examples, say."""
    cells = equal_weights(np.ones(2))
    level = float(np.log(1 / 0.3))
    largest = whole_test(cells, np.arange(3) / 2, level)
    for accuracies in (np.array([1.0, 0.4]), np.array([0.7, 0.7]), np.array([1.0, 0.05]), np.array([0.55, 0.55])):
        chances = poisson_binomial(accuracies)
        assert chances[largest >= accuracies.mean()].sum() <= 0.3 + ROUNDING


def test_values_that_no_accuracies_explain_reject_everything() -> None:
    """T above 1 + what chance can do: the lower end is infinite, which `contradicted` then finds."""
    lower, _ = interval(1_100, 1_000)
    assert lower == np.inf
