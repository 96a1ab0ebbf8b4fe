"""The linear model behind BLUP: the certified accuracy of each class, from clients' class mixes and curves.

The model: c = p·L + e with Var e = σ²/n at each client, and L = μ + u over the classes with Var u = λσ². λ is
chosen by restricted maximum likelihood with a weak prior, over all radii together; given λ everything is linear in
the clients' curves. All of it comes from sums over the clients that merge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.optimize import isotonic_regression, minimize_scalar

from fedcert._arrays import Floats
from fedcert.estimation.clients import SufficientStatistics
from fedcert.estimation.methods.linear_weights import LinearWeights

_SMALLEST, _LARGEST = 1e-6, 1e6
"""Bounds of λ: at these, classes are the same or unrelated as far as any federation can resolve."""
_GRID = 49
"""Values of λ that the search starts from: four per power of ten."""
_PRECISION = 1e-6
"""Of log λ: far below its standard error."""
_ZERO = 1e-12
"""Relative to the total: sums of squares below it are zero up to rounding."""

_PRIOR_BETWEEN, _PRIOR_WITHIN = 1.0, 9.0
_EXPECTED = _PRIOR_BETWEEN / _PRIOR_WITHIN
"""The prior on λ: the share λ/(1+λ) of an example's variance that lies between classes is
Beta(1, 9), 0.1 on average, as when the classes' accuracies spread evenly over 0.4 to 0.95.

The prior matters only where the data are weak: with as many classes as clients, and similar mixes, REML alone
estimates λ next to 0 in a quarter of the federations and 1.7 times too large or more in another.
"""


@dataclass(frozen=True)
class Fit:
    """The linear model, fitted.

    Attributes:
        statistics: what it was fitted to.
        ratio: λ, how much the classes differ, relative to the noise of one example.
    """

    statistics: SufficientStatistics
    ratio: float

    @cached_property
    def class_accuracy(self) -> Floats:
        """L at each radius, classes x radii, as the model has it: neither clipped nor monotone."""
        values, ones = self.statistics.eigenbasis.values, self.statistics.eigenbasis.ones
        falling = ones * (1 / (1 + self.ratio * values))
        mean = falling @ self.statistics.cross / (falling @ (values * ones))
        rest = self.statistics.cross - np.outer(values * ones, mean)
        parts = (self.ratio / (1 + self.ratio * values))[:, None] * rest
        return np.asarray(mean + self.statistics.eigenbasis.vectors @ parts, dtype=np.float64)

    def rule(self, target: Floats) -> LinearWeights:
        """The weights whose mean of the clients' curves is the model's answer for a target."""
        row = self.statistics.eigenbasis.ridge(target[None, :], self.ratio)[0]
        return LinearWeights(self.statistics.eigenbasis.coefficients(row))


@lru_cache(maxsize=8)  # one federation's curves for hundreds of mixes share a fit
def fit(statistics: SufficientStatistics) -> Fit:
    """Fit the model, λ by REML pooled over the radii, with a weak prior on λ.

    Minimised is Σ_r w_r (N-1) log Q_r + log|I + λA| + log v + 20 log(1+λ) - 2 log λ, with w_r in proportion to the
    variance μ_r(1-μ_r) of one example at that radius and Σ w_r = 1: the radii of a curve hang together, so all of
    them count as much as one, and radii at which hardly any (or nearly all) examples are certified hardly count.

    Guarantees: λ is within [1e-6, 1e6] whatever the data. Where they hold no information on λ (one client,
    or all curves equal) it is 1/9, and does not matter to the estimate, which is the one client's or the common
    curve. The scale σ_r² is free at each radius, so that examples that come in groups do not pass for differences
    between classes. Pooling is a composite likelihood: fit for λ, not for standard errors.
    """
    values, ones, cross = statistics.eigenbasis.values, statistics.eigenbasis.ones, statistics.cross
    pooled = statistics.certified / statistics.examples
    total_squares = statistics.certified_squared - statistics.certified * pooled
    informative = (total_squares > _ZERO * max(statistics.examples, 1.0)) & (pooled > 0) & (pooled < 1)
    if not informative.any() or statistics.clients < 2:
        return Fit(statistics, _EXPECTED)
    share = (pooled * (1 - pooled))[informative]
    share = share / share.sum()
    # What no accuracies of the classes explain. The rest of Q is a sum of positive terms: nothing cancels.
    unexplained = np.maximum(statistics.certified_squared - np.sum(cross**2 / values[:, None], axis=0), 0.0)

    def objective(log_ratio: float) -> float:
        falling = 1 / (1 + np.exp(log_ratio) * values)
        spread = float(falling @ (values * ones**2))
        rest = (falling * ones) @ cross
        quadratic = unexplained + (falling / values) @ cross**2 - rest**2 / spread
        # Rounding may leave a tiny negative where the model fits exactly.
        quadratic = np.maximum(quadratic[informative], _ZERO * total_squares[informative])
        determinant = np.sum(np.log1p(np.exp(log_ratio) * values)) + np.log(spread)
        total = _PRIOR_BETWEEN + _PRIOR_WITHIN
        prior = 2 * total * np.log1p(np.exp(log_ratio)) - 2 * _PRIOR_BETWEEN * log_ratio
        return float((statistics.clients - 1) * (share @ np.log(quadratic)) + determinant + prior)

    grid = np.linspace(np.log(_SMALLEST), np.log(_LARGEST), _GRID)
    best = int(np.argmin([objective(point) for point in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, _GRID - 1)]
    result = minimize_scalar(objective, bounds=(low, high), method="bounded", options={"xatol": _PRECISION})
    return Fit(statistics, float(np.exp(result.x)))


def decreasing(curve: Floats) -> Floats:
    """The closest curve that does not rise with the radius, within [0, 1]."""
    return np.asarray(np.clip(isotonic_regression(curve, increasing=False).x, 0.0, 1.0), dtype=np.float64)
