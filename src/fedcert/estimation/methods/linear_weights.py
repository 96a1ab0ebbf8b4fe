"""Weights by formula, w = l·β of a client with label counts l, and the ridge family of them.

What is known of the clients is rounded; what the rounding can cost is part of every length here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.clients import ReportedClients, SufficientStatistics

NO_WEIGHTS = "sums tell no client apart"
_PENALTIES = np.exp(np.linspace(np.log(1e-6), np.log(1e8), 29))
"""From weights by volume to weights without mismatch, for any federation of up to 10⁸ examples; two per power of ten.
The page's script has the same."""


@dataclass(frozen=True)
class LinearWeights:
    """A client with label counts l weighs l·coefficients."""

    coefficients: Floats

    def weights(self, federation: ReportedClients) -> Floats:
        """The clients' weights, which add up to 1 in spite of rounding."""
        weights = federation.label_counts @ self.coefficients
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    def mix(self, statistics: SufficientStatistics) -> Floats:
        """The class mix that the weights reach, Σ a p."""
        return np.asarray(statistics.labels_labels @ self.coefficients, dtype=np.float64)

    def sum_squared_weights(self, statistics: SufficientStatistics) -> float:
        """Σ a²/n, which is at least 1/Σ n; what rounding may hide of it is added."""
        squares = float(self.coefficients @ statistics.labels_labels @ self.coefficients)
        return max(squares, 1 / statistics.examples) + statistics.rounding * self._size**2

    def slack(self, statistics: SufficientStatistics) -> float:
        """What rounding of the sums can cost beyond the bias and the centre that they give."""
        return statistics.rounding * self._size * (len(self.coefficients) + 1)

    def curve(self, statistics: SufficientStatistics) -> Floats:
        """The weighted mean of the clients' curves, Σ a c."""
        return np.asarray(self.coefficients @ statistics.labels_certified, dtype=np.float64)

    def half_width(self, statistics: SufficientStatistics, target: Floats, deviations: float) -> float:
        """The honest half-width: ½‖mismatch‖₁ + z·sqrt(Σ a²/n), with what rounding can cost."""
        missed = float(np.abs(target - self.mix(statistics)).sum() / 2) + self.slack(statistics)
        return missed + deviations * float(np.sqrt(self.sum_squared_weights(statistics)))

    @property
    def _size(self) -> float:
        return float(np.abs(self.coefficients).sum())


def by_volume(classes: int, examples: float) -> LinearWeights:
    """The rule that weighs clients by their examples."""
    return LinearWeights(np.full(classes, 1 / examples))


def ridge_rules(statistics: SufficientStatistics, mixes: Floats, deviations: float) -> list[LinearWeights]:
    """For each mix, of the weights that minimise Σ a²/n + penalty·‖mismatch‖², those of least honest half-width."""
    vectors, values = statistics.eigenbasis.vectors, statistics.eigenbasis.values
    best = np.full(len(mixes), np.inf)
    rows = np.zeros((len(mixes), len(values)))
    for penalty in _PENALTIES:
        ridge = statistics.eigenbasis.ridge(mixes, float(penalty))
        sizes = np.abs(ridge @ vectors.T).sum(axis=1)
        missed = mixes - (ridge * values) @ vectors.T
        squares = ridge**2 @ values + statistics.rounding * sizes**2
        slack = statistics.rounding * sizes * (mixes.shape[1] + 1)
        half = np.abs(missed).sum(axis=1) / 2 + slack + deviations * np.sqrt(squares)
        better = half < best
        best[better], rows[better] = half[better], ridge[better]
    return [LinearWeights(statistics.eigenbasis.coefficients(row)) for row in rows]
