"""Weights by formula and their family, in the basis in which the clients' mixes are independent.

A client with label counts l weighs l·β. With A = Σ l lᵀ/n the weights reach the class mix Aβ, their Σ a²/n is βᵀAβ, and
they add up to 1ᵀAβ. Directions that A lacks change no client's weight. What is known of A is rounded: directions within
the rounding are left out, and what the rounding can cost is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.clients.reported import ReportedClients
from fedcert.estimation.clients.statistics import SufficientStatistics

NO_WEIGHTS = "sums tell no client apart"
_ABOVE_ROUNDING = 100.0
"""Directions count whose eigenvalue is so many times what rounding may make of a zero."""


@dataclass(frozen=True)
class LinearWeights:
    """A client with label counts l weighs l·coefficients."""

    coefficients: Floats

    def weights(self, federation: ReportedClients) -> Floats:
        """The clients' weights, which add up to 1 whatever rounding did to the rule."""
        weights = federation.label_counts @ self.coefficients
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    def mix(self, evidence: SufficientStatistics) -> Floats:
        """The class mix that the weights reach, Σ a p."""
        return np.asarray(evidence.labels_labels @ self.coefficients, dtype=np.float64)

    def squares(self, evidence: SufficientStatistics) -> float:
        """Σ a²/n, which is at least 1/Σ n; what rounding may hide of it is added."""
        squares = float(self.coefficients @ evidence.labels_labels @ self.coefficients)
        return max(squares, 1 / evidence.examples) + evidence.rounding * self._size**2

    def slack(self, evidence: SufficientStatistics) -> float:
        """What rounding of the sums can cost beyond the bias and the centre that they give."""
        return evidence.rounding * self._size * (len(self.coefficients) + 1)

    def curve(self, evidence: SufficientStatistics) -> Floats:
        """The weighted mean of the clients' curves, Σ a c."""
        return np.asarray(self.coefficients @ evidence.labels_certified, dtype=np.float64)

    @property
    def _size(self) -> float:
        return float(np.abs(self.coefficients).sum())


def by_volume(classes: int, examples: float) -> LinearWeights:
    """The rule that weighs clients by their examples."""
    return LinearWeights(np.full(classes, 1 / examples))


@dataclass(frozen=True)
class MixEigenbasis:
    """A = Σ l lᵀ/n by its eigenvectors, without those that rounding cannot tell from nothing.

    Attributes:
        values: eigenvalues, all above the rounding.
        vectors: eigenvectors, one per column.
        ones: how much of (1, …, 1) lies along each.
    """

    values: Floats
    vectors: Floats
    ones: Floats

    @classmethod
    def of(cls, evidence: SufficientStatistics) -> MixEigenbasis:
        """Of some evidence."""
        values, vectors = np.linalg.eigh(evidence.labels_labels)
        least = _ABOVE_ROUNDING * max(len(values) * evidence.rounding, 1e-14 * max(float(values[-1]), 0.0))
        kept = values > least
        kept[-1] = True  # somebody holds something
        return cls(values[kept], vectors[:, kept], vectors[:, kept].T @ np.ones(len(values)))

    @cached_property
    def _mean_share(self) -> Floats:
        return np.asarray(self.values * self.ones**2, dtype=np.float64)

    def ridge(self, mixes: Floats, penalty: float) -> Floats:
        """The weights of least Σ a²/n + penalty·‖mix - Aβ‖² that add up to 1; one row of β per mix, along the vectors.

        β = (h + penalty·mix)/(1 + penalty·values) with h in the direction of (1, …, 1); all terms are positive or of
        their own size, so that nothing cancels however large the penalty is.
        """
        wanted = mixes @ self.vectors
        falling = 1 / (1 + penalty * self.values)
        # 1 - Σ penalty·values·ones·wanted/(1 + penalty·values), where Σ over all directions of ones·wanted is 1.
        missing = mixes.sum(axis=1) - wanted @ self.ones
        first = (missing + wanted @ (self.ones * falling)) / (self._mean_share @ falling)
        rows = (first[:, None] * self.ones + penalty * wanted) * falling
        return np.asarray(rows / (rows @ (self.values * self.ones))[:, None], dtype=np.float64)

    def rule(self, row: Floats) -> LinearWeights:
        """A rule from its parts along the vectors."""
        return LinearWeights(np.asarray(self.vectors @ row, dtype=np.float64))

    def projected(self, coefficients: Floats) -> LinearWeights:
        """A rule without what the clients have no part in, adding up to 1."""
        row = self.vectors.T @ coefficients
        return self.rule(row / float(row @ (self.values * self.ones)))
