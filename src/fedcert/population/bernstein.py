"""Polynomials in Bernstein's form: Σ_j g(j)·C(k, j)·p^j·(1 - p)^(k - j), the mean of g(K) for K binomial(k, p)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import special

from fedcert._arrays import Floats


def binomial_probabilities(k: int, probability: Floats, complement: Floats) -> Floats:
    """P(K = j) for each probability, probabilities x (k + 1).

    Examples:
        >>> binomial_probabilities(2, np.array([0.5]), np.array([0.5])).round(3).tolist()
        [[0.25, 0.5, 0.25]]
    """
    j = np.arange(k + 1)
    powers = special.xlogy(j, probability[:, None]) + special.xlogy(k - j, complement[:, None])
    return np.asarray(np.exp(powers + _log_choose(k)), dtype=np.float64)


def _log_choose(k: int) -> Floats:
    j = np.arange(k + 1)
    return np.asarray(special.gammaln(k + 1) - special.gammaln(j + 1) - special.gammaln(k - j + 1), dtype=np.float64)


def beta_moments(k: int, a: float, b: float) -> tuple[Floats, Floats]:
    """Means of P(K = j) and of P(K = i)·P(K = j) over p of a Beta(a, b) distribution."""
    j, choose = np.arange(k + 1), _log_choose(k)
    both = j[:, None] + j
    first = np.exp(choose + special.betaln(j + a, k - j + b) - special.betaln(a, b))
    second = np.exp(choose[:, None] + choose + special.betaln(both + a, 2 * k - both + b) - special.betaln(a, b))
    return np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)


@lru_cache(maxsize=16)
def halving(k: int) -> Floats:
    """De Casteljau's matrix: coefficients on [a, b] times it are those on the left half; mirrored, on the right one.

    Column i holds the probabilities of a binomial(i, ½): every new coefficient is a mean of old ones. By Pascal's rule:
    an entry of column i comes of i additions of positive numbers, so that its relative error is below i·2⁻⁵³ (and its
    absolute one below 1e-300, next to 0). By logarithms it would be a thousand times that.
    """
    matrix = np.zeros((k + 1, k + 1))
    matrix[0, 0] = 1.0
    for i in range(1, k + 1):
        matrix[:, i] = matrix[:, i - 1] / 2
        matrix[1:, i] += matrix[:-1, i - 1] / 2
    matrix.flags.writeable = False
    return matrix


@lru_cache(maxsize=16)
def _both_halves(k: int) -> Floats:
    left = halving(k)
    return np.hstack([left, left[::-1, ::-1]])


def halves(coefficients: Floats) -> Floats:
    """The coefficients on both halves of cells, one row each: cells x 2 x (k + 1)."""
    cells, scores = coefficients.shape
    return (coefficients @ _both_halves(scores - 1)).reshape(cells, 2, scores)


def elevated(coefficients: Floats, k: int) -> Floats:
    """The same polynomial with k + 1 coefficients, which are at least as many.

    As scores: the mean of the scores of fewer passes, drawn from the k at random. Each step takes means of two
    neighbours and adds a rounding error below 2⁻⁵¹ times the largest coefficient.

    Examples:
        >>> elevated(np.array([0.0, 1.0]), 4).tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    for degree in range(len(coefficients), k + 1):
        share = np.arange(degree + 1) / degree
        before, after = np.append(0.0, coefficients), np.append(coefficients, 0.0)
        coefficients = share * before + (1 - share) * after
    return coefficients
