"""The minimax estimator: weights whose honest interval is shortest, chosen from the labels alone."""

from __future__ import annotations

import numpy as np
from scipy import stats

from fedcert.estimation.federation import Federation
from fedcert.estimation.interval import FINITE, hoeffding_deviations
from fedcert.estimation.linear_model import decreasing
from fedcert.estimation.methods import Answer, Settings
from fedcert.estimation.shortest import shortest, shortest_convex
from fedcert.estimation.simplex import Floats
from fedcert.estimation.uncertainty import of_weights


def minimax(federation: Federation, target: Floats, settings: Settings) -> Answer:
    """Weights whose honest interval is shortest, of any sign unless the settings say otherwise."""
    weights = minimax_weights(federation, target, settings)
    centre = weights @ federation.certified_accuracy
    return Answer(
        decreasing(centre),
        weights,
        uncertainty=of_weights(federation, target, weights),
        settings=settings.used("non_negative"),
    )


def minimax_weights(federation: Federation, target: Floats, settings: Settings) -> Floats:
    """The weights of least honest half-length; a function of the labels alone."""
    if settings.interval == FINITE:
        radii = len(federation.radii) if settings.simultaneous else 1
        deviations = hoeffding_deviations(settings.confidence, radii)
    else:
        deviations = 0.5 * float(stats.norm.ppf(0.5 + settings.confidence / 2))  # a proportion's sd is at most ½
    mixes, sizes = federation.mixes, federation.sizes.astype(np.float64)
    if len(mixes) < 2:
        return np.ones(len(mixes))
    if settings.non_negative:
        direction = shortest_convex(mixes, sizes, target, deviations)
        weights = sizes * np.maximum(mixes @ direction.coefficients, 0.0)
    else:
        direction = shortest(federation.label_counts.T @ mixes, target, deviations)
        weights = sizes * (mixes @ direction.coefficients)
    return np.asarray(weights / weights.sum(), dtype=np.float64)
