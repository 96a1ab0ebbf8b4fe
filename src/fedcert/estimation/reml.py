"""Restricted maximum likelihood of a linear mixed model, in the eigenbasis of its information matrix.

The model is c = μ + p·u + e over clients of class mixes p, with Var u = σ² per class and Var e = 1/w known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcert._arrays import Floats

CLASS_VARIANCES = np.concatenate([[0.0], np.geomspace(1e-4, 0.25, 16)])
"""Values of σ² that are tried: none, and from a standard deviation of 0.01 up to ½, the largest of accuracies in
[0, 1]; a factor of 1.7 apart, far less than the data can resolve."""

_ROUNDING = 2.0**-52
"""What is left, at the least, of a number above 0 from which nearly all of it was taken."""


@dataclass(frozen=True)
class RestrictedLikelihood:
    """The data reduced to what the likelihood needs, for one or many curves with the same mixes and weights.

    Attributes:
        values, vectors: eigenvalues and eigenvectors of Pᵀ W P.
        ones: Pᵀ W 1 along the vectors.
        cross: Pᵀ W c along the vectors, curves x directions.
        weight: Σ w.
        first, second: Σ w c and Σ w c², one per curve.
        log_weights: Σ log w.
    """

    values: Floats
    vectors: Floats
    ones: Floats
    cross: Floats
    weight: float
    first: Floats
    second: Floats
    log_weights: float

    @classmethod
    def of(cls, curves: Floats, mixes: Floats, weights: Floats) -> RestrictedLikelihood:
        """From curves (curves x clients), class mixes (clients x classes) and weights, one per client."""
        weighted = mixes * weights[:, None]
        values, vectors = np.linalg.eigh(mixes.T @ weighted)
        return cls(
            np.maximum(values, 0.0), vectors, vectors.T @ weighted.sum(axis=0), (curves @ weighted) @ vectors,
            float(weights.sum()), curves @ weights, curves**2 @ weights, float(np.log(weights).sum()),
        )  # fmt: skip

    def deviance(self, variances: Floats) -> Floats:
        """Twice the negative restricted log-likelihood, up to a constant: variances x curves."""
        shrink = variances[:, None] / (1 + variances[:, None] * self.values)
        left = self._left(shrink)
        rest = self.first - (shrink * self.ones) @ self.cross.T
        quadratic = self.second - shrink @ (self.cross**2).T - rest**2 / left[:, None]
        determinant = np.log1p(variances[:, None] * self.values).sum(axis=1) + np.log(left) - self.log_weights
        return np.asarray(quadratic + determinant[:, None], dtype=np.float64)

    def _left(self, shrink: Floats) -> Floats:
        """What the mean is known by: above 0, also where rounding leaves nothing, beside 10¹⁵ examples."""
        return np.asarray(np.maximum(self.weight - shrink @ self.ones**2, self.weight * _ROUNDING), dtype=np.float64)

    def class_accuracy(self, variance: float) -> tuple[Floats, Floats]:
        """Mean and covariance of μ + u given the first curve, at one σ²."""
        shrink = variance / (1 + variance * self.values)
        left = float(self._left(shrink))
        mean = (self.first[0] - shrink @ (self.ones * self.cross[0])) / left
        accuracy = mean + self.vectors @ (shrink * (self.cross[0] - self.ones * mean))
        by_mean = 1 - self.vectors @ (shrink * self.ones)  # derivative of each class's accuracy by the mean
        covariance = (self.vectors * shrink) @ self.vectors.T + np.outer(by_mean, by_mean) / left
        return np.asarray(accuracy, dtype=np.float64), np.asarray(covariance, dtype=np.float64)
