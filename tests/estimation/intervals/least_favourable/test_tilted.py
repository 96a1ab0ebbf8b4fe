"""The bound for one tilt against what it bounds, at random accuracies."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import optimize

from fedcert.estimation.intervals.least_favourable import tilted
from fedcert.estimation.intervals.least_favourable.cells import Cells, ClassRows, client_rows
from fedcert.estimation.intervals.least_favourable.tilted import MOST_SMOOTH, TiltedBound
from tail_bounds import exact, tilted_bound


def value_at(bound: TiltedBound, theta: float) -> float:
    """The bound's logarithm for p(S)·L = θ: Chernoff's or the bracket's, whichever is smaller."""
    return float(bound.largest(np.array([theta]), np.array([theta]))[0])


def random_cells(generator: np.random.Generator) -> Cells:
    classes, clients = int(generator.integers(1, 8)), int(generator.integers(1, 12))
    target = generator.dirichlet(np.full(classes, 0.7))
    if classes > 2 and generator.random() < 0.3:
        target[0] = 0.0
        target /= target.sum()
    kind = generator.integers(3)
    rows = by_class = None
    if kind != 1:
        labels = generator.multinomial(
            generator.integers(1, 3_000, clients), generator.dirichlet(np.ones(classes), clients)
        ).astype(float)
        weights = generator.normal(1 / clients, 0.7 / clients, clients) / np.maximum(labels.sum(axis=1), 1)
        rows = client_rows(weights, labels)
    if kind != 0:
        examples = np.floor(np.exp(generator.uniform(0, 8, (2, classes))))
        spread = generator.normal(1, 0.3, (2, classes)) * target / examples.sum(axis=0)
        by_class = ClassRows(spread, examples, np.array([True, generator.random() < 0.5]))
    return Cells(target, rows, by_class)


def random_accuracy(generator: np.random.Generator, classes: int) -> np.ndarray:
    kind = generator.integers(4)
    if kind == 0:
        return generator.uniform(0, 1, classes)
    if kind == 1:
        return generator.uniform(0, 1, classes) ** float(np.exp(generator.uniform(0, 4)))
    if kind == 2:
        return generator.integers(0, 2, classes).astype(float)
    return np.full(classes, generator.uniform(0, 1))


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_is_above_the_exact_one_at_all_accuracies(seed: int) -> None:
    generator = np.random.default_rng(seed)
    for _ in range(25):
        cells = random_cells(generator)
        base = np.sqrt(8 * 3.7 / cells.sum_squares)
        for tilt in base * np.exp(generator.uniform(np.log(0.3), np.log(30), 3)):
            if tilt * cells.largest_weight > 300:
                continue
            bound, chernoff = (tilted_bound(cells, float(tilt), with_bracket=with_it) for with_it in (True, False))
            for _ in range(20):
                accuracy = random_accuracy(generator, len(cells.target))
                theta = float(cells.target @ accuracy)
                wanted = exact(cells, float(tilt), accuracy)
                size = max(1.0, float(tilt) * cells.sum_sizes)
                assert value_at(bound, theta) >= wanted - 1e-13 * size
                assert value_at(bound, theta) <= value_at(chernoff, theta) + 1e-13 * size


def test_the_tilted_variance_is_concave_up_to_a_weight_of_log_2() -> None:
    accuracy = np.linspace(0, 1, 2_001)
    for z in np.linspace(-MOST_SMOOTH, MOST_SMOOTH, 41):
        tilted = accuracy * np.exp(z) / (1 + accuracy * np.expm1(z))
        variance = tilted * (1 - tilted)
        assert np.all(np.diff(variance, 2) <= 1e-14)


def test_what_is_rejected_is_what_the_bound_says() -> None:
    """The largest rejected θ is where the bound, at its largest up to there, uses up what the value leaves."""
    generator = np.random.default_rng(5)
    for _ in range(40):
        cells = random_cells(generator)
        tilt = float(np.sqrt(8 * 3.7 / cells.sum_squares) * np.exp(generator.uniform(-0.5, 1.5)))
        if tilt * cells.largest_weight > 300:
            continue
        bound, level = tilted_bound(cells, tilt), 3.7
        values = generator.uniform(-0.1, 1.3, 20)
        for value, theta in zip(values, bound.rejected(values, level), strict=True):
            room = tilt * value - level
            top = float(cells.target.sum())
            if theta == -1:
                assert float(bound.largest(np.zeros(1), np.zeros(1))[0]) > room
            elif theta == np.inf:
                assert float(bound.largest(np.zeros(1), np.array([top]))[0]) <= room + 1e-9
            else:
                assert float(bound.largest(np.zeros(1), np.array([theta]))[0]) <= room + 1e-7


