"""The minimax weights against CVXPY."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest

from factories import dirichlet, federation, ordinary
from fedcert.estimation.intervals.half_widths import hoeffding_deviations
from fedcert.estimation.methods import minimax_solver
from fedcert.estimation.methods.minimax_solver import shortest, shortest_convex
from fedcert.estimation.methods.registry import estimator
from fedcert.estimation.settings import Settings

Z = hoeffding_deviations(0.95)


def half_width(weights: np.ndarray, mixes: np.ndarray, sizes: np.ndarray, target: np.ndarray) -> float:
    return float(np.abs(target - weights @ mixes).sum() / 2 + Z * np.sqrt(np.sum(weights**2 / sizes)))


def reference(mixes: np.ndarray, sizes: np.ndarray, target: np.ndarray, convex: bool) -> float:
    weights = cp.Variable(len(sizes), nonneg=convex)
    length = 0.5 * cp.norm1(target - mixes.T @ weights) + Z * cp.norm(cp.multiply(weights, 1 / np.sqrt(sizes)))
    task = cp.Problem(cp.Minimize(length), [cp.sum(weights) == 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        task.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return float(task.value)


@pytest.mark.parametrize(("classes", "clients"), [(2, 1), (3, 5), (10, 5), (10, 10), (10, 100), (30, 60)])
def test_no_weights_have_a_shorter_interval(classes: int, clients: int) -> None:
    generator = np.random.default_rng([classes, clients])
    for index in range(6):
        mixes = generator.dirichlet(np.full(classes, (0.05, 0.3, 2)[index % 3]), size=clients)
        if index == 5 and classes > 2:
            mixes[:, 0] = 0  # a class that nobody holds
            mixes /= mixes.sum(axis=1, keepdims=True)
        sizes = generator.integers(1, 500, clients).astype(float)
        target = generator.dirichlet(np.ones(classes)) if index % 2 else np.full(classes, 1 / classes)
        found = shortest(mixes.T @ (sizes[:, None] * mixes), target, Z)
        weights = sizes * (mixes @ found.coefficients)
        assert weights.sum() == pytest.approx(1, abs=1e-9)
        assert half_width(weights, mixes, sizes, target) == pytest.approx(
            reference(mixes, sizes, target, False), abs=1e-8
        )
        assert found.half_width == pytest.approx(half_width(weights, mixes, sizes, target), abs=1e-9)
        convex = shortest_convex(mixes, sizes, target, Z)
        weights = sizes * np.maximum(mixes @ convex.coefficients, 0)
        assert weights.sum() == pytest.approx(1, abs=1e-9)
        assert half_width(weights, mixes, sizes, target) == pytest.approx(
            reference(mixes, sizes, target, True), abs=1e-8
        )


@pytest.mark.parametrize("method", ["minimax", "blup"])
def test_weights_can_be_kept_non_negative(method: str) -> None:
    generator = np.random.default_rng(0)
    labels = dirichlet(0.3)(10, generator)
    made = federation(labels, ordinary(10, generator).draw(labels, generator), False)
    target = generator.dirichlet(np.full(10, 0.3))
    free = estimator(method)(made, target, Settings()).weights
    kept = estimator(method)(made, target, Settings(non_negative=True)).weights
    assert free is not None
    assert kept is not None
    assert free.min() < 0 <= kept.min()
    assert kept.sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(("classes", "clients"), [(3, 5), (10, 5), (10, 10), (12, 4), (30, 30), (10, 100)])
def test_the_path_ends_where_the_barrier_does(classes: int, clients: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ways to one solution, for targets of one class too; the path is given up in few cases."""
    generator = np.random.default_rng([classes, clients])
    labels = generator.multinomial(generator.integers(20, 500, clients), generator.dirichlet(np.ones(classes), clients))
    matrix = (labels / labels.sum(axis=1, keepdims=True)).T @ labels
    targets = [*np.eye(classes)[:5], *generator.dirichlet(np.ones(classes), 5)]
    followed = 0
    for target in targets:
        fast = shortest(matrix, target, Z)
        followed += minimax_solver._by_path(matrix, target, Z, None) is not None
        with monkeypatch.context() as patch:
            patch.setattr(minimax_solver, "_by_path", lambda *_: None)
            slow = shortest(matrix, target, Z)
        assert fast.half_width == pytest.approx(slow.half_width, abs=1e-9)
        assert matrix @ fast.coefficients == pytest.approx(matrix @ slow.coefficients, abs=1e-6)
    assert followed >= 8
