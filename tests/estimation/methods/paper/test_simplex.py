"""The exact solver against CVXPY, and its optimality conditions on their own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import cvxpy as cp
import numpy as np
import pytest

from fedcert.estimation.methods.paper.simplex import any_closest, distance_bounds, mismatch, of_least_variance


def closest_mixture(mixes: np.ndarray, target: np.ndarray, examples: np.ndarray) -> np.ndarray:
    """Weights of the mixture of `mixes` that is closest to `target`.

    Guarantee: the weights are non-negative and add up to 1, the mismatch is the least possible one, and
    among the weights that reach it theirs is the least Σ a²/n, all up to rounding.

    Args:
        mixes: one distribution over the classes per row.
        target: the wanted distribution.
        examples: how many examples each row rests on, above 0.
    """
    return of_least_variance(any_closest(mixes, target), mixes, target, examples)


def kkt_residual(weights: np.ndarray, mixes: np.ndarray, target: np.ndarray) -> float:
    """How far weights are from satisfying the optimality conditions of ½‖p(S) - Pᵀa‖², all in one number.

    With the gradient g and the multiplier λ = a·g: the largest of (λ - g)⁺ (some other row would be
    closer) and a·|g - λ| (weight on a row that is further away).
    """
    gradient = (mixes - target) @ (weights @ mixes - target)
    multiplier = weights @ gradient
    return float(max(np.max(multiplier - gradient), np.max(weights * np.abs(gradient - multiplier)), 0.0))


Problem = tuple[np.ndarray, np.ndarray, np.ndarray]
SHAPES = {
    "fewer clients than classes": (4, 10),
    "as many": (10, 10),
    "more clients": (30, 10),
    "two classes": (7, 2),
    "one class": (3, 1),
    "one client": (1, 5),
    "many classes": (10, 100),
}
KINDS = (
    "inside the hull",
    "outside the hull",
    "duplicated clients",
    "collinear mixes",
    "zero classes",
    "pure clients",
    "at a client",
)


def problem(generator: np.random.Generator, clients: int, classes: int, kind: str) -> Problem:
    """A random problem of a kind."""
    mixes = generator.dirichlet(np.full(classes, generator.choice([0.05, 0.3, 1.0, 10.0])), size=clients)
    target = generator.dirichlet(np.full(classes, generator.choice([0.3, 1.0, 10.0])))
    if kind == "inside the hull":
        target = generator.dirichlet(np.ones(clients)) @ mixes
    elif kind == "duplicated clients":
        mixes = mixes[generator.integers(0, max(1, clients // 3), size=clients)]
    elif kind == "collinear mixes":
        mixes = np.outer(generator.random(clients), mixes[0] - mixes[-1]) + mixes[-1]
    elif kind == "zero classes":
        held = generator.random(classes) < 0.5
        held[generator.integers(classes)] = True
        mixes = generator.dirichlet(np.ones(held.sum()), size=clients) @ np.eye(classes)[held]
    elif kind == "pure clients":
        mixes = np.eye(classes)[generator.integers(0, classes, size=clients)]
    elif kind == "at a client":
        target = mixes[generator.integers(clients)].copy()
    target = np.maximum(target, 0)
    return mixes, target / target.sum(), generator.integers(1, 500, size=clients).astype(float)


def problems(shape: str, count: int) -> Iterator[Problem]:
    """So many problems of a shape, of all kinds."""
    generator = np.random.default_rng([ord(letter) for letter in shape])
    for index in range(count):
        yield problem(generator, *SHAPES[shape], KINDS[index % len(KINDS)])


def reference(mixes: np.ndarray, target: np.ndarray) -> float:
    """The least mismatch by CVXPY: norm form, Clarabel, at its tightest settings."""
    weights = cp.Variable(len(mixes), nonneg=True)
    task = cp.Problem(cp.Minimize(cp.norm(target - mixes.T @ weights)), [cp.sum(weights) == 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "the solution may be inaccurate": then it is only larger
        task.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    found = np.maximum(weights.value, 0)
    return mismatch(found / found.sum(), mixes, target)


def check(mixes: np.ndarray, target: np.ndarray, examples: np.ndarray) -> np.ndarray:
    weights = closest_mixture(mixes, target, examples)
    assert np.all(weights >= 0)
    assert abs(weights.sum() - 1) <= 1e-12
    assert kkt_residual(weights, mixes, target) <= 1e-10
    return weights


@pytest.mark.parametrize("shape", SHAPES)
def test_weights_are_optimal_on_1000_problems(shape: str) -> None:
    for mixes, target, examples in problems(shape, 1000):
        check(mixes, target, examples)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_mismatch_is_never_above_cvxpys(shape: str) -> None:
    for mixes, target, examples in problems(shape, 70):
        assert mismatch(check(mixes, target, examples), mixes, target) <= reference(mixes, target) + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_the_mismatch_is_never_above_cvxpys_on_1000_problems(shape: str) -> None:
    for mixes, target, examples in problems(shape, 1000):
        assert mismatch(check(mixes, target, examples), mixes, target) <= reference(mixes, target) + 1e-9


@pytest.mark.parametrize("shape", ["more clients", "as many", "two classes", "one class"])
def test_of_all_exact_weights_those_of_least_variance_are_taken(shape: str) -> None:
    """Against CVXPY with the mixture that was reached as a constraint."""
    for mixes, target, examples in problems(shape, 70):
        weights = check(mixes, target, examples)
        other = cp.Variable(len(mixes), nonneg=True)
        variance = cp.sum_squares(cp.multiply(other, 1 / np.sqrt(examples)))
        task = cp.Problem(cp.Minimize(variance), [mixes.T @ other == weights @ mixes, cp.sum(other) == 1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            task.solve(solver=cp.CLARABEL)
        assert task.status in ("optimal", "optimal_inaccurate")
        assert np.sum(weights**2 / examples) <= task.value * (1 + 1e-5)


def test_equal_clients_share_the_weight_by_their_examples() -> None:
    mixes = np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    weights = closest_mixture(mixes, np.array([0.5, 0.5]), np.array([10.0, 20.0, 70.0]))
    assert weights == pytest.approx([0.1, 0.2, 0.7], abs=1e-12)


def test_clients_of_very_different_size() -> None:
    mixes = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    weights = closest_mixture(mixes, np.array([0.5, 0.5]), np.array([1.0, 1e9, 1e9]))
    check(mixes, np.array([0.5, 0.5]), np.array([1.0, 1e9, 1e9]))
    assert weights == pytest.approx([0, 0, 1], abs=1e-6)


def test_the_bounds_hold_and_close() -> None:
    generator = np.random.default_rng(3)
    made = [problem(generator, 8, 6, kind) for kind in KINDS for _ in range(20)]
    exact = [mismatch(closest_mixture(*one), one[0], one[1]) for one in made]
    gram = np.stack([(mixes - target) @ (mixes - target).T for mixes, target, _ in made])
    valid = np.ones((len(made), 8), dtype=bool)
    width = []
    for steps in (0, 5, 50, 500):
        lower, upper, weights = distance_bounds(gram, valid, steps)
        assert np.all(lower <= np.array(exact) + 1e-7)
        assert np.all(upper >= np.array(exact) - 1e-7)
        assert weights.sum(axis=1) == pytest.approx(1)
        width.append(np.mean(upper - lower))
    assert width == sorted(width, reverse=True)
    assert width[-1] < 0.01


def test_bounds_ignore_points_that_do_not_exist() -> None:
    gram = np.array([[[4.0, 0.0], [0.0, 0.0]]])
    lower, upper, _ = distance_bounds(gram, np.array([[True, False]]), 10)
    assert (lower[0], upper[0]) == (2.0, 2.0)


@pytest.mark.parametrize("sizes", [[5, 50, 1000], [5, 50, 1e6], [5, 1e7]])
def test_the_least_variance_is_reached_for_clients_of_very_different_size(sizes: list[float]) -> None:
    generator = np.random.default_rng(0)
    for _ in range(40):
        classes = int(generator.integers(2, 8))
        clients = int(generator.integers(classes, 4 * classes))
        mixes = generator.dirichlet(np.full(classes, generator.choice([0.1, 0.5, 2])), size=clients)
        examples = generator.choice(sizes, size=clients)
        target = generator.dirichlet(np.ones(clients)) @ mixes
        weights = check(mixes, target, examples)
        root = np.sqrt(examples / examples.max())
        other = cp.Variable(clients, nonneg=True)
        task = cp.Problem(
            cp.Minimize(cp.sum_squares(cp.multiply(other, 1 / root))), [mixes.T @ other == weights @ mixes]
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            task.solve(solver=cp.CLARABEL)
        if task.status == "optimal":
            assert np.sum((weights / root) ** 2) <= task.value * (1 + 1e-5)


def test_a_case_that_rounding_once_decided() -> None:
    counts = np.array(
        [[1, 1, 0, 1], [0, 0, 3, 2], [16, 439, 505, 13], [1, 0, 2, 1], [387, 40, 5, 545], [681, 8, 276, 21.0]]
    )
    examples = counts.sum(axis=1)
    weights = closest_mixture(counts / examples[:, None], np.full(4, 0.25), examples)
    assert weights == pytest.approx([0.119, 0, 0.432, 0, 0.364, 0.086], abs=1e-3)
    assert 1 / np.sum(weights**2 / examples) == pytest.approx(198.5, abs=0.1)
