"""Polynomials in Bernstein's form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fedcert.population.bernstein import beta_moments, binomial_probabilities, elevated, halves, halving


@pytest.mark.parametrize("k", [1, 12, 100, 400])
def test_probabilities_are_the_binomial_ones(k: int) -> None:
    p = np.array([0.0, 1e-12, 0.3, 0.5, 1 - 1e-12, 1.0])
    expected = stats.binom.pmf(np.arange(k + 1), k, p[:, None])
    np.testing.assert_allclose(binomial_probabilities(k, p, 1 - p), expected, atol=1e-12)


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.5, 0.5), (5.0, 1.0)])
def test_moments_are_those_of_a_beta_distribution(a: float, b: float) -> None:
    first, second = beta_moments(7, a, b)
    np.testing.assert_allclose(first, stats.betabinom.pmf(np.arange(8), 7, a, b))
    # By Gauss and Jacobi's rule, exact for polynomials up to degree 59.
    from scipy.special import beta, roots_jacobi

    nodes, weights = roots_jacobi(30, b - 1, a - 1)
    p, weights = (1 + nodes) / 2, weights / 2 ** (a + b - 1) / beta(a, b)
    table = binomial_probabilities(7, p, 1 - p)
    np.testing.assert_allclose(second, (table * weights[:, None]).T @ table, rtol=1e-10)


def test_halving_gives_the_same_polynomial() -> None:
    scores = np.random.default_rng(0).normal(size=(1, 13))
    ((left, right),) = halves(scores)
    p = np.linspace(0, 1, 11)

    def value(coefficients: np.ndarray, at: np.ndarray) -> np.ndarray:
        return binomial_probabilities(12, at, 1 - at) @ coefficients

    np.testing.assert_allclose(value(left, p), value(scores[0], p / 2), atol=1e-12)
    np.testing.assert_allclose(value(right, p), value(scores[0], 0.5 + p / 2), atol=1e-12)


@pytest.mark.parametrize("k", [1, 100, 2000])
def test_halving_takes_means(k: int) -> None:
    matrix = halving(k)
    np.testing.assert_allclose(matrix.sum(axis=0), 1, rtol=k * 2.0**-53)
    np.testing.assert_allclose(matrix[:, k], stats.binom.pmf(np.arange(k + 1), k, 0.5), rtol=1e-9, atol=1e-300)


def test_elevated_scores_are_means_over_passes_drawn_from_more() -> None:
    scores = np.random.default_rng(1).normal(size=9)
    drawn = stats.hypergeom.pmf(np.arange(9), 30, np.arange(31)[:, None], 8)
    np.testing.assert_allclose(elevated(scores, 30), drawn @ scores, atol=1e-12)
    assert elevated(scores, 8) is scores


def test_elevated_polynomials_are_the_same_after_thousands_of_steps() -> None:
    scores = np.random.default_rng(2).uniform(-0.2, 1.2, size=33)
    p = np.linspace(0, 1, 21)
    expected = binomial_probabilities(32, p, 1 - p) @ scores
    actual = stats.binom.pmf(np.arange(2001), 2000, p[:, None]) @ elevated(scores, 2000)
    np.testing.assert_allclose(actual, expected, atol=1e-11)