def test_no_accuracies_beat_the_bound_by_search() -> None:
    """Accuracies that a general optimiser finds, for classes whose weights differ much."""
    target = np.array([0.5, 0.3, 0.2])
    labels = np.array([[200.0, 10.0, 40.0], [20.0, 300.0, 5.0], [10.0, 10.0, 90.0]])
    cells = Cells(target, client_rows(np.array([0.4, 0.35, 0.25]) / labels.sum(axis=1), labels))
    tilt = float(np.sqrt(8 * 3.7 / cells.sum_squares))
    bound = tilted_bound(cells, tilt)
    for theta in (0.05, 0.3, 0.7):
        start = np.full(3, theta)
        result = optimize.minimize(
            lambda accuracy: -exact(cells, tilt, accuracy), start, method="SLSQP", bounds=[(0, 1)] * 3,
            constraints=[{"type": "eq", "fun": lambda accuracy, theta=theta: target @ accuracy - theta}],
        )  # fmt: skip
        assert -result.fun <= value_at(bound, theta) + 1e-8


def test_rounding_can_only_lengthen() -> None:
    """The bound at θ = 0 is what rounding may cost, and not below: nothing is certified there."""
    cells = Cells(np.ones(1), client_rows(np.array([1e-6]), np.array([[1e6]])))
    bound = tilted_bound(cells, 2e3)
    assert 0 < bound.heights[0] <= 1e-7
    assert value_at(bound, 0.0) > 0
    plain = replace(bound, heights=np.append(0.0, bound.heights[1:]))
    values = np.linspace(0, 1, 101)
    assert np.all(bound.rejected(values, 3.7) <= plain.rejected(values, 3.7))


@pytest.mark.parametrize("weight", [0.0, 5.0, 1e3, 1e6])
def test_the_weight_of_a_class_without_examples_does_not_matter(weight: float) -> None:
    """However large it is: nothing overflows, and the bound is the same."""
    target, examples, smooth = np.array([0.3, 0.7]), np.array([[0.0, 400.0]]), np.array([True])
    bounds = [
        tilted_bound(Cells(target, None, ClassRows(np.array([[each, 0.7 / 400]]), examples, smooth)), 900.0)
        for each in (weight, 0.0)
    ]
    assert bounds[0].gains == pytest.approx(bounds[1].gains)
    assert np.all(np.isfinite(bounds[0].gains))


def test_a_heavy_example_beside_many_light_ones_does_not_overflow() -> None:
    rows = ClassRows(np.array([[0.4, 1e-4]]), np.array([[1.0, 6_000.0]]), np.array([True]))
    bound = tilted_bound(Cells(np.array([0.4, 0.6]), None, rows), 1_400.0)
    assert np.all(np.isfinite(bound.gains))


def test_cumulants_of_any_tilt_are_right_and_overflow_nowhere() -> None:
    """Against 400 digits; where only one answer is possible the slope is cut, which can only lengthen an interval."""
    nodes = tilted._nodes(14)
    tilts = np.array([-1e6, -5_000.0, -201.0, -199.0, -3.0, 0.0, 2.0, 199.0, 201.0, 800.0, 1e5])
    values, slopes = tilted._cumulants(tilts[:, None], nodes)
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 400, 10**9, -(10**9)
        for row, tilt in enumerate(tilts):
            grown = Decimal(float(tilt)).exp()
            for column in range(0, len(nodes.values), 7):
                share, rest = Decimal(float(nodes.values[column])), Decimal(float(nodes.complements[column]))
                whole = rest + share * grown
                assert values[row, column] == pytest.approx(float(whole.ln()), rel=1e-11, abs=1e-11)
                slope = (grown - 1) / whole
                if abs(slope) < Decimal("1e80"):
                    assert slopes[row, column] == pytest.approx(float(slope), rel=1e-9)
                else:
                    assert abs(slopes[row, column]) >= 1e80
