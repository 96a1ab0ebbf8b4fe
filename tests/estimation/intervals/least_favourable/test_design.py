"""Weights for the test of one θ against CVXPY."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest

from fedcert.estimation.intervals.least_favourable.design import DESIGNS, ENDS, criterion, design_coefficients

Z = 2.2


def random_labels(classes: int, clients: int, concentration: float, seed: int) -> np.ndarray:
    generator = np.random.default_rng([classes, clients, seed])
    sizes = generator.integers(20, 500, clients)
    return generator.multinomial(sizes, generator.dirichlet(np.full(classes, concentration), clients)).astype(float)


def largest_bias(difference: np.ndarray, target: np.ndarray, theta: float) -> float:
    """d·L at its largest over 0 <= L <= 1 with p(S)·L = θ."""
    accuracy = cp.Variable(len(target))
    task = cp.Problem(cp.Maximize(difference @ accuracy), [accuracy >= 0, accuracy <= 1, target @ accuracy == theta])
    return float(task.solve(solver=cp.CLARABEL))


def reference(labels: np.ndarray, target: np.ndarray, theta: float) -> float:
    """The least bias plus chance over all weights: the bias by its dual, a linear programme of its own."""
    sizes = labels.sum(axis=1)
    weights, price, over = cp.Variable(len(labels)), cp.Variable(), cp.Variable(len(target), nonneg=True)
    difference = (labels / sizes[:, None]).T @ weights - target
    chance = Z * np.sqrt(theta * (1 - theta)) * cp.norm(cp.multiply(weights, 1 / np.sqrt(sizes)))
    task = cp.Problem(
        cp.Minimize(price * theta + cp.sum(over) + chance), [over >= difference - price * target, cp.sum(weights) == 1]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(task.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11))


@pytest.mark.parametrize("theta", [0.01, 0.12, 0.5, 0.97])
@pytest.mark.parametrize(
    ("classes", "clients", "concentration"), [(3, 8, 0.5), (10, 30, 0.3), (10, 6, 1.0), (20, 20, 0.1)]
)
def test_no_weights_have_much_less_bias_and_chance(
    classes: int, clients: int, concentration: float, theta: float
) -> None:
    labels = random_labels(classes, clients, concentration, 0)
    sizes = labels.sum(axis=1)
    target = np.random.default_rng(classes).dirichlet(np.full(classes, 2.0))
    coefficients = design_coefficients((labels / sizes[:, None]).T @ labels, target, theta, Z)
    weights = labels @ coefficients
    assert weights.sum() == pytest.approx(1, abs=1e-9)
    chance = Z * np.sqrt(theta * (1 - theta) * np.sum(weights**2 / sizes))
    value = largest_bias(weights @ (labels / sizes[:, None]) - target, target, theta) + float(chance)
    least = reference(labels, target, theta)
    cheapest = Z * np.sqrt(theta * (1 - theta) / labels.sum())
    assert least - 1e-7 <= value <= least + 0.012 * max(cheapest, least)


def test_the_criterion_is_bias_and_chance() -> None:
    """With p(S)·L <= θ the bias is that of the most wanted classes, filled up to θ."""
    target, reached = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.35, 0.25])
    # Class 2 gains ¼ of its share, class 1 a sixth.
    assert criterion(reached, target, 0.0, 0.1, Z) == pytest.approx(0.1 * 0.25)
    assert criterion(reached, target, 0.0, 0.3, Z) == pytest.approx(0.05 + 0.1 / 6)
    assert criterion(reached, target, 0.0, 0.9, Z) == pytest.approx(0.1)
    assert criterion(target, target, 0.04, 0.5, Z) == pytest.approx(Z * 0.1)


def test_a_class_outside_the_target_is_bias_at_every_theta() -> None:
    assert criterion(np.array([0.9, 0.1]), np.array([1.0, 0.0]), 0.0, 0.2, Z) == pytest.approx(0.1)


def test_designs_lie_within_their_segments() -> None:
    assert list(ENDS) == sorted(ENDS)
    assert ENDS[-1] == 1
    assert all(start < theta < end for start, theta, end in zip((0.0, *ENDS), DESIGNS, ENDS, strict=False))
