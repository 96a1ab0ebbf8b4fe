"""Post-stratification from sums with noise for privacy."""

from __future__ import annotations

import numpy as np

from fedcert._arrays import Floats
from fedcert.estimation.clients import Clients
from fedcert.estimation.clients.noisy_totals import NoisyTotals
from fedcert.estimation.intervals.half_widths import LEAST_VARIANCE
from fedcert.estimation.intervals.ingredients import Uncertainty, at_all_radii, away_from_certain, class_inflation
from fedcert.estimation.methods.linear_model import decreasing
from fedcert.estimation.methods.point_estimate import PointEstimate
from fedcert.estimation.settings import Settings

_LEAST_EXAMPLES = 0.5
"""Stands in for noisy counts that are smaller, so that divisions by them are defined."""


def noisy_poststratified(clients: Clients, totals: NoisyTotals, target: Floats, settings: Settings) -> PointEstimate:
    """The held classes' Σ u k / Σ u n with u = p/m, of which m are sizes that only choose and weigh.

    One ratio of sums rather than a sum of ratios: noise in a class's n moves k/n to one side, which many classes do not
    average out. Classes that are not held have the pooled curve in the point, and all accuracies in the interval.

    The finite-sample interval does not use what is here (`noisy_interval`). The asymptotic one is right to first order
    in the noise: its variance is Σ u² of the examples' and of the noise in k - L n, with L the estimate, and of the
    noise in m where a class's accuracy differs from it.
    """
    held = totals.sizes > 0
    sizes = np.where(held, totals.sizes, np.inf)
    weights, squares = target / sizes, target**2 / sizes
    missing = float(target[~held].sum())
    mean = _ratio(weights, totals)
    fallback = clients.fallback_curve
    assert fallback is not None  # noqa: S101
    centre = (1 - missing) * mean + missing / 2
    by_class = at_all_radii(clients, squares * class_inflation(clients))
    # Of all accuracies with this mean, equal ones have the largest variance; single classes' are noisy.
    accuracy = away_from_certain(_ratio(squares / sizes, totals))
    each = np.clip(totals.certified / np.maximum(totals.labels, _LEAST_EXAMPLES)[:, None], 0.0, 1.0)
    distance = (weights**2) @ (each - np.clip(mean, 0.0, 1.0)) ** 2
    noise = np.sum(weights**2) * totals.noise_variance(np.clip(mean, 0.0, 1.0)) + totals.sizes_variance * distance
    uncertainty = Uncertainty(
        centre, missing / 2, by_class, by_class.sum(axis=0), np.tile(accuracy, (len(target), 1)), noise=noise
    )
    return PointEstimate(
        decreasing((1 - missing) * mean + missing * fallback), None, weights_note="classes are weighted, not clients",
        uncertainty=uncertainty, settings=settings.used("confidence"), details={"missing_share": missing},
    )  # fmt: skip


def _ratio(weights: Floats, totals: NoisyTotals) -> Floats:
    """Σ w k / Σ w n, with at least half an example below."""
    least = max(_LEAST_EXAMPLES * float(weights.max()), LEAST_VARIANCE)  # the weights are all 0 if no class is held
    return np.asarray(weights @ totals.certified / max(float(weights @ totals.labels), least), dtype=np.float64)
