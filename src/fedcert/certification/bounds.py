"""Binomial confidence bounds: pure statistics."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import special

from fedcert._arrays import Floats
from fedcert.errors import CallError


def lower_bound(successes: npt.ArrayLike, trials: npt.ArrayLike, failure_probability: float) -> Floats:
    """The one-sided Clopper-Pearson lower bound of a binomial probability.

    Guarantee: for every true p and number of trials, if `successes` is binomial(trials, p), then the
    bound exceeds p with probability at most `failure_probability`.

    Args:
        successes: how often it happened, 0 to `trials`; any shape.
        trials: how many independent trials there were.
        failure_probability: above 0, below 1.

    Examples:
        >>> float(lower_bound(1000, 1000, 0.001)) == 0.001 ** (1 / 1000)
        True
        >>> float(lower_bound(0, 1000, 0.001))
        0.0
    """
    k, n = _checked(successes, trials, failure_probability)
    # The bound is the failure_probability quantile of Beta(k, n - k + 1).
    inner = special.betaincinv(np.maximum(k, 1), n - k + 1, failure_probability)
    every = np.exp(np.log(failure_probability) / n)
    return np.asarray(np.where(k == 0, 0.0, np.where(k == n, every, inner)), dtype=np.float64)


def error_upper_bound(successes: npt.ArrayLike, trials: npt.ArrayLike, failure_probability: float) -> Floats:
    """One minus `lower_bound`, with full relative precision where it is close to 0.

    Radii depend on this tail: 1 - p computed from a rounded p would lose the digits that large n buys.
    """
    k, n = _checked(successes, trials, failure_probability)
    inner = special.betainccinv(n - k + 1, np.maximum(k, 1), failure_probability)
    every = -np.expm1(np.log(failure_probability) / n)
    return np.asarray(np.where(k == 0, 1.0, np.where(k == n, every, inner)), dtype=np.float64)


def _checked(successes: npt.ArrayLike, trials: npt.ArrayLike, failure_probability: float) -> tuple[Floats, Floats]:
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    if not 0 < failure_probability < 1:
        raise CallError(f"failure_probability must be above 0 and below 1, but is {failure_probability}")
    if np.any(n < 1) or np.any(k < 0) or np.any(k > n) or np.any(k != np.floor(k)):
        raise CallError("successes must be whole numbers from 0 to trials, and trials at least 1")
    return k, n
