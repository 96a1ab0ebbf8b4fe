"""The clients' class mixes in the basis in which they are uncorrelated.

With A = Σ l lᵀ/n over the clients, weights a = l·β reach the class mix Aβ, their Σ a²/n is βᵀAβ, and they add up to
1ᵀAβ. Directions that A lacks change no client's weight. A is known up to rounding: directions within the rounding are
left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedcert._arrays import Floats

_ABOVE_ROUNDING = 100.0
"""A direction is kept if its eigenvalue is so many times what rounding may make of a zero: a safety margin."""
_EIGENVALUE_ROUNDING = 1e-14
"""What `eigh` loses, relative to the largest eigenvalue: some 50 units in the last place."""


@dataclass(frozen=True)
class MixEigenbasis:
    """A = Σ l lᵀ/n by its eigenvectors, without those that rounding cannot distinguish from zero.

    Attributes:
        values: eigenvalues, all above the rounding.
        vectors: eigenvectors, one per column.
        ones: the component of (1, …, 1) along each.
    """

    values: Floats
    vectors: Floats
    ones: Floats

    @classmethod
    def of(cls, labels_labels: Floats, rounding: float) -> MixEigenbasis:
        """Of A, whose entries are known up to `rounding`."""
        values, vectors = np.linalg.eigh(labels_labels)
        least = _ABOVE_ROUNDING * max(len(values) * rounding, _EIGENVALUE_ROUNDING * max(float(values[-1]), 0.0))
        kept = values > least
        kept[-1] = True  # some client holds examples
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

    def coefficients(self, row: Floats) -> Floats:
        """β from its parts along the vectors."""
        return np.asarray(self.vectors @ row, dtype=np.float64)

    def projected(self, coefficients: Floats) -> Floats:
        """β without the directions that the clients lack, scaled so that the weights add up to 1."""
        row = self.vectors.T @ coefficients
        return self.coefficients(row / float(row @ (self.values * self.ones)))
