"""What an interval is made of: the bias that a mismatch allows, and the loads that chance works on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcert.estimation.evidence import Evidence
from fedcert.estimation.federation import Federation
from fedcert.estimation.linear_model import Fit, fit
from fedcert.estimation.simplex import Floats

_CLOSEST_TO_CERTAIN = 0.01
"""Estimated accuracies are kept this far from 0 and 1, where standard errors would vanish."""


@dataclass(frozen=True)
class Uncertainty:
    """What an interval is made of.

    Attributes:
        centre: the unbiased-but-for-the-mismatch estimate at each radius, before it is made monotone.
        bias: the most that the mismatch can cost.
        loads: Σ a² p/n over the clients, classes x radii, design effects included; summed over the classes it is
            Σ a²/n. None where only `squares` is known (sums do not tell the loads).
        squares: Σ a²/n at each radius, design effects included.
        class_accuracy: estimated accuracy of each class, classes x radii; None where nothing is known of it.
    """

    centre: Floats
    bias: float
    loads: Floats | None
    squares: Floats
    class_accuracy: Floats | None


def of_weights(federation: Federation, target: Floats, weights: Floats, fitted: Fit | None = None) -> Uncertainty:
    """The uncertainty of a weighted mean of the clients' curves."""
    fitted = fitted or fit(Evidence.of(federation))
    effects = federation.design_effects
    scaled = weights**2 / federation.sizes
    mixes = federation.mixes
    loads = mixes.T @ (scaled[:, None] * effects)
    bias = float(np.abs(target - weights @ mixes).sum() / 2)
    accuracy = np.clip(fitted.class_accuracy, _CLOSEST_TO_CERTAIN, 1 - _CLOSEST_TO_CERTAIN)
    return Uncertainty(weights @ federation.certified_accuracy, bias, loads, scaled @ effects, accuracy)
