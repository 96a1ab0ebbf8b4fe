"""The ridge family of weights: honest, and good for any mix without solving anything."""

from __future__ import annotations

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.clients.statistics import SufficientStatistics
from fedcert.estimation.methods.linear_weights import LinearWeights, MixEigenbasis

_PENALTIES = np.exp(np.linspace(np.log(1e-6), np.log(1e8), 29))


def ridge_rules(evidence: SufficientStatistics, mixes: Floats, deviations: float) -> list[LinearWeights]:
    """For each mix, of the weights that minimise Σ a²/n + penalty·‖mismatch‖², those of least honest half-length."""
    spectrum = MixEigenbasis.of(evidence)
    best = np.full(len(mixes), np.inf)
    rows = np.zeros((len(mixes), len(spectrum.values)))
    for penalty in _PENALTIES:
        found = spectrum.ridge(mixes, float(penalty))
        coefficients = found @ spectrum.vectors.T
        sizes = np.abs(coefficients).sum(axis=1)
        missed = mixes - (found * spectrum.values) @ spectrum.vectors.T
        squares = found**2 @ spectrum.values + evidence.rounding * sizes**2
        slack = evidence.rounding * sizes * (mixes.shape[1] + 1)
        half = np.abs(missed).sum(axis=1) / 2 + slack + deviations * np.sqrt(squares)
        better = half < best
        best[better], rows[better] = half[better], found[better]
    return [spectrum.rule(row) for row in rows]
